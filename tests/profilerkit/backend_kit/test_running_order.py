"""The order of operators with loops and undecided branches, and the bytes alive along it: timelines by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from profilerkit.backend_kit.live_bytes import Step, live_bytes
from profilerkit.backend_kit.running_order import RunningOrder, count_one
from profilerkit.trace.bounds import Bounds, PeakSpread


@dataclass
class Ran:
    """An operator with its work, and what it reads and makes, as the bytes alive need it."""

    step: Step = field(default_factory=Step)
    times: int = 1
    macs: int = 0
    flops: int = 0
    missing: str = ""


@dataclass
class Hold:
    """An operator that only keeps values alive."""

    op: Ran


@dataclass
class Loop:
    """Parts that may run more than once."""

    parts: list[Part]


Part: TypeAlias = Ran | Hold | Loop


def put_in_order(*parts: Part) -> RunningOrder[Ran, str]:
    order = RunningOrder[Ran, str]()
    for part in parts:
        if isinstance(part, Loop):
            order.add_loop(put_in_order(*part.parts))
        elif isinstance(part, Hold):
            order.hold(part.op)
        else:
            order.append(part)
    return order


def measure(*parts: Part, **inputs: int) -> tuple[int, ...]:
    sizes = {ord(name): size for name, size in inputs.items()}
    order = put_in_order(*parts)
    return order.select_counted(live_bytes([op.step for op in order.steps], sizes, (), order.loops))


def run(reads: str = "", /, **makes: int) -> Ran:
    return Ran(Step(tuple(map(ord, reads)), tuple((ord(name), size) for name, size in makes.items())))


def test_loops_keep_their_places() -> None:
    a, b, c, h = (run() for _ in range(4))
    order = put_in_order(a, Loop([Loop([b, c])]), Loop([h]))
    assert [*map(id, order.steps)] == [*map(id, (a, b, c, h))]
    assert order.loops == [(1, 3), (1, 3), (3, 4)], "a loop in one of the same range"


def test_what_only_holds_values_is_not_counted() -> None:
    b, d = run(), run()
    order = put_in_order(Hold(run()), b, Loop([Hold(run()), d]))
    assert [*map(id, order.operators)] == [id(b), id(d)]
    assert order.holds == {0, 2}


def test_what_a_branch_is_given_is_alive_until_it_begins() -> None:
    """``a`` has 40 bytes, ``b`` 32; only a branch that is not counted reads ``a``: a | a b | c."""
    assert measure(run(a=40), run(b=32), Hold(run("a")), run("b", c=2)) == (40, 72, 34)


def test_what_a_branch_is_given_in_a_loop_is_alive_until_the_end_of_the_loop() -> None:
    """In the next turn another branch may read ``a`` (10), so that it is alive beside ``e`` (20) and ``c`` (5)."""
    body: list[Part] = [Hold(run("a")), run(c=5), run("c", e=20)]
    assert measure(run(a=10), Loop(body), run()) == (10, 15, 35, 0)


def test_nothing_is_known_of_the_peak_where_a_branch_is_undecided() -> None:
    order = put_in_order(run(a=1))
    assert order.peak_spread == PeakSpread()
    for reason in ("why", "why", "other"):
        order.add_loop(count_one(put_in_order(run(b=9)), [put_in_order(run())], [], reason))
    assert order.peak_spread == PeakSpread(None, None, ("why", "other"))
    assert order.peak_spread.around(100) == Bounds()


def test_the_missing_work_of_every_body_is_named() -> None:
    counted, other = put_in_order(Ran(missing="a")), put_in_order(Ran(missing="a"), Ran(missing="b", times=3))
    assert count_one(counted, [other], [], "why").count_missing() == {"a": 1, "b": 3}


def test_the_ends_of_a_number_that_follows_from_the_peak() -> None:
    assert PeakSpread(4, 3).around(100) == Bounds(96, 103)
    assert PeakSpread(4, 3).around(100, is_open=True) == Bounds(96, None)
