"""The base of the callbacks of all training frameworks: a `Watch` that their hooks move on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..profiler import Profiler
from ..results.report import Report
from ..times.steps import STEPS
from ..times.watching import Watch

__all__ = ["LoopWatch"]


class LoopWatch:
    """Watches a training loop through the hooks of a framework; see `profilerkit.Profiler.watch`.

    Args:
        at_step: The number of a step, counted from 0 when training begins, or several.
        inputs: The inputs for the counts, such as a batch, if the backend does not see the inputs of the loop.
    """

    def __init__(self, at_step: int | Iterable[int] = 5, inputs: Any = None) -> None:
        self._at_step: tuple[int, ...] = STEPS("at_step", at_step)
        self._inputs = inputs
        self._watched: Watch | None = None
        self._is_training = self._is_paused = False

    @property
    def watched(self) -> Watch:
        """The watch of the last training; `RuntimeError` before the first."""
        if self._watched is None:
            raise RuntimeError("no training was watched yet: give this callback to the trainer, and train")
        return self._watched

    def report(self, metrics: Iterable[str] | None = None) -> Report:
        """Return the results, like `Watch.report`; `RuntimeError` before the first training."""
        return self.watched.report(metrics)

    def close(self) -> None:
        """Stop and remove everything; needed only after an error that the framework does not report."""
        if self._is_training and self._watched is not None:
            self._is_training = self._is_paused = False
            self._watched.__exit__(None, None, None)

    def _begin(self, model: Any, optimizer: Any = None, steps_before: int = 0) -> None:
        """Training begins, or has begun ``steps_before`` steps ago; one that was broken off before is closed."""
        self.close()
        profiler = Profiler(model, inputs=self._inputs) if self._inputs is not None else Profiler(model)
        self._watched = profiler.watch(self._at_step, optimizer=optimizer)
        self._watched.__enter__()
        for _ in range(steps_before):
            self._watched.step()
        self._is_training = True

    def _step(self) -> None:
        """A step of the training has ended."""
        if self._is_training:
            self.watched.step()

    def _pause(self) -> None:
        """Something comes that is no step: an evaluation, a checkpoint."""
        if self._is_training and not self._is_paused:
            self._is_paused = True
            self.watched.pause()

    def _resume(self) -> None:
        """The evaluation or checkpoint has ended."""
        if self._is_training and self._is_paused:
            self._is_paused = False
            self.watched.resume()
