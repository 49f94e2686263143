"""The PyTorch backend as a plugin; importing this does not import torch."""

from __future__ import annotations

from profilerkit import Backend, BackendInfo, hookimpl

MINIMUM = (2, 10)


def load() -> Backend:
    """Import torch and return the backend; raises ImportError where torch is missing or too old."""
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM:
        raise ImportError(f"torch {torch.__version__} is too old, {'.'.join(map(str, MINIMUM))} or newer is needed")
    from .backend import TorchBackend

    return TorchBackend()


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the PyTorch backend."""
    return [BackendInfo(name="torch", frameworks=("torch",), load=load, requirement="profilerkit[torch]")]
