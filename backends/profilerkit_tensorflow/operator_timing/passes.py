"""Seconds of each operator in each layer: the kernels of profiler sessions, assigned to operators and layers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import InputError, ModelInputs
from profilerkit.errors import explain_failed_step
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.cross_check import ObservedRun

from ..running.devices import resolve_device
from ..running.required_values import require_values
from ..trace.messages import explain_failed_pass
from ..trace.program import Program, trace_program
from ..trace.program_trace import count_program_macs
from ..untouched.preservation import preserve
from .events import MAX_PASSES, op_seconds
from .ledger import Ledger
from .node_owners import NodeOwners
from .profiled_programs import failures_as, fresh_call, has_gradient, make_training_program

__all__ = ["times_of_operators"]


def times_of_operators(
    model: Any,
    inputs: ModelInputs,
    device: str | None = None,
    passes: int = 10,
    backward: bool = True,
    export: str | os.PathLike[str] | None = None,
) -> OperatorTimes:
    """Return the seconds of each operator in each layer, forward in inference mode and backward in a training step.

    Time in which several kernels run is divided among them. Operators are those of the traced graph; the time of a
    kernel that TensorFlow has fused from several is that of the convolution or product among them. The seconds of a
    whole backward pass are those of a training step without its forward operators. With ``export`` the profile (an
    XSpace, which TensorBoard's profile page and ``xprof`` read) of the last session goes to a file.

    Raises as `layer_times` does, and `InputError` for a file that cannot be written.
    """
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    wrong = None if export is None else obstacle(export)
    if wrong is not None:
        raise InputError(f"export={str(export)!r}: {wrong}")
    require_values(model, inputs)
    target = resolve_device(model, device)
    ledgers = [Ledger("forward")]
    with preserve(model, variable_values=True), tf.device(target) if device is not None else nullcontext():
        fed = inputs.map(lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf)
        synchronized = not target.startswith("/CPU")
        with failures_as(lambda error: explain_failed_pass(model, error, inputs)):
            program = trace_program(model, fed, apart=True)
            owners = NodeOwners(program, training=False)
            _time(ledgers[0], owners, program, fed, passes, synchronized, export)
        unseen = list(_note_unseen(owners, "forward"))
        runs = (ObservedRun("the function that is profiled", count_program_macs(program)),)
        if backward and has_gradient(program):
            ledgers.append(Ledger("backward"))
            with failures_as(explain_failed_step):
                step, owners = make_training_program(model, fed, program)
                _time(ledgers[1], owners, step, fed, passes, synchronized, export)
            unseen += _note_unseen(owners, "backward")
        elif backward:
            unseen.append("there is no backward pass: none of the outputs is of a floating-point type")
    return OperatorTimes(
        tuple(times for ledger in ledgers for times in ledger.list_times()),
        {ledger.phase: tuple(ledger.whole) for ledger in ledgers},
        {ledger.phase: ledger.layers for ledger in ledgers},
        tuple(unseen),
        runs=runs,
    )


def _time(
    ledger: Ledger,
    owners: NodeOwners,
    program: Program,
    inputs: ModelInputs,
    passes: int,
    synchronized: bool,
    export: str | os.PathLike[str] | None,
) -> None:
    """Run a program so many times, in sessions of at most `MAX_PASSES` passes, and add each pass to the ledger."""
    call = fresh_call(program, inputs, synchronized)
    while len(ledger.whole) < passes:
        number = min(MAX_PASSES, passes - len(ledger.whole))
        for times in op_seconds(call, number, export=export):
            ledger.add(times, owners.locate(times))


def _note_unseen(owners: NodeOwners, phase: str) -> Iterator[str]:
    """Yield a note if functions that XLA compiles run in a phase: each is one call, which the profiler leaves out."""
    layers = sorted({call.layer for call in owners.find_compiled() if call.is_gradient == (phase == "backward")})
    if layers:
        named = ", ".join(repr(path) if path else "the model itself" for path in layers[:3])
        more = f" and {len(layers) - 3} more" if len(layers) > 3 else ""
        yield (
            f"{phase}, the operators inside functions that XLA compiles, which TensorFlow's profiler does not record; "
            f"they are called by {named}{more}, and their time is outside operators"
        )
