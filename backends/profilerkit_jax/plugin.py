"""The JAX backend as a plugin; importing this does not import jax, and nothing else that is slow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from profilerkit import BackendInfo, hookimpl

if TYPE_CHECKING:
    from profilerkit import Backend


def load() -> Backend:
    """Import jax and return the backend; raises ImportError if jax is missing or too old."""
    from profilerkit.backend_kit.installed import find_version, require_version

    from .compat import MINIMUM

    import_module("jax")  # the imported module tells its version, even if pip knows another version
    require_version("jax", find_version("jax"), MINIMUM)
    from .backend import JaxBackend

    return JaxBackend()


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the JAX backend."""
    from .compat import TESTED, find_versions
    from .model.recognition import FRAMEWORKS, claims

    return [
        BackendInfo(
            name="jax",
            frameworks=FRAMEWORKS,
            load=load,
            requirement="profilerkit[jax]",
            claims=claims,
            installed=find_versions,
            tested=TESTED,
        )
    ]
