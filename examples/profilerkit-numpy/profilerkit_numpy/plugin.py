"""The numpy backend as a plugin; importing this does not import numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit import BackendInfo, hookimpl
from profilerkit.backend_kit.installed import find_version

if TYPE_CHECKING:
    from profilerkit import Backend


def _load() -> Backend:
    from .backend import NumpyBackend

    return NumpyBackend()


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the numpy backend, for models whose classes come from this package."""
    return [
        BackendInfo(
            "numpy",
            frameworks=("profilerkit_numpy",),
            load=_load,
            requirement="numpy",
            installed=lambda: {"numpy": find_version("numpy")},
            preload=("profilerkit_numpy.backend",),
            api_version=1,
        )
    ]
