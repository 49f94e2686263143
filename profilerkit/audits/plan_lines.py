"""The lines of a plan's file, for messages: TOML's reader does not say where a key stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..errors import PlanError, ProfilerKitError, by_likeness, nearest

__all__ = ["Lines", "misplaced_key", "unknown_key"]

#: How many keys a message names.
_NAMED = 8
_HEADER = re.compile(r"\s*\[(\[)?\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*["']?([\w.\-*:/]+)["']?\s*=""")


class Lines:
    r"""Finds the line of a key: at the top of a file, or in the ``[[models]]`` with a number counted from 0.

    >>> text = 'metrics = ["macs"]\n[[models]]\nspec = "a"\n[[models]]\nspce = "b"'
    >>> Lines("zoo.toml", text).line("spce", 1)
    5
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._lines = text.splitlines()

    def line(self, key: str, index: int = -1) -> int | None:
        """Return the line of a key, counted from 1; None if it stands in no line of its own."""
        anywhere = None
        for number, (line, table) in enumerate(self._with_tables(), start=1):
            match = _KEY.match(line) or _HEADER.match(line)
            name = match.group(match.lastindex or 1) if match else None
            if name is not None and key in (name, name.partition(".")[0]):
                if table == index:
                    return number
                anywhere = anywhere or number
            elif anywhere is None and re.search(rf"[{{,]\s*{re.escape(key)}\s*=", line):
                anywhere = number
        return anywhere

    def line_of_text(self, text: str, index: int = -1) -> int | None:
        """Return the line in which a text stands in quotes, counted from 1; None if it stands in none."""
        quoted = (f'"{text}"', f"'{text}'")
        for number, (line, table) in enumerate(self._with_tables(), start=1):
            if table == index and any(each in line for each in quoted):
                return number
        return None

    def _with_tables(self) -> Iterator[tuple[str, int]]:
        """Yield each line with the number of its ``[[models]]``; -1 for what belongs to the plan as a whole."""
        models, current = -1, -1
        for line in self._lines:
            header = _HEADER.match(line)
            if header is not None:
                name = header.group(2)
                models += bool(header.group(1)) and name == "models"
                current = models if name.partition(".")[0] == "models" else -1
            yield line, current

    def at(self, message: str, key: str, index: int = -1, text: str | None = None) -> str:
        """Return a message with the file and the line of a key before it; with ``text`` that of a text in quotes."""
        number = None if text is None else self.line_of_text(text, index)
        number = self.line(key, index) if number is None else number
        where = f", model {index + 1}" if number is None and index >= 0 else ""
        return f"{self.file}{where if number is None else f', line {number}'}: {message}"

    @contextmanager
    def errors(self, index: int = -1) -> Iterator[None]:
        """Turn errors of values into a `PlanError` with the line of the key that the message names first."""
        try:
            yield
        except PlanError as error:
            if str(error).startswith(self.file):
                raise
            raise PlanError(self.at(str(error), _first_word(error), index)) from error
        except (ProfilerKitError, TypeError) as error:
            raise PlanError(self.at(str(error), _first_word(error), index)) from error


def _first_word(error: Exception) -> str:
    match = re.match(r"(?:an entry of )?(\w+)", str(error))
    return match.group(1) if match else ""


def misplaced_key(key: str, what: str) -> str:
    """Return the message for a key that stands in the wrong part of a plan."""
    where = "in a [[models]] table" if what == "plan" else "at the top of the plan, before the first [[models]]"
    return f"{key!r} does not belong in a {what}; write it {where}"


def unknown_key(key: str, keys: Iterable[str], what: str) -> str:
    """Return the message for a key that a plan does not have: with the nearest one, and all of them."""
    names = list(keys)
    likely = nearest(key, names)
    meant = f"; did you mean {likely!r}?" if likely else ";"
    return f"unknown key {key!r}{meant} a {what} has, nearest first: {', '.join(by_likeness(key, names)[:_NAMED])}, ..."
