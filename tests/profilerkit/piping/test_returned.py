"""What a function may return, and what is said of everything else."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from profilerkit import (
    Completeness,
    Measurement,
    Metric,
    Noted,
    Partial,
    Profiler,
    ProfilerFunction,
    Report,
    StatusKey,
    Unavailable,
    metric,
)
from profilerkit.results.saving import parse, to_json
from profilerkit.testing import FakeModel
from profilerkit.trace.bounds import Bounds

MakeProfiler = Callable[..., Profiler]


class Score(Metric):
    """A score."""

    NAME = "score"


class Fact(StatusKey):
    NAME = "fact"


class Returns(ProfilerFunction):
    def __init__(self, returned: Any, key: type[StatusKey] = Score) -> None:
        self.returned, self.key = returned, key

    def get_bounded_status_keys(self) -> type[StatusKey]:
        return self.key

    def __call__(self) -> Any:
        return self.returned


class Async(Returns):
    async def __call__(self) -> Any:
        return self.returned


class Yields(Returns):
    def __call__(self) -> Iterator[Any]:
        yield self.returned


class YieldsAsync(Returns):
    async def __call__(self) -> AsyncIterator[Any]:
        yield self.returned


class Awaitable:
    def __await__(self) -> Iterator[Any]:
        yield None


class Bare:
    """Its text says where it lies in memory, and nothing else."""


@metric("counted")
async def counted(model: Any) -> int:
    return 3


@metric("counted")
def yielded(model: Any) -> Iterator[int]:
    yield 3


UNFINISHED = {
    "async def": (Async(5), r"Async returned a coroutine: it is an 'async def', and nothing awaits it here"),
    "yield": (Yields(5), r"Yields returned a generator: it contains 'yield'; return the value itself"),
    "async yield": (YieldsAsync(5), r"YieldsAsync returned a generator"),
    "awaitable": (Returns(Awaitable()), r"Returns returned .*Awaitable.*, which is to be awaited; return its result"),
    "expression": (Returns(number for number in (1, 2)), "Returns returned a generator"),
    "in a dict": (Returns({"score": (number for number in (1, 2))}), "Returns returned a generator"),
    "partial": (Returns(Partial((number for number in (1, 2)), ("op",))), "Returns returned a generator"),
    "metric": (counted, r"PlainMetric\(counted\) returned a coroutine"),
    "yielding metric": (yielded, r"PlainMetric\(yielded\) returned a generator"),
    "no metric": (Async(5, Fact), "Async returned a coroutine"),
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_what_has_yet_to_be_run_is_no_value(name: str, model: FakeModel, make_profiler: MakeProfiler) -> None:
    """Nor does Python warn of a coroutine that was never awaited: warnings are errors here."""
    function, message = UNFINISHED[name]
    profiler = make_profiler(model, function)
    (key,) = (key.NAME for key in function.list_keys())
    with pytest.raises(TypeError, match=message):
        profiler.compute_status(key)
    if key != "fact":
        profiler.compute([key])
        report = profiler.report([key])
        assert report.status(key).completeness is Completeness.FAILED
        assert report[key] is None


WITHOUT_TEXT = [object(), Bare(), [1, Bare()], {"score": {"inner": (Bare(),)}}, len, print, lambda: 3, iter([1])]


@pytest.mark.parametrize("returned", WITHOUT_TEXT, ids=lambda value: type(value).__name__)
def test_a_metric_has_a_value_that_a_report_can_write(
    returned: Any, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    with pytest.raises(TypeError, match="score=.*, which has no text for a report; return a number, a text"):
        make_profiler(model, Returns(returned)).compute_status("score")


around: list[Any] = [1]
around.append({"more": around})
deep: list[Any] = []
for _ in range(500):
    deep = [deep]


@pytest.mark.parametrize("returned", [around, deep], ids=["around", "deep"])
def test_a_collection_without_an_end_is_no_value(returned: Any, model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, Returns(returned))
    with pytest.raises(TypeError, match="^Returns returned score=.*, which contains itself, or has more than 100 "):
        profiler.compute_status("score")
    profiler.compute(["score"])
    assert parse(to_json(profiler.report(["score"])).encode(), "it")["score"] is None


class Counted(int):
    """A number of the user's own type."""


@pytest.mark.parametrize("returned", [np.bool_(False), Counted(4), Partial(Counted(4), ("an operator",))])
def test_numbers_of_any_type_come_back_from_a_file(
    returned: Any, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, Returns(returned))
    value = profiler.compute_status("score")
    back = parse(to_json(profiler.report(["score"])).encode(), "it")
    assert back["score"] == value
    assert type(back["score"]) is (bool if isinstance(returned, np.bool_) else int)


@pytest.mark.parametrize(
    "returned",
    [Partial(3, (5,)), Partial(3, 5), Partial(3, None), Noted(3, 5), Unavailable(OSError("no")), Unavailable(None)],  # type: ignore[arg-type]
    ids=str,
)
def test_a_reason_is_a_text(returned: Any, model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, Returns(returned))
    profiler.compute(["score"])
    report = profiler.report(["score"])
    assert report.status("score").missing[0].endswith(" is given as a reason or note; give a text, as str() makes it")
    assert "as a reason or note" in str(report)


def test_a_note_that_is_none_is_no_note(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, Returns(Noted(3, None)))  # type: ignore[arg-type]
    assert profiler.compute_status("score") == 3
    assert profiler.report(["score"]).status("score").note == ""


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (5, r"bounds=5; give Bounds\(low, high\)"),
        ((1, 9), r"bounds=\(1, 9\); give"),
        (Bounds("a", "b"), r"bounds=Bounds\(low='a', high='b'\); give"),  # type: ignore[arg-type]
        (Bounds(True, None), r"bounds=Bounds\(low=True, high=None\); give"),
        (Bounds(5, 9), "the value 3, which is not between its bounds, 5 and 9"),
        (Bounds(None, 2), "the value 3, which is not between its bounds, None and 2"),
    ],
)
def test_bounds_are_two_numbers_around_the_value(
    bounds: Any, message: str, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, Returns(Partial(3, ("an operator",), bounds)))
    with pytest.raises((TypeError, ValueError), match=f"^a Partial has {message}"):
        profiler.compute_status("score")
    profiler.compute(["score"])
    assert "a Partial has" in str(profiler.report(["score"]))


@pytest.mark.parametrize(
    ("returned", "missing"),
    [(Partial(None, ("an operator",)), "an operator"), (Partial(None, ()), "the function returned nothing")],
)
def test_a_part_of_nothing_is_no_value(
    returned: Any, missing: str, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, Returns(returned))
    profiler.compute(["score"])
    back = parse(to_json(profiler.report(["score"])).encode(), "it")
    assert isinstance(back, Report)
    record = back.status("score")
    assert (record.completeness, record.missing) == (Completeness.UNAVAILABLE, (missing,))


def test_a_key_that_is_no_metric_may_be_any_object(model: FakeModel, make_profiler: MakeProfiler) -> None:
    value = Bare()
    assert make_profiler(model, Returns(value, Fact)).compute_status("fact") is value


@pytest.mark.parametrize(
    "returned",
    [5, 2.5, math.inf, "text", True, [1, "two"], {"score": 3}, (), np.float32(3), Measurement((1.0, 2.0))],
    ids=lambda value: type(value).__name__,
)
def test_all_else_is_complete(returned: Any, model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, Returns(returned))
    assert profiler.compute_status("score") == (returned if not isinstance(returned, dict) else 3)
    status = profiler.status_get("score", to_value=False)
    assert status.outcome.completeness is Completeness.COMPLETE


@pytest.mark.parametrize(
    "returned",
    [math.nan, np.float32("nan"), np.array(math.nan), Partial(math.nan, ("op",)), Noted(math.nan, "a remark")],
)
def test_nan_is_no_value(returned: Any, model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, Returns(returned))
    assert profiler.compute_status("score") is None
    record = profiler.report(["score"]).status("score")
    assert record.completeness is Completeness.UNAVAILABLE
    assert record.missing[0] == "Returns returned score=nan, which is no number"
    assert record.ends is None


def test_what_needs_a_value_that_came_to_nan_has_none_either(model: FakeModel, make_profiler: MakeProfiler) -> None:
    class Twice(ProfilerFunction):
        KEYS = type("TwiceTheScore", (Metric,), {"NAME": "twice"})

        def __call__(self, score: float) -> float:
            return 2 * score

    profiler = make_profiler(model, Returns(math.nan), Twice())
    assert profiler.compute_status("twice") is None
    assert "needs score, which is unavailable" in profiler.report(["twice"]).status("twice").missing[0]


def test_an_async_function_can_be_run_inside(model: FakeModel, make_profiler: MakeProfiler) -> None:
    """What the message advises works."""

    class Runs(Returns):
        def __call__(self) -> Any:
            async def later() -> int:
                return 7

            return asyncio.run(later())

    assert make_profiler(model, Runs(0)).compute_status("score") == 7


class Static(Returns):
    @staticmethod
    def __call__(model: Any, scale: int = 3) -> int:  # type: ignore[override]
        return 2 * scale


class OfClass(Returns):
    factor = 5

    @classmethod
    def __call__(cls, model: Any, scale: int = 3) -> int:  # type: ignore[override]
        return cls.factor * scale


@pytest.mark.parametrize(("function", "value"), [(Static(0), 6), (OfClass(0), 15)])
def test_static_and_class_methods_get_all_their_parameters(
    function: ProfilerFunction, value: int, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    assert list(function.parameters()) == ["model", "scale"]
    profiler = make_profiler(model, function)
    assert profiler.compute_status("score") == value
    assert profiler.compute_status("score", scale=6) == 2 * value


def test_unavailable_is_still_for_all_keys(model: FakeModel, make_profiler: MakeProfiler) -> None:
    assert make_profiler(model, Returns(Unavailable("no sensor"))).compute_status("score") is None
