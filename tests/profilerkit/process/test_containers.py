"""Containers get back what they held."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from typing import Any

import pytest

from profilerkit.process.containers import refill
from profilerkit.process.object_facts import copy_content


def refuse(*arguments: Any) -> None:
    raise TypeError


#: Refuses to be changed by its own methods.
FixedDict: Any = type(
    "FixedDict", (OrderedDict,), dict.fromkeys(("update", "pop", "__setitem__", "__delitem__"), refuse)
)


def test_a_dict_gets_its_content_by_the_methods_of_its_base_class_alone() -> None:
    container = FixedDict()
    for key, value in {"c": 3, "x": 0, "a": 0}.items():
        OrderedDict.__setitem__(container, key, value)
    refill(container, {"a": 1, "b": 2, "c": 3})
    assert list(container.items()) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_a_dict_gets_its_content_in_its_order(kind: Any) -> None:
    for changed in ({"c": 3, "a": 0}, {}, {"x": 1, "b": 2}, {"b": 2, "a": 1, "c": 3, "d": 4}, {"a": 0, "b": 2, "c": 3}):
        container = kind(changed)
        refill(container, {"a": 1, "b": 2, "c": 3})
        assert list(container.items()) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("kind", [list, set, deque])
def test_other_containers_get_their_items(kind: Any) -> None:
    for changed in ([], [1, 2], [3, 2, 1], [1, 2, 3, 4]):
        container = kind(changed)
        refill(container, copy_content(kind([1, 2, 3])))
        assert container == kind([1, 2, 3])


def test_a_key_whose_object_is_gone_stays_away() -> None:
    keys = [type("Key", (), {})() for _ in range(2)]
    table: Any = weakref.WeakKeyDictionary(zip(keys, (1, 2), strict=True))
    content = copy_content(table.data)
    keys.pop()
    refill(table.data, content)
    assert list(table.data.values()) == [1]
