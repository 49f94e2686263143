"""The record of one rank's training step: its operators by layer, the bytes alive after each, and its collectives.

`watch_step` reports every operator to it. Schemes report work for another layer than the running one, and the purpose
of tensors: by `RankRecorder.begin` and `work_apart`, and in its `RankMemory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from profilerkit.trace.records import MemoryTimeline, OpRecord
from profilerkit_predict.meshes.records import Message, Purpose, count_additions

from ..compat.autograd import find_current_node
from ..compat.meshes import find_source
from ..compat.operators import read_schema
from ..costs import Kind, classify
from ..trace.operator_facts import OperatorCall, tensors_in
from ..trace.pass_record import NOTHING, OperatorRecord
from ..trace.plans import make_plan
from .collectives import Exchange, Exchanges, count_elements, is_collective, read_message
from .rank_layers import RankLayers
from .rank_memory import RankMemory, count_bytes, find_share

__all__ = ["RankRecorder"]


class _Work(NamedTuple):
    """The kind of the work that runs now."""

    part: str  #: the part of memory that its operators' tensors belong to
    is_apart: bool = False  #: whether `RankRecorder.work_apart` determines the layer that it runs for
    overlaps: bool = False  #: whether its collectives run beside the rank's own work


class RankRecorder(OperatorRecord):
    """The work, the bytes alive and the collectives of one rank in a training step.

    The layers tell the running layer, and the layer that made a node of the autograd graph.
    """

    layers: RankLayers

    def __init__(self, layers: RankLayers) -> None:
        super().__init__(layers)
        self.memory: RankMemory = RankMemory(self.live)
        self.exchanges: Exchanges = Exchanges()
        self.trained: set[int] = set()  #: the ``id`` of each parameter that got a gradient
        self._work = _Work("activations")

    # Notes for the operators that follow ------------------------------------------------------------------------------

    def begin(self, phase: str) -> None:
        """Record the next operators for a phase, "forward" or "backward".

        The forward pass makes activations. Tensors of the backward pass are "other", until they are noted as gradients.
        """
        self.phase = phase
        self._work = self._work._replace(part="activations" if phase == "forward" else "other")

    @contextmanager
    def work_apart(self, path: str, part: str, overlaps: bool = True) -> Iterator[None]:
        """Count the work inside for the layer at a path, whichever layer runs, and its tensors for a part of memory.

        The path of the model itself is empty. Collectives inside run beside the rank's own work if it ``overlaps``.
        """
        outside, self._work = self._work, _Work(part, is_apart=True, overlaps=overlaps)
        try:
            with self.layers.work_for(path):
                yield
        finally:
            self._work = outside

    def note_trained(self, parameter: torch.Tensor) -> None:
        """Note that a parameter has got its gradient."""
        self.trained.add(id(parameter))
        if parameter.grad is not None:
            self.memory.keep_gradients([find_share(parameter.grad)], self.layers.find_owner(parameter))

    # Operators --------------------------------------------------------------------------------------------------------

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record an operator that has run on this rank's share of its tensors."""
        with self._enter_maker():
            if is_collective(func):
                self._record_collective(func, args, result)
            elif classify(func) is Kind.VIEW:
                self._record_view(func, result)
            else:
                self._record_work(func, args, kwargs, result)

    def _enter_maker(self) -> AbstractContextManager[None]:
        """Count the records inside for the layer call that made the running node of the autograd graph.

        Nodes run in the backward pass alone. A layer that a checkpoint repeats there, and work whose layer
        `work_apart` determines, do not belong to the node around them.
        """
        if self.phase != "backward" or not self.layers.is_idle or self._work.is_apart:
            return nullcontext()
        node = find_current_node()
        return nullcontext() if node is None else self.layers.work_for(*self.layers.find_maker(node))

    def _record_work(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record an operator by its formula; without a formula it has no cost, and is listed as uncounted."""
        kind = classify(func)
        if kind is Kind.COMPOSITE:  # it has run as one operator here: its parts are not recorded
            kind = Kind.UNKNOWN
        plan = make_plan(OperatorCall(func, args, kwargs), kind, result, device=None)  # the rank's device is not known
        if plan.operator.missing:
            self.uncounted[plan.operator.missing] += 1
        if plan.unknown_inside:
            self.unsized[plan.unknown_inside] += 1
        self._add(plan.operator, result, plan.bytes_inside)

    def _record_view(self, func: Any, result: Any) -> None:
        """Record an operator that returns a view, or a copy if no view is possible: only the copy is work."""
        before = self.live.total
        self.memory.hold(result, self._purpose)
        if self.live.total != before:
            size = count_bytes(tensors_in(result))
            self._add(OpRecord(str(func), "", 0, *NOTHING, size, size, ()), result)

    def _add(self, operator: OpRecord, result: Any, bytes_inside: int = 0) -> None:
        """Add an operator, and the bytes alive with its result and with tensors that were alive only while it ran."""
        self.memory.hold(result, self._purpose)
        self.operators.append(self.with_layer(operator))
        self.live_bytes.append(self.memory.note_peak(Purpose("other", self.layers.current), bytes_inside))

    @property
    def _purpose(self) -> Purpose:
        """The purpose of tensors that are made now."""
        return Purpose(self._work.part, self.layers.current)

    def timeline(self, weight_bytes: int, left_bytes: int) -> MemoryTimeline:
        """Return the memory timeline recorded so far."""
        return MemoryTimeline(
            weight_bytes,
            self.memory.input_bytes,
            tuple(self.live_bytes),
            parts=self.memory.divide_peak(),
            unsized=self.unsized,
            left_bytes=left_bytes,
        )

    # Collectives ------------------------------------------------------------------------------------------------------

    def _record_collective(self, func: Any, args: Any, result: Any) -> None:
        """Record a collective as an operator, whose cost is the additions of this rank; and its message."""
        cost = NOTHING
        try:
            message = read_message(func, args, result)
        except LookupError:
            self.exchanges.unknown[str(read_schema(func).name)] += 1
        else:
            if message is not None:  # it does exchange something
                self.exchanges.by_operator[len(self.operators)] = self._describe_exchange(message, args)
                cost = count_additions(message, count_elements(args, result))
        self._add(OpRecord(str(func), "", 0, *cost, 0, 0, ()), result)

    def _describe_exchange(self, message: Message, args: Any) -> Exchange:
        """Return the exchange of the layer that runs; a pipeline sends and receives beside the rank's own work."""
        overlaps = self._work.overlaps or message.kind in ("send", "receive")
        is_gradient = self.phase == "backward" and "reduce" in message.kind and not self._work.is_apart
        node = find_current_node() if is_gradient else None
        source = None if node is None else find_source(node)
        return Exchange(message, self.layers.current, self.exchanges.find_phase(args) or self.phase, overlaps, source)
