"""The seconds of each operator in each layer: forward in inference, backward in training steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from torch import nn
from torch.profiler import ProfilerActivity

from profilerkit import InputError, ModelFailedError, ModelInputs
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.errors import explain_failed_step
from profilerkit.process.collector import collector_paused
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.observed_runs import ObservedRun

from ..compat.compiler import runs_compiled
from ..model.modules import list_modules
from ..running.profiler_sessions import require_idle_profiler
from ..running.runs import prepare_run
from ..running.training_steps import NothingTrainedError
from ..trace.layers import LayerStack
from ..untouched.caller_context import apart
from .ledger import OperatorLedger
from .operators import find_profiled_name, is_free
from .profiled_passes import choose_activities, export_session, mark_layers, mark_model, run_session

__all__ = ["measure_operator_times"]

#: A session is kept in memory until it ends; a pass with more events has a session of its own.
_EVENTS_OF_A_SESSION = 50_000


def measure_operator_times(
    model: nn.Module,
    inputs: ModelInputs,
    device: DeviceLike = None,
    passes: int = 10,
    backward: bool = True,
    export: str | os.PathLike[str] | None = None,
) -> OperatorTimes:
    """Return the seconds of each operator in each layer, forward for inference and backward in training steps.

    On a CUDA or XPU device they are the seconds of the kernels there. With ``export`` the profiler's own trace of the
    last pass goes to a file. The times include the overhead of the profiler, which matters most for small operators.

    Raises `ProfilerBusyError` if torch's profiler runs already, `InputError` for a number of passes below 1 and for
    a file that cannot be written, `NotOfferedError` for a device that the profiler does not see, `WithoutValuesError`
    for a model whose weights have no values, and `ModelFailedError` if the model raises.
    """
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    require_idle_profiler()
    wrong = None if export is None else obstacle(export)
    if export is not None and wrong is not None:
        raise InputError(f"export={os.fspath(export)!r}: {wrong}")
    timed = _TimedModel(model, inputs, device)
    forward = timed.time("forward", passes, None if backward else export)
    if not backward:
        return forward
    try:
        return _join(forward, timed.time("backward", passes, export))
    except NothingTrainedError:
        if export is not None:
            timed.time("forward", 1, export)
        note = "there is no backward pass: none of the model's outputs needs a gradient"
        return replace(forward, notes=(*forward.notes, note))
    except ModelFailedError as error:
        cause = error.__cause__ or error
        raise explain_failed_step(cause) from cause


def _join(forward: OperatorTimes, backward: OperatorTimes) -> OperatorTimes:
    """Return the times of both phases, with the runs of the forward phase, which are compared with a trace."""
    return replace(
        forward,
        operators=forward.operators + backward.operators,
        whole={**forward.whole, **backward.whole},
        layers={**forward.layers, **backward.layers},
        notes=tuple(dict.fromkeys(forward.notes + backward.notes)),
    )


class _TimedModel(NamedTuple):
    """A model whose operators are timed, with its inputs and the device; None for the device of the model."""

    model: nn.Module
    inputs: ModelInputs
    device: DeviceLike

    def time(self, phase: str, passes: int, export: str | os.PathLike[str] | None) -> OperatorTimes:
        """Return the seconds of each operator in one phase; a further pass is exported."""
        options = RunOptions(training=phase == "backward", device=self.device)
        with apart(), prepare_run(self.model, self.inputs, options) as call, collector_paused():
            activities, on_device = choose_activities({used.type for used in call.devices})
            ledger, layers = OperatorLedger(phase, on_device, is_free), LayerStack(self.model)
            is_compiled = any(map(runs_compiled, list_modules(self.model)))
            run = partial(mark_model, call) if is_compiled else call
            with nullcontext() if is_compiled else mark_layers(layers):  # with hooks torch would compile it anew
                _run_passes(run, passes, activities, ledger)
                if export is not None:
                    export_session(run, activities, export)
        notes = [f"{name}, whose operators have no layer" for name in layers.in_other_threads.counts]
        runs = list(call.runs)
        if is_compiled:
            notes.append("which layers the operators are of: torch.compile has compiled the model, or a part of it")
        elif phase == "forward":
            calls = {path: ledger.calls.get(path, 0) for paths in layers.paths.values() for path in paths}
            runs.append(ObservedRun("the last profiled pass", calls=calls))
        return replace(ledger.times(), notes=tuple(notes), name_of=find_profiled_name, runs=tuple(runs))


def _run_passes(
    run: Callable[[], object], passes: int, activities: Sequence[ProfilerActivity], ledger: OperatorLedger
) -> None:
    """Run the model under the profiler, in sessions of as many passes as memory allows; the first has one pass."""
    remaining, in_session = passes, 1
    while remaining:
        in_session = min(in_session, remaining)
        events = run_session(run, in_session, activities)
        ledger.add(events)
        remaining -= in_session
        in_session = max(1, _EVENTS_OF_A_SESSION * in_session // max(1, len(events)))
