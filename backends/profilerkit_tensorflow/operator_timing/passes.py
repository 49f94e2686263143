"""Seconds of each operator in each layer: the kernels of profiler sessions, assigned to operators and layers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import InputError, ModelInputs
from profilerkit.errors import explain_failed_step
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import CalledOperator, KernelTime, OperatorTime, OperatorTimes
from profilerkit.trace.cross_check import ObservedRun

from ..running.devices import resolve_device
from ..running.runs import require_values
from ..trace.messages import explain_failed_pass
from ..trace.program import Program, trace_program
from ..trace.tracing import BOOKKEEPING, macs_of_program
from ..untouched.preservation import preserve
from .events import MAX_PASSES, PassTimes, op_seconds
from .node_owners import NodeOwners, NodePlace
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
    with preserve(model, variable_values=True), tf.device(target) if device is not None else nullcontext():
        fed = inputs.map(lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf)
        synchronized = not target.startswith("/CPU")
        with failures_as(lambda error: explain_failed_pass(model, error, inputs)):
            program = trace_program(model, fed, apart=True)
            owners = NodeOwners(program, training=False)
            forward = _Ledger("forward")
            forward.time(owners, program, fed, passes, synchronized, export)
        unseen = list(_note_unseen(owners, "forward"))
        runs = (ObservedRun("the function that is profiled", macs_of_program(program)),)
        if not backward or not has_gradient(program):
            unseen += ["there is no backward pass: none of the outputs is of a floating-point type"] * backward
            return OperatorTimes(
                tuple(forward.times()), {"forward": tuple(forward.whole)}, forward.layers, tuple(unseen), runs=runs
            )
        with failures_as(explain_failed_step):
            step, owners = make_training_program(model, fed, program)
            gradients = _Ledger("backward")
            gradients.time(owners, step, fed, passes, synchronized, export)
    return OperatorTimes(
        (*forward.times(), *gradients.times()),
        {"forward": tuple(forward.whole), "backward": tuple(gradients.whole)},
        {**forward.layers, **gradients.layers},
        (*unseen, *_note_unseen(owners, "backward")),
        runs=runs,
    )


def _note_unseen(owners: NodeOwners, phase: str) -> Iterator[str]:
    """Yield a note if functions that XLA compiles run in a phase: each is one call, which the profiler leaves out."""
    layers = sorted({path for path, of_gradient in owners.find_compiled() if of_gradient == (phase == "backward")})
    if layers:
        named = ", ".join(repr(path) if path else "the model itself" for path in layers[:3])
        more = f" and {len(layers) - 3} more" if len(layers) > 3 else ""
        yield (
            f"{phase}, the operators inside functions that XLA compiles, which TensorFlow's profiler does not record; "
            f"they are called by {named}{more}, and their time is outside operators"
        )


class _Ledger:
    """Sums the passes up to the seconds of each operator of one phase; only the last pass is kept."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.whole: list[float] = []
        self._seconds: dict[tuple[str, str], dict[tuple[str, int], float]] = {}
        self._last: dict[tuple[str, str], list[tuple[int, CalledOperator]]] = {}
        self._calls: defaultdict[tuple[tuple[str, str], str], int] = defaultdict(int)
        self._ran: set[str] = set()

    def time(
        self, owners: NodeOwners, program: Program, inputs: ModelInputs, passes: int, synchronized: bool, export: Any
    ) -> None:
        """Run a program ``passes`` times, in sessions of at most `MAX_PASSES` passes."""
        call = fresh_call(program, inputs, synchronized)
        while len(self.whole) < passes:
            number = min(MAX_PASSES, passes - len(self.whole))
            for times in op_seconds(call, number, export=export).passes:
                self._add(times, owners.locate(times))

    @property
    def layers(self) -> dict[str, frozenset[str]]:
        """The layers that own a kernel of the last pass."""
        return {self.phase: frozenset(self._ran)}

    def times(self) -> Iterator[OperatorTime]:
        """Yield each operator's times so far."""
        passes = range(len(self.whole))
        for key, seconds in self._seconds.items():
            names = dict.fromkeys(name for name, _ in seconds)
            kernels = [
                KernelTime(name, self._calls[key, name], tuple(seconds.get((name, index), 0.0) for index in passes))
                for name in names
            ]
            yield OperatorTime(
                operator=key[0],
                layer=key[1],
                phase=self.phase,
                calls=sum(kernel.calls for kernel in kernels),
                seconds=tuple(_sums(kernels)),
                kernels=tuple(kernels),
                called=tuple(self._last.get(key, ())),
            )

    def _add(self, times: PassTimes, placed: dict[str, NodePlace]) -> None:
        index, backward = len(self.whole), self.phase == "backward"
        self._last.clear()
        self._calls.clear()
        self._ran.clear()
        others = 0.0
        for node, time in times.nodes.items():
            owned = placed[node]
            if owned.backward != backward:
                others += time.share_seconds
                continue
            key = owned.type, owned.owner.path
            seconds = self._seconds.setdefault(key, {})
            seconds[time.op_type, index] = seconds.get((time.op_type, index), 0.0) + time.share_seconds
            self._calls[key, time.op_type] += time.calls
            self._last.setdefault(key, []).append((0, _operator(owned, time.op_type)))
            self._ran.add(owned.owner.path)
        self.whole.append(times.wall_seconds - others)


def _operator(node: NodePlace, kernel: str) -> CalledOperator:
    """Return a node's operator, with the others of its layer that its kernel runs too."""
    if not node.parts:
        return CalledOperator(node.type, is_free=node.type in BOOKKEEPING)
    inside = tuple(CalledOperator(name, is_free=name in BOOKKEEPING) for name in (node.type, *node.parts))
    return CalledOperator(kernel, inside)


def _sums(kernels: Sequence[KernelTime]) -> Iterator[float]:
    return (sum(values) for values in zip(*(kernel.seconds for kernel in kernels), strict=True))
