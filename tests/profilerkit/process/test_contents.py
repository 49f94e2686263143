"""What a value holds is compared with what it held: never with itself."""

from __future__ import annotations

import ctypes
import logging
import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from profilerkit.process.contents import Contents, list_contents


@dataclass
class Settings:
    size: int = 1
    sizes: list[int] = field(default_factory=lambda: [1])


class Slotted:
    __slots__ = ("__count", "size")

    def __init__(self) -> None:
        self.size = self.__count = 1

    def count(self) -> None:
        self.__count += 1


class Raising:
    @property
    def shape(self) -> Any:
        raise RuntimeError("no shape")


def _closure() -> tuple[Callable[[], int], Callable[[int], None]]:
    size = 1

    def get() -> int:
        return size

    def put(value: int) -> None:
        nonlocal size
        size = value

    return get, put


GET, PUT = _closure()
MAPPED = {"a": 1}


def _defaulting(sizes: list[int] = []) -> int:  # noqa: B006 - that is what is tested
    return len(sizes)


#: A value, and a change made in place.
CHANGES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "a list": ([1, 2], lambda value: value.append(3)),
    "a list inside a tuple": (([1],), lambda value: value[0].append(2)),
    "an equal item of another type": ([1], lambda value: value.__setitem__(0, True)),
    "an entry of a dict": ({"a": 1}, lambda value: value.update(a=2)),
    "a key of a dict": (OrderedDict(a=1), lambda value: value.update(b=1)),
    "a set": ({1}, lambda value: value.add(2)),
    "a deque": (deque([1]), lambda value: value.append(2)),
    "a bytearray": (bytearray(b"1"), lambda value: value.extend(b"2")),
    "an attribute": (SimpleNamespace(size=1), lambda value: setattr(value, "size", 2)),
    "a new attribute": (SimpleNamespace(), lambda value: setattr(value, "size", 2)),
    "an attribute that is None": (SimpleNamespace(size=None), lambda value: setattr(value, "size", 0)),
    "a field of a dataclass": (Settings(), lambda value: setattr(value, "size", 2)),
    "a list in a dataclass": (Settings(), lambda value: value.sizes.append(2)),
    "a slot": (Slotted(), lambda value: setattr(value, "size", 2)),
    "a private slot": (Slotted(), lambda value: value.count()),
    "a private slot of a base class": (type("Derived", (Slotted,), {})(), lambda value: value.count()),
    "a variable that a function closes over": (GET, lambda value: PUT(2)),
    "an argument that is bound": (partial(max, [1]), lambda value: value.args[0].append(2)),
    "the values of an array": (np.ones(3), lambda value: value.fill(2)),
    "an object in an array": (np.array([[1], None], dtype=object), lambda value: value[0].append(2)),
    "what is deep inside": (
        [{"a": ([{"b": {"c": [[1]]}}],)}],
        lambda value: value[0]["a"][0][0]["b"]["c"][0].append(2),
    ),
    "the order of a dict": (OrderedDict(a=1, b=2), lambda value: value.move_to_end("a")),
    "an item of a long list": ([1] * 2000, lambda value: value.__setitem__(1999, 2)),
    "an entry of a long dict": (dict.fromkeys(range(2000), 1), lambda value: value.update({1999: 2})),
    "an item of a long set": (set(range(2000)), lambda value: (value.remove(1), value.add(-1))),
    "an item of a long list without a hash": ([[]] * 2000, lambda value: value.__setitem__(5, [])),
    "an object whose method is held": (Slotted().count, lambda value: value()),
    "a mapping that cannot be written": (MappingProxyType(MAPPED), lambda value: MAPPED.update(a=2)),
    "an array of Python's": (array("i", [1]), lambda value: value.__setitem__(0, 2)),
    "a view of memory": (memoryview(bytearray(b"1")), lambda value: value.__setitem__(0, 2)),
    "an array of C's": ((ctypes.c_int * 2)(1, 2), lambda value: value.__setitem__(0, 2)),
    "a default of a function": (_defaulting, lambda value: value.__defaults__[0].append(2)),
    "the shape of an array": (np.ones(6), lambda value: value.resize((2, 3), refcheck=False)),
    "an object by another one of its kind": ([object()], lambda value: value.__setitem__(0, object())),
    "an array by an equal one": ([np.ones(3)], lambda value: value.__setitem__(0, np.ones(3))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_place_is_seen(change: str) -> None:
    value, apply = CHANGES[change]
    before = list_contents(value)
    assert list_contents(value) == before
    apply(value)
    assert list_contents(value) != before


def test_equal_values_are_equal() -> None:
    shared = object()
    first, second = ({"sizes": [1, (2.0, "a")], "object": shared, "settings": Settings()} for _ in range(2))
    assert list_contents(first) == list_contents(second)


def test_what_leads_back_to_itself_ends() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    before = list_contents(circle)
    assert list_contents(circle) == before
    circle[0] = 2
    assert list_contents(circle) != before


def test_what_cannot_be_read_is_compared_by_identity() -> None:
    value = Raising()
    assert list_contents(value) == list_contents(value) != list_contents(Raising())


def test_what_was_looked_at_is_not_kept_alive() -> None:
    value = SimpleNamespace(part=Raising())
    before = list_contents(value)
    value.part = Raising()
    assert list_contents(value) != before


COUNT = {"a": 1}
LOG = logging.getLogger(__name__)


class Counting:
    size = 1

    def __init__(self) -> None:
        self.size = COUNT["a"]

    @classmethod
    def made(cls) -> int:
        return len(LOG.name) + GET()

    @property
    def length(self) -> int:
        return sum(_count() for _ in "a")


def _count() -> int:
    return COUNT["a"]


def _written(kind: type, reads_globals: bool = True) -> list[Any]:
    contents = Contents(reads_globals=reads_globals)
    contents.add_class(kind)
    return contents.written


OF_CLASSES: dict[str, Callable[[pytest.MonkeyPatch], Any]] = {
    "an attribute": lambda patch: patch.setattr(Counting, "size", 2),
    "a method": lambda patch: patch.setattr(Counting, "__init__", lambda self: None),
    "a class method": lambda patch: patch.setattr(Counting, "made", classmethod(lambda cls: 2)),
    "a new attribute": lambda patch: patch.setattr(Counting, "width", 2, raising=False),
    "a global variable": lambda patch: patch.setitem(COUNT, "a", 2),
    "a global function": lambda patch: patch.setattr(sys.modules[__name__], "_count", lambda: 2),
}


@pytest.mark.parametrize("inherits", [False, True])
@pytest.mark.parametrize("change", OF_CLASSES)
def test_a_change_of_a_class_or_of_what_its_methods_name_is_seen(
    change: str, inherits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type("Inherits", (Counting,), {}) if inherits else Counting
    before = _written(kind)
    assert _written(kind) == before
    OF_CLASSES[change](monkeypatch)
    assert _written(kind) != before


def test_global_variables_are_read_on_request() -> None:
    before = _written(Counting, False)
    COUNT["a"] += 1
    assert _written(Counting, False) == before


def test_what_a_logger_notes_is_no_change() -> None:
    before = _written(Counting)
    LOG.isEnabledFor(logging.DEBUG)
    logging.getLogger(f"{__name__}.inner")
    assert _written(Counting) == before


def test_installed_code_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caches change whenever it runs; an attribute that is replaced is a change all the same."""
    before = _written(OrderedDict), _written(logging.Formatter)
    assert (_written(OrderedDict), _written(logging.Formatter)) == before
    assert len(before[1]) < 100
    monkeypatch.setattr(logging.Formatter, "format", lambda self, record: "")
    assert _written(logging.Formatter) != before[1]


class Proxy:
    """Claims to be a dict and is none, as the proxies do that TensorFlow puts around dicts of its objects."""

    def __init__(self, wrapped: dict[str, int]) -> None:
        self.__wrapped__ = wrapped

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return dict

    def __len__(self) -> int:
        return len(self.__wrapped__)

    def items(self) -> Any:
        return self.__wrapped__.items()


def test_a_proxy_of_a_dict_is_read() -> None:
    wrapped = {"a": 1}
    proxy = Proxy(wrapped)
    before = list_contents(proxy)
    assert list_contents(proxy) == before
    wrapped["a"] = 2
    assert list_contents(proxy) != before
