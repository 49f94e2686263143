"""Private names of a framework, which its next release may not have: all are read here, by their path.

Only the ``compat`` of each backend uses this. It says what each private name is for, and what replaces a missing one:
another way to the same numbers, a note, or an error.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from ..errors import NotOfferedError
from .installed import find_version

__all__ = ["PrivateNames", "field", "find", "make_refusal"]


def find(path: str) -> Any:
    """Return the object at a dotted path, importing the modules on the way; None if there is no such name.

    Where a package has a module, and something else, of the same name, a path through it leads through the module.
    Raises `ImportError` if the framework itself is not installed: its backend cannot be imported then.

    >>> import os
    >>> find("os.path.join") is os.path.join
    True
    >>> find("os.path._no_such_name") is None
    True
    """
    import_module(path.partition(".")[0])
    parent, _, name = path.rpartition(".")
    for spelling in (f"{parent}:{name}", path):  # an attribute of a module; else a module, or a member of a class
        with suppress(ImportError, AttributeError):
            return resolve_name(spelling)
    return None


def field(name: str) -> str:
    """Return the name of a private attribute of a framework's objects, which no path leads to.

    Tests replace this function, and `find`, to test what happens without a name.

    >>> field("_parameters")
    '_parameters'
    """
    return name


def make_refusal(library: str, name: str, purpose: str) -> NotOfferedError:
    """Return the error of a capability that a release of a library does not have, as it is without a private name."""
    return NotOfferedError(
        f"{library} {find_version(library)} has no {name}, by which profilerkit {purpose}; use a release of {library} "
        "that profilerkit was tested with, or a newer profilerkit"
    )


class PrivateNames:
    """The private names of one library.

    Attributes:
        library: The name of its package.
        lacking: Sentences about features that are off in this release: each report has them as notes.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        self.lacking: list[str] = []

    def find_first(self, *paths: str, instead: Any = None, off: str = "") -> Any:
        """Return the object at the first of these paths that this release has; ``instead`` if it has none of them.

        ``off`` is the sentence about the feature that is off then; it is empty if ``instead`` is another way to the
        same result, or if the use of the name tells the user.
        """
        for path in paths:
            value = find(path)
            if value is not None:
                return value
        if off:
            self.lacking.append(f"{self.library} {find_version(self.library)} has no {paths[0]}: {off}")
        return instead

    def make_refusal(self, name: str, purpose: str) -> NotOfferedError:
        """Return the error of a capability that is off without a name."""
        return make_refusal(self.library, name, purpose)
