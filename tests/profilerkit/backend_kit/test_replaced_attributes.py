"""Attributes that have another value for a time."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit.backend_kit.replaced_attributes import follow_calls, replace_attribute


class Base:
    rate = 1


class Inner(Base):
    __slots__ = ("slot",)

    def __init__(self) -> None:
        self.slot, self.own = 2, 3

    @property
    def double(self) -> int:
        return 2 * self.own

    @double.setter
    def double(self, number: int) -> None:
        self.own = number // 2


@pytest.mark.parametrize(("name", "before"), [("own", 3), ("rate", 1)])
def test_the_value_comes_back_from_where_it_came(name: str, before: int) -> None:
    inner = Inner()
    held = dict(vars(inner))
    with replace_attribute(inner, name, 10):
        assert getattr(inner, name) == 10
    assert getattr(inner, name) == before
    assert vars(inner) == held


@pytest.mark.parametrize(("name", "before"), [("double", 6), ("slot", 2)])
def test_what_keeps_its_value_elsewhere_is_refused_and_not_changed(name: str, before: int) -> None:
    inner = Inner()
    with (
        pytest.raises(TypeError, match=f"{name} of Inner is a property or a slot"),
        replace_attribute(inner, name, 10),
    ):
        pass
    assert getattr(inner, name) == before


def test_what_cannot_be_called_is_named() -> None:
    def follow(call: Any, layer: Any, args: Any, kwargs: Any) -> Any:
        return call(layer, *args, **kwargs)

    with pytest.raises(TypeError, match="Inner has no __call__"), follow_calls([Inner()], follow):
        pass
