"""How much a peak depends on branches: timelines by hand."""

from __future__ import annotations

from collections.abc import Sequence

from profilerkit.backend_kit.branch_memory import Fork, Side, Window, peak_spread, spread_of_forks
from profilerkit.trace.bounds import Bounds, PeakSpread


def as_they_are(operators: Sequence[int], spans: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Each operator is the number of bytes that are alive while it runs."""
    return operators


def spread(operators: Sequence[int], *forks: Fork) -> tuple[int | None, int | None]:
    found = spread_of_forks(operators, (), forks, as_they_are)
    return found.below, found.above


def test_a_fork_has_the_peaks_of_its_sides() -> None:
    assert spread([5, 9, 7, 4], Fork(1, Side([9, 7]), [Side([3])], "")) == (4, 0), "5 remains of 9"
    assert spread([1, 3, 2], Fork(1, Side([3]), [Side([9, 7]), Side()], "")) == (1, 6)
    assert spread([5, 3, 4], Fork(1, Side([3]), [Side([4]), Side()], "")) == (0, 0)


def test_a_fork_inside_a_side_widens_it() -> None:
    """The counted side: 6, then 9 or 2, so 6 to 9. The other: 4, then 1 or 20, so 4 to 20."""
    counted = Side([6, 9], forks=[Fork(1, Side([9]), [Side([2])], "")])
    assert spread([1, 6, 9, 1], Fork(1, counted, [], "")) == (3, 0)
    other = Side([4, 1], forks=[Fork(1, Side([1]), [Side([20])], "")])
    assert spread([1, 6, 9, 1], Fork(1, counted, [other], "")) == (5, 11)


def test_spans_around_and_behind_a_fork_move_with_its_length() -> None:
    seen = []

    def timeline(operators: Sequence[int], spans: Sequence[tuple[int, int]]) -> Sequence[int]:
        seen.append(sorted(spans))
        return operators

    fork = Fork(2, Side([1, 1], [(0, 2)]), [Side([1, 1, 1, 1, 1], [(1, 3)])], "")
    spread_of_forks([1] * 8, [(0, 1), (1, 6), (2, 4), (5, 8)], [fork], timeline)
    unchanged = [(0, 1), (1, 6), (2, 4), (5, 8)]
    assert seen == [unchanged, [(0, 1), (1, 9), (3, 5), (8, 11)], unchanged]


def test_nothing_is_known_of_very_many_branches() -> None:
    forks = [Fork(index, Side([1]), [Side()], "why") for index in range(400)]
    assert spread_of_forks([1] * 400, (), forks, as_they_are) == PeakSpread(None, None, ("why",))
    assert PeakSpread(None, None).around(100) == Bounds()
    assert spread_of_forks([1] * 400, (), (), as_they_are) == PeakSpread()


def test_the_spread_is_that_of_the_peak_and_names_what_decides_it() -> None:
    live = (5, 9, 5, 8)
    assert peak_spread(live, 2, []) == PeakSpread()
    assert peak_spread(live, 2, [Window(1, 2, 3, 12, "a")]) == PeakSpread(1, 3, ("a",)), "8 remains without it"
    assert peak_spread(live, 20, [Window(1, 2, 3, 12, "a")]) == PeakSpread(), "the inputs are the peak"
    two = [Window(1, 2, 3, 12, "a"), Window(3, 4, 1, 5, "b")]
    assert peak_spread(live, 2, two) == PeakSpread(4, 3, ("a",)), "5 is always alive, so that b decides nothing"


def test_the_ends_of_a_number_that_follows_from_the_peak() -> None:
    assert PeakSpread(4, 3).around(100) == Bounds(96, 103)
    assert PeakSpread(4, 3).around(100, is_open=True) == Bounds(96, None)
