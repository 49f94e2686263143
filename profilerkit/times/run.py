"""A model that is ready to run: a backend creates it, and its calls are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..inputs import ModelInputs
from ..trace.observed_runs import ObservedRun

__all__ = ["Run"]


class Run:
    """A model that is ready to run, on its device and in its mode; each call runs one pass.

    A call returns when the device is done. A backend overrides `seconds` if its device has a clock of its own; `parts`
    if it can time the parts of a pass; and `observe` if it can count the work of a pass.

    Args:
        call: Runs one pass, and returns when every device is done.
        first_call_seconds: The seconds of the first pass, with tracing and compilation; None if nothing is compiled.
        read_outputs: Returns the numbers that the outputs of a call stand for, if they are encoded; it is never timed.
        read_inputs: Returns the numbers that inputs stand for.

    >>> run = Run(lambda: "outputs")
    >>> run()
    'outputs'
    """

    def __init__(
        self,
        call: Callable[[], Any],
        first_call_seconds: float | None = None,
        read_outputs: Callable[[Any], Any] = lambda outputs: outputs,
        read_inputs: Callable[[ModelInputs], ModelInputs] = lambda inputs: inputs,
    ) -> None:
        self.call = call
        self.first_call_seconds = first_call_seconds
        self.read_outputs = read_outputs
        self.read_inputs = read_inputs
        #: Observations of the passes so far, which are compared with the static trace.
        self.runs: list[ObservedRun] = []

    @classmethod
    def of(cls, call: Callable[[], Any]) -> Run:
        """Return a run as it is, and the run of any other function that can be called without arguments."""
        return call if isinstance(call, Run) else Run(call)

    def __call__(self) -> Any:
        """Run one pass; return its result."""
        return self.call()

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Run one pass and return its seconds, by the clock of the device if it has one, otherwise by ``clock``."""
        start = clock()
        self()
        return clock() - start

    def observe(self) -> None:
        """Run one more pass, which is no sample, and add its observation to ``runs``.

        Nothing is run unless a backend overrides this method.
        """

    def parts(self, clock: Callable[[], float] = time.perf_counter) -> Mapping[str, float]:
        """Run one pass and return the seconds of its parts by name; empty if the backend knows of no parts.

        A training step has the parts "forward" and "backward". Raises `NotOfferedError` for a pass whose parts the
        backend cannot tell apart: on TensorFlow for a training step that runs as one function, which is in every mode
        but "eager".
        """
        return {}
