"""The bytes alive in programs with branches, and how much their peak depends on these: timelines by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from profilerkit.backend_kit.branch_memory import BranchedMemory, measure_memory
from profilerkit.backend_kit.live_bytes import Step, live_bytes
from profilerkit.backend_kit.program_parts import Fork, Hold, Loop, lay_out, list_counted
from profilerkit.trace.bounds import Bounds, PeakSpread

# Operators that are the number of bytes alive while they run ---------------------------------------------------------


def spread(*parts: Any, input_bytes: int = 0) -> tuple[int | None, int | None]:
    found = measure_memory(parts, lambda operators, loops: operators, input_bytes).peak_spread
    return found.below, found.above


def choose(*sides: Sequence[Any], reason: str = "", is_alike: bool = True) -> Fork[Any]:
    return Fork(sides, reason, is_alike)


def test_a_fork_has_the_peaks_of_its_sides() -> None:
    assert spread(5, choose([9, 7], [3]), 4) == (4, 0), "5 remains of 9"
    assert spread(1, choose([3], [9, 7], []), 2) == (1, 6)
    assert spread(5, choose([3], [4], []), 4) == (0, 0)
    assert spread(1, choose([3], [9]), input_bytes=5) == (0, 4)


def test_a_fork_inside_a_side_widens_it() -> None:
    """The counted side: 6, then 9 or 2, so 6 to 9. The other: 4, then 1 or 20, so 4 to 20."""
    counted = [6, choose([9], [2])]
    assert spread(1, choose(counted), 1) == (3, 0)
    assert spread(1, choose(counted, [4, choose([1], [20])]), 1) == (5, 11)


def test_forks_of_equal_peaks_are_taken_together() -> None:
    """Neither of two forks alone brings the peak below 9; both do."""
    assert spread(choose([9], [3]), choose([9, 9], [2])) == (6, 0)
    assert spread(choose([9], [3]), choose([9], [12])) == (0, 3)


def test_the_reasons_are_those_of_all_forks_unless_none_decides_the_peak() -> None:
    def reasons(*parts: Any) -> tuple[str, ...]:
        return measure_memory(parts, lambda operators, loops: operators).peak_spread.reasons

    assert reasons(5, choose([3], [12], reason="a"), 8, choose([1], [5], reason="b")) == ("a", "b")
    assert reasons(5, choose([3], [4], reason="a")) == ()
    assert reasons(choose([9], [3], reason="a"), choose([9], [2], reason="b"), 9) == ()


def test_nothing_is_known_of_very_many_branches() -> None:
    forks = [choose([1], [], reason="why") for _ in range(400)]
    unknown = PeakSpread(None, None, ("why",))
    found = measure_memory(forks, lambda operators, loops: operators)
    assert found == BranchedMemory((1,) * 400, unknown)
    assert PeakSpread(None, None).around(100) == Bounds()
    assert measure_memory([1] * 400, lambda operators, loops: operators).peak_spread == PeakSpread()


@pytest.mark.parametrize("other_side", [[1], []])
def test_very_many_branches_are_not_gone_through_either_where_sides_are_empty(other_side: list[int]) -> None:
    """Of 40 forks there are 2 ** 40 programs, though the counted one has no operator."""
    forks = [choose([], other_side, reason="why") for _ in range(40)]
    found = measure_memory(forks, lambda operators, loops: operators)
    assert found == BranchedMemory((), PeakSpread(None, None, ("why",)))


def test_nothing_is_known_where_the_sides_make_other_values() -> None:
    assert spread(1, choose([3], [9], is_alike=False)) == (None, None)
    assert spread(1, choose([3], [choose([4], [2], is_alike=False)])) == (None, None)


def test_the_ends_of_a_number_that_follows_from_the_peak() -> None:
    assert PeakSpread(4, 3).around(100) == Bounds(96, 103)
    assert PeakSpread(4, 3).around(100, is_open=True) == Bounds(96, None)


# The order of the operators ------------------------------------------------------------------------------------------


def test_loops_keep_their_places_around_and_behind_a_fork() -> None:
    fork = choose([Loop(["b", "c"])], ["d", Loop(["e", "f"]), "g"])
    parts = ["a", Loop([fork]), Loop(["h"])]
    assert lay_out(parts) == (["a", "b", "c", "h"], [(1, 3), (1, 3), (3, 4)], set()), "a loop in one of the same range"
    assert lay_out(parts, {fork: 1}) == (["a", "d", "e", "f", "g", "h"], [(2, 4), (1, 5), (5, 6)], set())


def test_what_only_holds_values_is_not_counted() -> None:
    assert list_counted([Hold("a"), "b", Loop([Hold("c"), choose(["d"], ["e"])])]) == ["b", "d"]


# Operators that read and make values ---------------------------------------------------------------------------------


class Ran(NamedTuple):
    """An operator: the values that it reads and makes, by their names, whose sizes are their lengths."""

    reads: str
    makes: tuple[tuple[str, int], ...] = ()
    shares: str = ""


def run(reads: str = "", /, shares: str = "", **makes: int) -> Ran:
    return Ran(reads, tuple(makes.items()), shares)


def measure(*parts: Any, kept: str = "", **inputs: int) -> BranchedMemory:
    def timeline(operators: Sequence[Ran], loops: Sequence[tuple[int, int]]) -> Sequence[int]:
        made = {ord(name) for op in operators for name, _ in op.makes} | set(map(ord, inputs))
        steps = [
            Step(
                tuple(ord(name) for name in op.reads if ord(name) in made),
                tuple((ord(name), size) for name, size in op.makes),
                {ord(name): ord(op.shares) for name, _ in op.makes if op.shares},
            )
            for op in operators
        ]
        sizes = {ord(name): size for name, size in inputs.items()}
        return live_bytes(steps, sizes, map(ord, kept), loops)

    return measure_memory(parts, timeline, sum(inputs.values()))


def test_what_only_the_other_side_reads_is_alive_until_the_fork() -> None:
    """``a`` has 40 bytes, ``b`` 32; ``s`` and ``t`` are their sums. Of the sides one reads ``a``.

    a | a s | a s b | a s b t | s t c, or a s t c | s t c y
    """
    before = [run(a=40), run("a", s=4), run(b=32), run("b", t=4), Hold(run("sa"))]
    behind = run("stc", y=4)
    for sides, in_the_fork in (([run(c=2)], [run("a", c=2)]), 10), (([run("a", c=2)], [run(c=2)]), 50):
        found = measure(*before, choose(*sides), behind, kept="y")
        assert found == BranchedMemory((40, 44, 76, 80, in_the_fork, 14), PeakSpread())


def test_what_a_side_needs_is_alive_in_it_alone() -> None:
    """The counted side makes 100 bytes without ``a`` (40); the other one makes 70 with it: 110."""
    sides = [run(c=100)], [run("a", c=70)]
    assert measure(run(a=40), Hold(run("a")), choose(*sides)).peak_spread == PeakSpread(0, 10, ("",))


def test_what_a_fork_reads_in_a_loop_is_alive_until_the_end_of_the_loop() -> None:
    """In the next turn the other side may read ``a`` (10), so that it is alive beside ``e`` (20) and ``c`` (5)."""
    body = [Hold(run("a")), choose([run(c=5)], [run("a", c=5)]), run("c", e=20)]
    assert measure(run(a=10), Loop(body), run()) == BranchedMemory((10, 15, 35, 0), PeakSpread())


def test_a_side_that_returns_what_it_is_given_leaves_less_behind_it() -> None:
    """The counted side makes 10 bytes of ``x``, 10 too; the other one returns ``x`` itself. Then 20 are made."""
    fork = choose([run("x", y=10)], [run("x", shares="x", y=10)], reason="why")
    found = measure(Hold(run("x")), fork, run("y", z=20), kept="z", x=10)
    assert found == BranchedMemory((20, 40), PeakSpread(10, 0, ("why",)))


def test_a_fork_in_the_other_side_holds_what_its_own_sides_read() -> None:
    """``a`` (30) is read only by one side of a fork in the uncounted side, behind ``d`` (50) there."""
    inner = [run(d=50), Hold(run("da")), choose([run(e=1)], [run("a", e=1)]), run("e", c=2)]
    found = measure(run(a=30), Hold(run("a")), choose([run(c=2)], inner), run("c", y=4), kept="y")
    assert found == BranchedMemory((30, 2, 6), PeakSpread(0, 50, ("",)))
