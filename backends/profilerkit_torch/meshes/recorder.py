"""The record of one rank's training step: its operators by layer, the bytes alive after each, and its collectives.

`watch_step` tells it of every operator. What runs for another layer than the one that torch is in, and what tensors are
for, is told by the schemes: by `RankRecorder.begin`, `work_apart`, `note_exchanged` and `note_gradients`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from profilerkit.costs import Cost
from profilerkit.trace.records import OpRecord, TensorInfo
from profilerkit_predict.meshes.exchanges import Exchanges, Message

from ..compat.autograd import find_current_node
from ..compat.meshes import find_source
from ..compat.operators import read_schema
from ..compat.tensors import storage_address
from ..costs import Kind, classify
from ..trace.operator_facts import tensors_in
from ..trace.pass_record import NOTHING, OperatorRecord
from ..trace.replay import make_plan
from .collectives import count_additions, is_collective, read_message
from .rank_layers import RankLayers
from .shares import count_bytes, find_gradient

__all__ = ["Exchange", "RankRecorder"]


class Exchange(NamedTuple):
    """A collective of a step, and what for.

    Attributes:
        message: What it exchanges.
        layer: The path of the layer.
        phase: The phase of the step.
        overlaps: Whether it runs beside the rank's own work.
        source: Which tensor it is that a gradient is reduced of, by the node that made it; None if it is none.
    """

    message: Message
    layer: str
    phase: str
    overlaps: bool
    source: tuple[int, int] | None = None


class RankRecorder(OperatorRecord):
    """What one rank does in a training step, keeps alive and exchanges.

    Args:
        layers: Which layer of the model runs, and which one made a node of the autograd graph.
        exchanges: Adds up the collectives.
    """

    layers: RankLayers

    def __init__(self, layers: RankLayers, exchanges: Exchanges) -> None:
        super().__init__(layers)
        self.exchanges: Exchanges = exchanges
        #: How often each collective that is not known was called, by its name.
        self.unknown: Counter[str] = Counter()
        #: The bytes alive after each operator, by what they are for; they hold no weights.
        self.alive: list[Counter[str]] = []
        #: The collectives, by the places of their operators.
        self.exchanged: dict[int, Exchange] = {}
        #: The ``id`` of each parameter that got a gradient.
        self.trained: set[int] = set()
        #: The bytes alive after the step, where they are not those that are alive now.
        self.left_bytes: int | None = None
        #: For which phase a tensor is exchanged, by the address of its storage; the others are for the phase that runs.
        self._phases: dict[int, str] = {}
        #: Whether `work_apart` says for which layer the operators run.
        self._is_apart = False

    @property
    def peak_parts(self) -> dict[str, int]:
        """What the most bytes alive were for; they hold no weights."""
        return max(self.alive, key=Counter.total, default=Counter[str]())

    # What a step says of the operators that follow --------------------------------------------------------------------

    def begin(self, phase: str) -> None:
        """Record what follows as of a phase, "forward" or "backward".

        The forward pass makes activations. What the backward pass makes is "other", until a gradient is noted to stay.
        """
        self.phase = phase
        self.live.part = "activations" if phase == "forward" else "other"

    @contextmanager
    def work_apart(self, path: str, part: str) -> Iterator[None]:
        """Count what runs inside for the layer of this path, whatever torch is in, and its tensors to a part of memory.

        Collectives inside run beside the rank's own work.
        """
        is_apart, outer_part = self._is_apart, self.live.part
        self._is_apart, self.live.part = True, part
        try:
            with self.layers.work_for(path):
                yield
        finally:
            self._is_apart, self.live.part = is_apart, outer_part

    def note_exchanged(self, tensor: torch.Tensor, phase: str) -> None:
        """Note for which phase a tensor will be sent or received, whenever that is."""
        self._phases[storage_address(tensor.untyped_storage())] = phase

    def note_gradients(self, gradients: Iterable[torch.Tensor | None]) -> None:
        """Note that this rank's share of these gradients is there to stay; None is that of a weight without one."""
        for gradient in gradients:
            if gradient is not None:
                self.live.move(gradient, "gradients")

    def note_trained(self, parameter: torch.Tensor) -> None:
        """Note that a parameter has got its gradient."""
        self.trained.add(id(parameter))
        self.note_gradients([find_gradient(parameter)])

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
        """Count what is recorded inside for the layer call that made the running node of the autograd graph.

        There is such a node in the backward pass alone. Neither a layer that a checkpoint runs once more there, nor
        work of which `work_apart` says the layer, is that of the node around it.
        """
        if self.phase != "backward" or not self.layers.is_idle or self._is_apart:
            return nullcontext()
        node = find_current_node()
        return nullcontext() if node is None else self.layers.work_for(*self.layers.find_maker(node))

    def _record_work(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record an operator by its formula; one without is recorded without a cost, and said to be uncounted."""
        kind = classify(func)
        if kind is Kind.COMPOSITE:  # it has run as one operator here: none that it is made of is recorded instead
            kind = Kind.UNKNOWN
        plan = make_plan(func, kind, args, kwargs, result, device=None)  # the rank's device is not known
        if not plan.counted:
            self.uncounted[plan.schema] += 1
        if plan.unknown_inside:
            self.unsized[plan.unknown_inside] += 1
        operator = self._describe(
            plan.name,
            plan.cost,
            bytes_read=plan.bytes_read,
            bytes_written=plan.bytes_written,
            outputs=plan.outputs,
            attended_macs=plan.attended_macs,
            is_masked=plan.is_masked,
            product_dtype=plan.product_dtype,
            missing="" if plan.counted else plan.schema,
        )
        self._add(operator, result, plan.bytes_inside)

    def _record_view(self, func: Any, result: Any) -> None:
        """Record an operator that returns a view, or a copy where it cannot: only the copy is work."""
        before = self.live.total
        self._count_alive(result)
        if self.live.total != before:
            size = count_bytes(tensors_in(result))
            self._add(self._describe(str(func), NOTHING, bytes_read=size, bytes_written=size), result)

    def _describe(
        self,
        name: str,
        cost: Cost,
        *,
        bytes_read: int = 0,
        bytes_written: int = 0,
        outputs: tuple[TensorInfo, ...] = (),
        attended_macs: int | None = None,
        is_masked: bool = False,
        product_dtype: str | None = None,
        missing: str = "",
    ) -> OpRecord:
        """Return the record of an operator of the layer and the phase that run; the fields are those of `OpRecord`."""
        return OpRecord(
            operator=name,
            layer=self.layers.current,
            call=self.layers.current_call,
            macs=cost.macs,
            flops=cost.flops,
            bytes_read=bytes_read,
            bytes_written=bytes_written,
            outputs=outputs,
            phase=self.phase,
            recomputed=self.phase == "backward" and not self.layers.is_idle,
            attended_macs=attended_macs,
            is_masked=is_masked,
            product_dtype=product_dtype,
            missing=missing,
        )

    def _add(self, operator: OpRecord, result: Any, bytes_inside: int = 0) -> None:
        """Add an operator, and the bytes alive with its result and what was alive only while it ran."""
        self._count_alive(result)
        self.operators.append(operator)
        alive = self.count_parts(bytes_inside)
        self.alive.append(alive)
        self.live_bytes.append(alive.total())

    def _count_alive(self, result: Any) -> None:
        """Count the tensors of a result as alive."""
        for tensor in tensors_in(result):
            self.live.add(tensor)

    def count_parts(self, bytes_inside: int = 0) -> Counter[str]:
        """Return the bytes alive by what they are for; those that are alive only inside an operator are "other"."""
        self.live.take_off()
        parts = Counter({name: size for name, size in self.live.parts.items() if size})
        if bytes_inside:
            parts["other"] += bytes_inside
        return parts

    def rewrite(self, operators: Iterable[OpRecord], alive: Iterable[Counter[str]]) -> None:
        """Take other operators and bytes alive for those that were recorded."""
        self.operators[:], self.alive[:] = operators, alive
        self.live_bytes[:] = map(Counter.total, self.alive)

    # Collectives ------------------------------------------------------------------------------------------------------

    def _record_collective(self, func: Any, args: Any, result: Any) -> None:
        """Record a collective as an operator, whose cost is the additions of this rank; and what it exchanges."""
        cost = NOTHING
        try:
            message = read_message(func, args, result)
        except LookupError:
            self.unknown[str(read_schema(func).name)] += 1
        else:
            if message is not None:  # it does exchange something
                self._exchange(message, args)
                cost = count_additions(message, args, result)
        self._add(self._describe(str(func), cost), result)

    def _exchange(self, message: Message, args: Any) -> None:
        """Add a message to those of the layer that runs; what a pipeline sends and receives is beside its work."""
        overlaps = self._is_apart or message.kind in ("send", "receive")
        is_gradient = self.phase == "backward" and "reduce" in message.kind and not overlaps
        node = find_current_node() if is_gradient else None
        source = None if node is None else find_source(node)
        exchange = Exchange(message, self.layers.current, self._find_phase(args), overlaps, source)
        self.exchanged[len(self.operators)] = exchange
        self.exchanges.add(*exchange[:4], len(self.operators))

    def _find_phase(self, args: Any) -> str:
        """Return the phase that the arguments of a collective are exchanged for: the one that runs if none is noted."""
        for tensor in tensors_in(args):
            address = storage_address(tensor.untyped_storage())
            if address in self._phases:
                return self._phases[address]
        return self.phase

    def exchange_anew(self, exchanged: Mapping[int, Exchange]) -> None:
        """Take other collectives for those that were recorded."""
        self.exchanged, self.exchanges = dict(exchanged), Exchanges(self.exchanges.mesh)
        for position, exchange in self.exchanged.items():
            self.exchanges.add(*exchange[:4], position)
