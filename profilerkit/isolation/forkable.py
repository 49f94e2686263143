"""Processes that must not be forked: their threads, locks or devices do not come along into the copy."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import InputError

__all__ = ["NEVER_FORKED", "require_forkable", "suggest_fork"]

#: Frameworks that forbid a fork once imported: their threads and locks do not come along, and the copy waits for them.
NEVER_FORKED = {"tensorflow": "TensorFlow", "jax": "JAX"}


def require_forkable(who: str) -> None:
    """Raise `InputError` if this process has imported or uses a library that does not survive a fork."""
    for module, name in NEVER_FORKED.items():
        if module in sys.modules:
            raise InputError(
                f"{who} has imported {name}, which must not be forked: the copy may wait for its threads for ever; "
                "use start_method='spawn'"
            )
    if _uses_gpu():
        raise InputError(f"{who} uses CUDA, which must not be forked; use start_method='spawn'")


def suggest_fork() -> str:
    """Return the end of an error that advises to fork this process; empty if it has imported one of `NEVER_FORKED`."""
    return "" if any(module in sys.modules for module in NEVER_FORKED) else ", or use start_method='fork'"


def _uses_gpu() -> bool:
    """Return whether torch has started CUDA, or this process has a GPU open, whatever library has opened it."""
    torch = sys.modules.get("torch")
    initialized = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    if initialized is not None and initialized():
        return True
    try:
        return any(map(_is_gpu, Path("/proc/self/fd").iterdir()))
    except OSError:  # no Linux
        return False


def _is_gpu(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith(("/dev/nvidia", "/dev/kfd"))
    except OSError:  # it was closed meanwhile
        return False
