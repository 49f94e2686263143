"""Frames of Python that ask something of TensorFlow: whether they are the model's own code, and where they stand."""

from __future__ import annotations

from pathlib import PurePath
from types import FrameType

__all__ = ["describe_line", "find_asking", "is_of_a_library", "outside_of_libraries"]

#: This package, whose frames are around those of the model.
_THIS_PACKAGE = __name__.partition(".")[0]
#: Packages whose own questions lead to the same work either way.
_LIBRARIES = ("keras", "numpy", "optree", "tensorflow", "tf_keras", "tree", _THIS_PACKAGE)


def find_asking(frame: FrameType | None) -> FrameType | None:
    """Return the frame that asks: autograph calls functions for the code that it has converted."""
    while frame is not None and _name_module(frame).startswith("tensorflow.python.autograph."):
        frame = frame.f_back
    return frame


def outside_of_libraries(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the model's own code; None where a library asks for itself."""
    while frame is not None and is_of_a_library(frame):
        if _name_module(frame).partition(".")[0] == _THIS_PACKAGE:
            return None
        frame = frame.f_back
    return frame


def is_of_a_library(frame: FrameType | None) -> bool:
    """Return whether a frame runs code of a library, and not of the model."""
    return frame is None or _name_module(frame).partition(".")[0] in _LIBRARIES


def describe_line(frame: FrameType) -> str:
    """Return the file and line of a frame."""
    return f"{PurePath(frame.f_code.co_filename).name}, line {frame.f_lineno}"


def _name_module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
