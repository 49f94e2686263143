"""Seconds of each operator in each layer: the kernels of profiler sessions, assigned to operators and layers."""

from __future__ import annotations

import os
from typing import Any

from profilerkit import InputError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.count_text import list_some
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.observed_runs import ObservedRun

from ..trace.program_trace import count_program_macs
from .ledger import sum_by_operator
from .session_passes import TimedPasses, time_model

__all__ = ["measure_operator_times"]


def measure_operator_times(
    model: Any,
    inputs: ModelInputs,
    device: DeviceLike = None,
    passes: int = 10,
    backward: bool = True,
    export: str | os.PathLike[str] | None = None,
) -> OperatorTimes:
    """Return the seconds of each operator in each layer, forward in inference mode and backward in a training step.

    Time in which several kernels run is divided among them. Operators are those of the traced graph; the time of a
    kernel that TensorFlow has fused from several is that of the convolution or product among them. The seconds of a
    whole backward pass are those of a training step without its forward operators. With ``export`` the profile (an
    XSpace, which TensorBoard's profile page and ``xprof`` read) of the last session goes to a file.

    Raises `InputError` for no passes and for a file that cannot be written, `WithoutValuesError` for a Keras model that
    is not built, `ProfilerBusyError` where a session of TensorFlow's profiler runs in this process, `NotOfferedError`
    where this TensorFlow writes profiles that cannot be read, and `ModelFailedError` where the model raises.
    """
    problem = None if export is None else obstacle(export)
    if problem is not None:  # which would only be found after the model has run
        raise InputError(f"export={str(export)!r}: {problem}")
    timed = time_model(model, inputs, device, passes, backward, export=export)
    phases = {"forward": timed.forward, **({} if timed.gradients is None else {"backward": timed.gradients})}
    notes = [note for phase, of_phase in phases.items() for note in _note_unseen(of_phase, phase)]
    if backward and timed.gradients is None:
        notes.append("there is no backward pass: none of the outputs is of a floating-point type")
    times = {phase: sum_by_operator(of_phase, phase) for phase, of_phase in phases.items()}
    return OperatorTimes(
        operators=tuple(operator for of_phase in times.values() for operator in of_phase.operators),
        whole={phase: of_phase.whole for phase, of_phase in times.items()},
        layers={phase: of_phase.layers for phase, of_phase in times.items()},
        notes=tuple(notes),
        runs=(ObservedRun("the function that is profiled", count_program_macs(timed.program)),),
    )


def _note_unseen(timed: TimedPasses, phase: str) -> list[str]:
    """Return a note if functions that XLA compiles run in a phase: each is one call, which the profiler leaves out."""
    layers = sorted({call.layer for call in timed.compiled if call.is_gradient == (phase == "backward")})
    if not layers:
        return []
    callers = list_some([repr(path) if path else "the model itself" for path in layers], 3)
    return [
        f"{phase}, the operators inside functions that XLA compiles, which TensorFlow's profiler does not record; "
        f"they are called by {callers}, and their time is outside operators"
    ]
