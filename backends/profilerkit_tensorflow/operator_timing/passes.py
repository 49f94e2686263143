"""Seconds of each operator in each layer: the kernels of profiler sessions, assigned to operators and layers."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import InputError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.count_text import list_some
from profilerkit.errors import explain_failed_step
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.cross_check import ObservedRun

from ..running.devices import copy_tensors, resolve_device
from ..running.required_values import require_values
from ..trace.messages import explain_failed_pass, explain_failures
from ..trace.program import Program, trace_program
from ..trace.program_trace import count_program_macs
from ..untouched.preservation import preserve
from .events import MAX_PASSES, op_seconds
from .ledger import Ledger
from .node_owners import NodeOwners
from .profiled_programs import fresh_call, has_gradient, make_training_program

__all__ = ["measure_operator_times"]


class _Phase(NamedTuple):
    """A phase that has been timed: the seconds of its operators, and notes on what the profiler has not seen of it."""

    ledger: Ledger
    notes: list[str]


@dataclass(frozen=True)
class _Sessions:
    """Profiler sessions, in which programs are run and timed.

    Attributes:
        inputs: What the programs get, on the device that they run on.
        passes: How often each is run.
        synchronized: Whether a run is over only when the device is done, which a GPU says when it is asked.
        export: The file for the profile. A profile is one session: each session replaces what the last one has
            written, so that the file has the last of them all.
    """

    inputs: ModelInputs
    passes: int
    synchronized: bool
    export: str | os.PathLike[str] | None

    def time(self, phase: str, program: Program, owners: NodeOwners) -> _Phase:
        """Run a program in as many sessions as its passes need; ``phase`` is the one whose operators are kept."""
        ledger = Ledger(phase)
        call = fresh_call(program, self.inputs, self.synchronized)
        while len(ledger.whole) < self.passes:
            number = min(MAX_PASSES, self.passes - len(ledger.whole))
            for times in op_seconds(call, number, export=self.export):
                ledger.add(times, owners.locate(times))
        return _Phase(ledger, _note_unseen(owners, phase))


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
    _check_request(passes, export)
    require_values(model, inputs)
    target = resolve_device(model, device)
    with preserve(model, variable_values=True), tf.device(target) if device is not None else nullcontext():
        fed = copy_tensors(inputs)
        sessions = _Sessions(fed, passes, not target.startswith("/CPU"), export)
        with explain_failures(lambda error: explain_failed_pass(model, error, inputs)):
            # Kept apart from the training step, whose trace would otherwise find in the model's caches what this one
            # has put there: tensors of another graph.
            program = trace_program(model, fed, apart=True)
            phases = [sessions.time("forward", program, NodeOwners(program, training=False))]
        observed = ObservedRun("the function that is profiled", count_program_macs(program))
        is_trained = backward and has_gradient(program)
        if is_trained:
            with explain_failures(explain_failed_step):
                phases.append(sessions.time("backward", *make_training_program(model, fed, program)))
    notes = [note for phase in phases for note in phase.notes]
    if backward and not is_trained:
        notes.append("there is no backward pass: none of the outputs is of a floating-point type")
    ledgers = [phase.ledger for phase in phases]
    return OperatorTimes(
        operators=tuple(times for ledger in ledgers for times in ledger.list_times()),
        whole={ledger.phase: tuple(ledger.whole) for ledger in ledgers},
        layers={ledger.phase: ledger.layers for ledger in ledgers},
        notes=tuple(notes),
        runs=(observed,),
    )


def _check_request(passes: int, export: str | os.PathLike[str] | None) -> None:
    """Raise `InputError` for what could only fail after the model has run: no passes, a file that cannot be written."""
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    problem = None if export is None else obstacle(export)
    if problem is not None:
        raise InputError(f"export={str(export)!r}: {problem}")


def _note_unseen(owners: NodeOwners, phase: str) -> list[str]:
    """Return a note if functions that XLA compiles run in a phase: each is one call, which the profiler leaves out."""
    layers = sorted({call.layer for call in owners.find_compiled() if call.is_gradient == (phase == "backward")})
    if not layers:
        return []
    callers = list_some([repr(path) if path else "the model itself" for path in layers], 3)
    return [
        f"{phase}, the operators inside functions that XLA compiles, which TensorFlow's profiler does not record; "
        f"they are called by {callers}, and their time is outside operators"
    ]
