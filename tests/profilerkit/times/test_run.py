"""`Run`: what a backend yields, and how it is sampled."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from profilerkit import Run
from profilerkit.testing import FakeClock
from profilerkit.times.sampling import Sampling, measure, measure_interleaved


class Several(Run):
    """Takes several samples in one go: each of 0.5 s, and 0.25 s for the go as a whole."""

    TAKES_SEVERAL: ClassVar[bool] = True

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(lambda: clock.advance(0.5))
        self.device_clock = clock
        self.goes: list[int] = []

    def samples(self, number: int, clock: Callable[[], float] = time.perf_counter) -> Sequence[float]:
        self.goes.append(number)
        self.device_clock.advance(0.25)
        return super().samples(number, self.device_clock)


def test_a_run_is_called_and_timed_by_the_clock_of_the_host() -> None:
    clock = FakeClock()
    run = Run(clock.make_call([1.0, 2.0, 4.0]), first_call_seconds=3.0)
    assert (run.seconds(clock), run.samples(2, clock), run.first_call_seconds) == (1.0, [2.0, 4.0], 3.0)
    assert Run(lambda: "outputs")() == "outputs"


def test_a_run_knows_of_no_parts_and_of_no_compilation_unless_it_says_so() -> None:
    run = Run(lambda: None)
    assert (run.parts(), run.first_call_seconds) == ({}, None)


def test_any_call_is_a_run_and_a_run_stays_itself() -> None:
    run = Run(lambda: None)
    assert Run.of(run) is run
    assert Run.of(lambda: 3)() == 3


def test_a_fixed_number_of_samples_is_taken_in_one_go() -> None:
    clock = FakeClock()
    run = Several(clock)
    result = measure(run, Sampling(num_iters=7, warmup=2, clock=clock))
    assert (run.goes, result.samples, result.warmup) == ([7], (0.5,) * 7, (0.5,) * 2)


def test_samples_in_one_go_end_with_the_time() -> None:
    clock = FakeClock()
    run = Several(clock)
    result = measure(run, Sampling(max_seconds=4.0, warmup=0, min_samples=12, clock=clock))
    assert run.goes == [3, 4]  # 1.75 s for the first three; in 2.25 s there is time for four
    assert (len(result.samples), clock.now) == (7, 4.0)


def test_samples_in_one_go_stop_once_they_agree() -> None:
    clock = FakeClock()
    run = Several(clock)
    result = measure(run, Sampling(max_seconds=100.0, warmup=0, min_samples=12, clock=clock))
    assert (run.goes, len(result.samples)) == ([3, 9], 12)


def test_runs_that_are_taken_in_turn_are_taken_one_by_one() -> None:
    clock = FakeClock()
    one, other = Several(clock), Several(clock)
    first, second = measure_interleaved([one, other], Sampling(num_iters=4, warmup=0, clock=clock))
    assert one.goes == other.goes == []
    assert first.samples == second.samples == (0.5,) * 4
