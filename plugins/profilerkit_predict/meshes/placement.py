"""``profile(build, mesh=..., parallelize=..., rank=...)``: one rank's share of a model in place of the model."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from profilerkit import Backend
from profilerkit.arguments.checks import at_least
from profilerkit.backend import BACKEND
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError
from profilerkit.job import is_builder
from profilerkit.models.python_loaders import is_in_file

from .layout import MESH, PASSES, RankModel, read_parallelize, read_rank

#: The backend of a model whose file imports no framework, or several.
_USUAL = "torch"


def place_on_mesh(
    model: Any, backend: Backend | str | None, arguments: Mapping[str, Any], trust: bool
) -> tuple[RankModel, Backend]:
    """Return one rank's share of the model that a function builds, with the backend that traces it.

    Raises `ArgumentError` for a model that is built already, and for an impossible mesh, rank or scheme.
    """
    from profilerkit.hooks.backends import backend_named

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
    stated = backend.name if isinstance(backend, Backend) else BACKEND("backend", backend)
    passes = 1 if arguments.get(PASSES) is None else at_least(1)(PASSES, arguments[PASSES])
    rank_backend = RankBackend(backend_named(stated or _find_backend(model)))
    return RankModel(model, mesh, parallelize, rank, passes, trust), rank_backend


def _find_backend(build: Any) -> str:
    """Return the name of the backend of the framework that the file of a function imports."""
    from profilerkit.hooks.backends import backends

    imports = _list_imports(_find_file(build))
    names = [info.name for info in backends() if not imports.isdisjoint(info.frameworks)]
    return names[0] if len(names) == 1 else _USUAL


def _find_file(build: Any) -> Path | None:
    """Return the Python file of a function, or of a text that names it; None if it is in no file."""
    if not isinstance(build, str):
        function = build.func if isinstance(build, partial) else build
        module = sys.modules.get(getattr(function, "__module__", ""))
        name = getattr(module, "__file__", None)
    else:
        name = build.rpartition(":")[0] if is_in_file(build) else None
    file = Path(name or "")
    return file if file.suffix == ".py" and file.exists() else None


def _list_imports(file: Path | None) -> set[str]:
    """Return all words of the import statements of a file, in functions too; none without a file."""
    try:
        text = "" if file is None else file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    statements = re.findall(r"^\s*(?:import|from)\s.*", text, re.MULTILINE)
    return set(re.findall(r"\w+", "\n".join(statements)))
