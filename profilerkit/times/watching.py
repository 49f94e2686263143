"""Chosen steps of a real training loop, measured while the user's own code runs them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from .steps import STEPS, StepRecord, StepRecorder, WatchedSteps

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["MakesReport", "Watch"]

_STEPS_OR_NONE = replace(STEPS, expected=f"{STEPS.expected}; None to use start() and stop()", optional=True)


class MakesReport(Protocol):
    """Makes the report of watched steps: of the named metrics, or the usual ones; see `Watch.report`."""

    def __call__(
        self, steps: WatchedSteps, recorder: StepRecorder, metrics: Iterable[str] | None, arguments: Mapping[str, Any]
    ) -> Report: ...


class Watch:
    """Measures selected steps of a training loop.

    In a ``with`` block around the loop, call `step` at the end of each iteration: the steps chosen by ``at_step``,
    counted from 0, are measured. Anywhere, `start` and `stop` measure the code between them as one step. Afterwards
    `report` has the results. The run itself is not changed: weights, gradients, random numbers and optimizer are the
    same.
    """

    def __init__(
        self, make_report: MakesReport, recorder: StepRecorder, at_step: int | Iterable[int] | None = 5
    ) -> None:
        self.asked: tuple[int, ...] = _STEPS_OR_NONE("at_step", at_step) or ()
        self._make_report = make_report
        self._recorder = recorder
        #: The measured steps, by their numbers.
        self._records: dict[int, StepRecord] = {}
        #: Whether the block around the loop is entered, and whether a step is being measured.
        self._in_loop = self._measuring = False
        #: The number of the current step, which is the number of ended steps.
        self._count = 0
        #: When the current step of the loop began, by `time.perf_counter`.
        self._began = 0.0
        #: The seconds of the last steps of the loop that were not measured.
        self._unwatched: deque[float] = deque(maxlen=1000)

    def __enter__(self) -> Watch:
        """Begin with the first step of a loop."""
        if self._in_loop:
            raise RuntimeError("this watch runs already: leave its block first, or make another with watch()")
        self._in_loop = True
        self._next()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; a step that was not ended by `step` does not count, and an error of the loop is not caught."""
        self._in_loop = False
        self._abandon()

    def step(self) -> None:
        """Tell that an iteration of the loop has ended."""
        if not self._in_loop:
            raise RuntimeError("step() ends an iteration in the block of watch(...); outside use start() and stop()")
        if self._measuring:
            self._end()
        elif self._count:  # not of the first, which also prepares
            self._unwatched.append(time.perf_counter() - self._began)
        self._count += 1
        self._next()

    def pause(self) -> None:
        """Leave the current step of the loop before work that is no part of a step, such as an evaluation.

        The measurements of the step are dropped; `resume` begins the same step again.
        """
        self._abandon()

    def resume(self) -> None:
        """Begin the step that `pause` left again."""
        if not self._in_loop:
            raise RuntimeError("resume() begins a step anew in the block of watch(...); outside use start()")
        self._next()

    def start(self) -> None:
        """Begin to measure one step, until `stop`."""
        if self._measuring:
            raise RuntimeError("a step is being measured already: call stop() before the next start()")
        self._begin()

    def stop(self) -> None:
        """End the step that `start` began."""
        if not self._measuring:
            raise RuntimeError("no step is being measured: call start() before stop()")
        self._end()
        if not self._in_loop:
            self._count += 1

    @property
    def steps(self) -> WatchedSteps:
        """The measured steps so far, as plain data."""
        return WatchedSteps(
            self.asked,
            dict(self._records),
            self._count,
            tuple(self._unwatched),
            tuple(self._recorder.layers()),
            dict(self._recorder.reasons),
        )

    def report(self, metrics: Iterable[str] | None = None, **arguments: Any) -> Report:
        """Return the times of the steps and of their layers, with the counts for the model's inputs in these steps.

        ``metrics`` are other status keys to report; functions get the `WatchedSteps` as ``watched``, and the
        ``arguments`` that they name, such as ``peaks_of="h100"`` for "step_mfu". The model is counted as it is now, on
        shapes alone; its memory includes the optimizer's state.
        """
        return self._make_report(self.steps, self._recorder, metrics, arguments)

    def _next(self) -> None:
        """Begin a step of the loop."""
        if self._count in self.asked and not self._measuring:
            self._begin()
        self._began = time.perf_counter()

    def _begin(self) -> None:
        self._measuring = True
        try:
            self._recorder.begin()
        except BaseException:
            self._measuring = False
            raise

    def _end(self) -> None:
        """Keep the record of the step."""
        self._measuring = False
        self._records[self._count] = self._recorder.end()

    def _abandon(self) -> None:
        """Drop the measurements of a step that did not end."""
        if self._measuring:
            self._measuring = False
            self._recorder.abandon()
