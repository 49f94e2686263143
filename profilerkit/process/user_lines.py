"""The line of the user's code that a warning is about."""

from __future__ import annotations

import sys

__all__ = ["find_stack_level", "is_loaded_file", "is_own_module"]


#: Modules that call profilerkit for profilerkit: the leaving of a context manager, the call of a hook.
_BETWEEN = ("contextlib", "pluggy")

#: Below this module are those of the files that models are loaded from.
_LOADED_FILES = "profilerkit.models.loaded_files."


def find_stack_level() -> int:
    """Return the ``stacklevel`` of a warning at the nearest caller outside profilerkit."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not (is_own_module(module) or module.partition(".")[0] in _BETWEEN):
            break
        frame, level = frame.f_back, level + 1
    return level


def is_own_module(name: str) -> bool:
    """Return whether a module is of profilerkit, or of a package that is named after it, as backends and plugins are.

    >>> is_own_module("profilerkit.api"), is_own_module("profilerkit_torch.backend"), is_own_module("profilers")
    (True, True, False)
    """
    return name.partition(".")[0].partition("_")[0] == "profilerkit" and not is_loaded_file(name)


def is_loaded_file(name: str) -> bool:
    """Return whether a module is the user's: of a file that a model was loaded from."""
    return name.startswith(_LOADED_FILES)
