"""The line of the user's code that a warning is about."""

from __future__ import annotations

import sys

__all__ = ["find_stack_level"]


def find_stack_level(*further_packages: str) -> int:
    """Return the ``stacklevel`` of a warning of the calling function: that of the nearest caller outside profilerkit.

    Callers in ``further_packages`` are passed over too.
    """
    packages = ("profilerkit", *further_packages)
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame, level = frame.f_back, level + 1
    return level
