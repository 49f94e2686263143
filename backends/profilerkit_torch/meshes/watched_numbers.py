"""The numbers by which blocks know which ones they are: whether a block asks for its own while it runs.

Blocks that differ in such a number alone do the same unless they ask: ``if self.layer_idx == 5``. A block that only
keeps its number, or hands it on, does not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["OwnNumber", "watch_numbers"]

#: What Python calls when a number is compared, computed with, written, or used as an index or a key.
_QUESTIONS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "bool", "hash", "index", "int", "float", "str", "repr", "format"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "mod", "rmod", "divmod", "rdivmod", "floordiv", "rfloordiv"),
    *("truediv", "rtruediv", "pow", "rpow", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift"),
    *("rshift", "rrshift", "neg", "pos", "abs", "invert"),
)


class OwnNumber(NamedTuple):
    """A number that a block keeps: the attributes of the object that has it, and its name there."""

    attributes: dict[str, Any]
    name: str


class _WatchedNumber(int):
    """A number that notes in ``asked`` when it is asked for its value."""

    asked: list[str]
    name: str


def _make_question(name: str) -> Callable[..., Any]:
    answer = getattr(int, f"__{name}__")

    def ask(self: _WatchedNumber, *args: Any) -> Any:
        self.asked.append(self.name)
        return answer(self, *args)

    return ask


for _name in _QUESTIONS:
    setattr(_WatchedNumber, f"__{_name}__", _make_question(_name))


@contextmanager
def watch_numbers(numbers: Iterable[OwnNumber]) -> Iterator[list[str]]:
    """Give the names of the numbers that are asked for inside, in a list that grows; they are put back afterwards."""
    asked: list[str] = []
    before = [(number, number.attributes[number.name]) for number in numbers]
    for number, value in before:
        watched = _WatchedNumber(value)
        watched.asked, watched.name = asked, number.name
        number.attributes[number.name] = watched
    try:
        yield asked
    finally:
        for number, value in before:
            number.attributes[number.name] = value
