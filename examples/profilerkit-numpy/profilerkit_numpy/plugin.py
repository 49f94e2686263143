"""The numpy backend as a plugin; importing this does not import numpy."""

from __future__ import annotations

from profilerkit import Backend, BackendInfo, hookimpl


def _load() -> Backend:
    from .backend import NumpyBackend

    return NumpyBackend()


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the numpy backend, for models whose classes come from this package."""
    return [BackendInfo("numpy", frameworks=("profilerkit_numpy",), load=_load, requirement="numpy", api_version=1)]
