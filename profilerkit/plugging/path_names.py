"""Paths as parts of module names: a name that says which file it stands for, in another process too."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["escape", "find_path", "without_number"]


def escape(text: str, keep: str = "") -> str:
    """Return a text with its code in place of each character that is no letter, digit or one of ``keep``.

    >>> escape("/my/net.py")
    '_2f_my_2f_net_2e_py'
    """
    return "".join(char if (char.isascii() and char.isalnum()) or char in keep else f"_{ord(char):x}_" for char in text)


def find_path(name: str) -> Path:
    """Return the path that a name was made of.

    >>> str(find_path("_2f_my_2f_net_2e_py__2"))
    '/my/net.py'
    """
    return Path(re.sub(r"_([0-9a-f]+)_", lambda match: chr(int(match[1], 16)), without_number(name)))


def without_number(name: str) -> str:
    """Return a name without the number that tells it from earlier ones: ``net`` for ``net__2``."""
    return re.sub(r"__\d+$", "", name)
