"""``profile(build, mesh=..., parallelize=..., rank=...)``: one rank's share of a model in place of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profilerkit import Backend
from profilerkit.arguments.checks import at_least
from profilerkit.backend import BACKEND
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError
from profilerkit.isolation.job import is_builder

from .layout import MESH, PASSES, RankModel, read_parallelize, read_rank

__all__ = ["place_on_mesh"]


def place_on_mesh(
    model: Any, backend: Backend | str | None, arguments: Mapping[str, Any], trust: bool
) -> tuple[RankModel, Backend]:
    """Return the share of one rank of what a function builds, with the backend that traces it.

    Raises `ArgumentError` for a model that is built already, and for a mesh, a rank or a scheme that cannot be.
    """
    from profilerkit.plugging.backends import backend_named

    from .rank_backend import RankBackend

    if arguments.get("mesh") is None:
        name = next(name for name, value in arguments.items() if value is not None)
        raise ArgumentError(f"{name} is of a mesh; give that too: mesh={{'dp_shard': 8}}")
    mesh = MESH("mesh", arguments["mesh"])
    if not (isinstance(model, str) or is_builder(model)):
        raise ArgumentError(
            f"model={shown(model)} is built already; with mesh= give the function that builds it, without weights: "
            "profile(build, inputs, mesh=...), or its text, such as 'train.py:build'"
        )
    rank = read_rank(0 if arguments.get("rank") is None else arguments["rank"], mesh)
    parallelize = read_parallelize(arguments.get("parallelize"))
    name = backend.name if isinstance(backend, Backend) else BACKEND("backend", backend) or "torch"
    passes = 1 if arguments.get(PASSES) is None else at_least(1)(PASSES, arguments[PASSES])
    return RankModel(model, mesh, parallelize, rank, passes, trust), RankBackend(backend_named(name))
