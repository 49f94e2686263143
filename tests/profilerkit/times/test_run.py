"""`Run`: what a backend yields, and how it is sampled."""

from __future__ import annotations

from profilerkit import Run
from profilerkit.testing import FakeClock


def test_a_run_is_called_and_timed_by_the_clock_of_the_host() -> None:
    clock = FakeClock()
    run = Run(clock.make_call([1.0, 2.0]), first_call_seconds=3.0)
    assert (run.seconds(clock), run.seconds(clock), run.first_call_seconds) == (1.0, 2.0, 3.0)
    assert Run(lambda: "outputs")() == "outputs"


def test_a_run_knows_of_no_parts_and_of_no_compilation_unless_it_says_so() -> None:
    run = Run(lambda: None)
    assert (run.parts(), run.first_call_seconds) == ({}, None)


def test_any_call_is_a_run_and_a_run_stays_itself() -> None:
    run = Run(lambda: None)
    assert Run.of(run) is run
    assert Run.of(lambda: 3)() == 3
