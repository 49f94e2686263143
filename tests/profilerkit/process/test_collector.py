"""Settings of the garbage collector that the library changes for a while, and what servers have frozen."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from profilerkit.process.collector import collector_paused, frozen_objects_found, objects_aged


@pytest.fixture(autouse=True)
def frozen_objects_are_left_out() -> None:
    """Leave in the search what was imported: the objects of this file are among it."""


@pytest.fixture
def nothing_is_frozen() -> Iterator[None]:
    """The tests themselves are frozen, see conftest.py."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_paused_and_goes_on_as_before(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(KeyError), collector_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_what_is_frozen_is_found_inside_the_block_alone() -> None:
    value = object()
    holder = [value]
    assert any(get_referrer is holder for get_referrer in gc.get_referrers(value))
    gc.freeze()
    assert not any(get_referrer is holder for get_referrer in gc.get_referrers(value))
    with pytest.raises(KeyError), frozen_objects_found():
        assert any(get_referrer is holder for get_referrer in gc.get_referrers(value))
        raise KeyError
    assert gc.get_freeze_count()
    assert not any(get_referrer is holder for get_referrer in gc.get_referrers(value))


@pytest.mark.usefixtures("nothing_is_frozen")
def test_where_nothing_is_frozen_nothing_is() -> None:
    with frozen_objects_found():
        assert not gc.get_freeze_count()
    assert not gc.get_freeze_count()


def _is_young(value: object) -> bool:
    return any(get_object is value for get_object in gc.get_objects(generation=0))


@pytest.mark.usefixtures("nothing_is_frozen")
def test_aged_objects_are_old_and_nothing_is_frozen() -> None:
    with collector_paused():
        value: list[object] = []
        assert _is_young(value)
        objects_aged()
        assert not _is_young(value)
        assert any(get_object is value for get_object in gc.get_objects(generation=2))
        assert _is_young(later := [value])
        assert later
    assert not gc.get_freeze_count()


def test_what_a_server_has_frozen_stays_frozen() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    with collector_paused():
        value: list[object] = []
        objects_aged()
        assert _is_young(value)
    assert 0 < gc.get_freeze_count() <= count, "some of them may have ended meanwhile"
