"""The runtime itself: onnxruntime, imported when it is first needed; without it models are counted all the same."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from profilerkit import NotOfferedError

__all__ = ["is_installed", "onnxruntime"]


def is_installed() -> bool:
    """Return whether onnxruntime is there, without importing it."""
    try:
        return find_spec("onnxruntime") is not None
    except ValueError:  # whoever has put None in its place forbids to import it
        return False


def onnxruntime() -> Any:
    """Return the module; raises `NotOfferedError` where it is not installed."""
    try:
        import onnxruntime as module
    except ImportError as error:
        raise NotOfferedError(
            f"the onnx backend runs models by onnxruntime, which cannot be imported ({error}); pip install onnxruntime"
        ) from error
    return module
