"""The seconds of each operator in each layer: forward in inference, backward in training steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from torch import nn
from torch.profiler import ProfilerActivity

from profilerkit import InputError, ModelFailedError, ModelInputs
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.process.collector import collector_paused
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.observed_runs import ObservedRun

from ..compat.compiler import runs_compiled
from ..model.modules import list_modules
from ..running.profiler_sessions import require_idle_profiler
from ..running.runs import prepare_run
from ..running.training_steps import NothingTrainedError, explain_missing_steps
from ..trace.layers import LayerStack
from .events import LAYER_RANGE
from .ledger import OperatorLedger
from .operators import find_profiled_name, is_free
from .profiled_passes import LayerMarker, choose_activities, export_session, run_in_range, run_session

__all__ = ["measure_operator_times"]

#: A session is kept in memory until it ends; a pass with more events has a session of its own.
_EVENTS_OF_A_SESSION = 50_000
_COMPILED = "which layers the operators are of: torch.compile has compiled the model, or a part of it"


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

    Where a training step raises, as with an operator without a gradient, the times are those of forward passes alone,
    and a note says why.

    Raises `ProfilerBusyError` if torch's profiler runs already, `InputError` for a number of passes below 1 and for
    a file that cannot be written, `NotOfferedError` for a device that the profiler does not see, `WithoutValuesError`
    for a model whose weights have no values, and `ModelFailedError` if the model raises for inference, or a training
    step has not enough memory.
    """
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    require_idle_profiler()
    if export is not None and (wrong := obstacle(export)) is not None:
        raise InputError(f"export={os.fspath(export)!r}: {wrong}")
    forward = _time(model, inputs, RunOptions(device=device), passes, export)
    if not backward:
        return forward
    try:  # the file of a training step replaces that of a forward pass
        steps = _time(model, inputs, RunOptions(training=True, device=device), passes, export)
    except (NothingTrainedError, ModelFailedError) as error:
        return replace(forward, notes=(*forward.notes, explain_missing_steps(error)))
    return replace(  # the runs of the forward phase alone are compared with a trace
        forward,
        operators=forward.operators + steps.operators,
        whole={**forward.whole, **steps.whole},
        layers={**forward.layers, **steps.layers},
        notes=tuple(dict.fromkeys(forward.notes + steps.notes)),
    )


def _time(
    model: nn.Module, inputs: ModelInputs, options: RunOptions, passes: int, export: str | os.PathLike[str] | None
) -> OperatorTimes:
    """Return the seconds of each operator, backward for training steps, else forward; a further pass is exported."""
    is_compiled = any(map(runs_compiled, list_modules(model)))  # with hooks torch would compile it anew
    with prepare_run(model, inputs, options) as call, collector_paused():
        activities, on_device = choose_activities({used.type for used in call.devices})
        ledger = OperatorLedger("backward" if options.training else "forward", on_device, is_free)
        layers = LayerStack(model)
        layers.report_to(LayerMarker())
        run = partial(run_in_range, LAYER_RANGE, call) if is_compiled else call
        with nullcontext() if is_compiled else layers.follow():
            _run_passes(run, passes, activities, ledger)
            if export is not None:
                export_session(run, activities, export)
    times = replace(ledger.times(), name_of=find_profiled_name, runs=tuple(call.runs))
    return replace(times, notes=(_COMPILED,)) if is_compiled else _add_layers(times, ledger, layers)


def _add_layers(times: OperatorTimes, ledger: OperatorLedger, layers: LayerStack) -> OperatorTimes:
    """Return times with notes on layers in other threads, and with the calls of layers in the last forward pass."""
    notes = tuple(f"{name}, whose operators have no layer" for name in layers.in_other_threads.counts)
    calls = {path: ledger.calls.get(path, 0) for paths in layers.paths.values() for path in paths}
    observed = () if ledger.phase == "backward" else (ObservedRun("the last profiled pass", calls=calls),)
    return replace(times, notes=notes, runs=(*times.runs, *observed))


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
