"""The numbers by which blocks know which ones they are: whether a block asks for its own while it runs.

Blocks that differ in such a number alone do the same unless they ask: ``if self.layer_idx == 5``. A block that only
keeps its number, or hands it on, does not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["OwnNumber", "watch_numbers"]

#: What Python calls when a number is compared, computed with, written, copied, or used as an index or a key.
_QUESTIONS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "bool", "hash", "index", "int", "float", "str", "repr", "format"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "mod", "rmod", "divmod", "rdivmod", "floordiv", "rfloordiv"),
    *("truediv", "rtruediv", "pow", "rpow", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift"),
    *("rshift", "rrshift", "neg", "pos", "abs", "invert", "reduce_ex"),
)


class OwnNumber(NamedTuple):
    """A number that a block keeps: the attributes of the object that has it, and its name there."""

    attributes: dict[str, Any]
    name: str

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from others."""
        return id(self.attributes), self.name


class _WatchedNumber:
    """Stands in place of a number, says that it is one, and notes in a list when it is asked for its value.

    It is none: of a number, and of one of a class of its own too, Python takes the value without a question where it
    is the index of a list, or counts a loop.
    """

    def __init__(self, value: int, name: str, asked: list[str]) -> None:
        self._value = value
        self._name = name
        self._asked = asked

    @property  # type: ignore[misc]
    def __class__(self) -> type[int]:  # type: ignore[override]
        """What ``isinstance`` goes by."""
        return int

    def __getattr__(self, name: str) -> Any:
        return self._answer(name)

    def _answer(self, name: str) -> Any:
        """Return an attribute of the number, and note that it was asked for."""
        self._asked.append(self._name)
        return getattr(self._value, name)


def _make_question(name: str) -> Callable[..., Any]:
    def ask(self: _WatchedNumber, *args: Any) -> Any:
        return self._answer(name)(*args)

    return ask


for _name in _QUESTIONS:
    setattr(_WatchedNumber, f"__{_name}__", _make_question(f"__{_name}__"))


@contextmanager
def watch_numbers(numbers: Iterable[OwnNumber]) -> Iterator[list[str]]:
    """Give the names of the numbers that are asked for inside, in a list that grows; they are put back afterwards."""
    asked: list[str] = []
    before = [(number, number.attributes[number.name]) for number in numbers]
    for number, value in before:
        number.attributes[number.name] = _WatchedNumber(value, number.name, asked)
    try:
        yield asked
    finally:
        for number, value in before:
            number.attributes[number.name] = value
