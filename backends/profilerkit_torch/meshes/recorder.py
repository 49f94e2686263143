"""Watches the step of one rank: its operators by layer, the bytes alive after each, and its collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit.costs import Cost
from profilerkit.process.restoring import call_each, restored
from profilerkit.trace.records import OpRecord

from ..compat import (
    FakeTensor,
    TorchDispatchMode,
    current_node,
    find_parameter_group,
    find_sharding_planner,
    has_dispatch_rules,
    read_group_gradients,
    read_group_path,
    schema_of,
    storage_address,
)
from ..costs import Kind, classify
from ..trace.operator_facts import tensors_in
from ..trace.pass_record import OperatorRecord
from ..trace.replay import make_plan
from .collectives import Exchanges, count_additions, is_collective, read_message
from .rank_layers import RankLayers
from .shares import count_bytes

__all__ = ["RankRecorder"]

_PLAIN = (torch.Tensor, nn.Parameter, FakeTensor)
#: What torch asks and tells itself: no work.
_SILENT = ("profiler", "prim")


class RankRecorder(TorchDispatchMode, OperatorRecord):
    """A mode below tensors that are spread over ranks: it sees the operators on this rank's own share alone."""

    layers: RankLayers

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping each dispatch once more: nothing is compiled while a mode like this is active."""
        return False

    def __init__(self, layers: RankLayers, exchanges: Exchanges) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        OperatorRecord.__init__(self, layers)
        self.exchanges: Exchanges = exchanges
        #: What the most bytes alive were for.
        self.peak_parts: dict[str, int] = {}
        #: Collectives that are not known, by name.
        self.unknown: Counter[str] = Counter()
        #: The phase that a tensor is sent or received for, by the address of its storage, where one was told.
        self._phases: dict[int, str] = {}
        self._peak_bytes = -1
        #: Whether torch runs operators at the shapes of the whole model, to find how a result is spread.
        self._is_planning = False
        #: Whether ``fully_shard`` gathers or reduces now: that is of its own layer, whatever node runs.
        self._works_for_group = False

    # Operators --------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record an operator on this rank's share; one on a spread tensor is left to that, which calls others."""
        kwargs = kwargs or {}
        if any(kind not in _PLAIN and has_dispatch_rules(kind) for kind in types):
            return NotImplemented
        result = func(*args, **kwargs)
        if self._is_planning or str(schema_of(func).name).partition("::")[0] in _SILENT:
            return result
        is_of_node = self.phase == "backward" and self.layers.is_idle and not self._works_for_group
        node = current_node() if is_of_node else None
        if node is None:
            self._record(func, args, kwargs, result)
        else:
            with self.layers.work_for(*self.layers.find_maker(node)):
                self._record(func, args, kwargs, result)
        return result

    def _record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record an operator for the layer that runs."""
        if is_collective(func):
            self._add(str(func), self._exchange(func, args, result), result)
            return
        kind = classify(func)
        if kind is Kind.VIEW:
            self._record_view(func, result)
            return
        plan = make_plan(func, Kind.UNKNOWN if kind is Kind.COMPOSITE else kind, args, kwargs, result, None)
        if not plan.counted:
            self.uncounted[plan.schema] += 1
        if plan.unknown_inside:
            self.unsized[plan.unknown_inside] += 1
        self._add(
            plan.name,
            plan.cost,
            result,
            plan.bytes_inside,
            bytes_read=plan.bytes_read,
            bytes_written=plan.bytes_written,
            outputs=plan.outputs,
            attended_macs=plan.attended_macs,
            is_masked=plan.is_masked,
            product_dtype=plan.product_dtype,
        )

    def _record_view(self, func: Any, result: Any) -> None:
        """Record an operator that returns a view, or a copy where it cannot: only the copy is work."""
        before = self.live.total
        for tensor in tensors_in(result):
            self.live.add(tensor)
        if self.live.total != before:
            size = count_bytes(tensors_in(result))
            self._add(str(func), Cost(0, 0), result, bytes_read=size, bytes_written=size)

    def _add(self, name: str, cost: Cost, result: Any, bytes_inside: int = 0, **facts: Any) -> None:
        """Add an operator, and the bytes alive after it, with those alive only while it ran."""
        for tensor in tensors_in(result):
            self.live.add(tensor)
        layer, call = self.layers.current, self.layers.current_call
        is_repeated = self.phase == "backward" and not self.layers.is_idle
        facts = {"bytes_read": 0, "bytes_written": 0, "outputs": (), **facts}
        self.operators.append(
            OpRecord(name, layer, call, cost.macs, cost.flops, phase=self.phase, recomputed=is_repeated, **facts)
        )
        total = self.live.total + bytes_inside
        self.live_bytes.append(total)
        if total > self._peak_bytes:
            self._peak_bytes = total
            parts = {name: size for name, size in self.live.parts.items() if size}
            self.peak_parts = {**parts, "other": parts.get("other", 0) + bytes_inside}

    def _exchange(self, func: Any, args: Any, result: Any) -> Cost:
        """Add a collective to those of its layer, and return the additions that this rank does for it."""
        try:
            message = read_message(func, args, result)
        except LookupError:
            self.unknown[str(schema_of(func).name)] += 1
            return Cost(0, 0)
        if message is None:
            return Cost(0, 0)
        told = (self._phases.get(storage_address(tensor.untyped_storage())) for tensor in tensors_in(args))
        phase = next(filter(None, told), self.phase)
        overlaps = self._works_for_group or message.kind in ("send", "receive")
        self.exchanges.add(message, self.layers.current, phase, overlaps)
        return count_additions(message, args, result)

    def note_exchanged(self, tensor: torch.Tensor, phase: str) -> None:
        """Note for which phase a tensor will be sent or received, whenever that is."""
        self._phases[storage_address(tensor.untyped_storage())] = phase

    def note_gradients(self, gradients: Iterable[torch.Tensor | None]) -> None:
        """Note that gradients are there to stay: this rank's share of them."""
        for gradient in gradients:
            if gradient is not None:
                self.live.move(gradient, "gradients")

    # What torch does between the operators ----------------------------------------------------------------------------

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Record the operators that run inside, and leave out those of planning.

        What is no operator is followed too: the layers, the groups of ``fully_shard``, and storages that are resized.
        """
        group = find_parameter_group()
        planner, plan = find_sharding_planner()
        gather = partial(self._work_for_group, part="gathered weights")
        communicate = partial(self._work_for_group, part="communication")
        stops: list[Callable[[], None]] = []
        with restored(partial(call_each, stops)), self.layers.follow():
            for owner, name, wrap in (
                (group, "unshard", gather),
                (group, "wait_for_unshard", gather),
                (group, "post_backward", communicate),
                (planner, plan, self._leave_out),
                (torch.UntypedStorage, "resize_", self._count_resized),
            ):
                original = getattr(owner, name)
                stops.append(partial(setattr, owner, name, original))
                setattr(owner, name, wrap(original))
            with self:
                yield

    def begin(self, phase: str) -> None:
        """Record what follows as of a phase, "forward" or "backward".

        The forward pass makes activations. What the backward pass makes is "other", until a gradient is noted to stay.
        """
        self.phase = phase
        self.live.part = "activations" if phase == "forward" else "other"

    @contextmanager
    def work_apart(self, path: str, part: str) -> Iterator[None]:
        """Count what runs inside for a layer, whatever node of the backward pass runs, and its tensors to a part."""
        outside = self._works_for_group, self.live.part
        self._works_for_group, self.live.part = True, part
        try:
            with self.layers.work_for(path):
                yield
        finally:
            self._works_for_group, self.live.part = outside

    def _work_for_group(self, method: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Return a method of a group whose work is that of its own layer, and whose tensors are a part of memory."""

        def call(group: Any, *args: Any, **kwargs: Any) -> Any:
            with self.work_apart(read_group_path(group), part):
                result = method(group, *args, **kwargs)
            self.note_gradients(read_group_gradients(group))
            return result

        return call

    def _leave_out(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method in which nothing is counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            outside, self._is_planning = self._is_planning, True
            try:
                return method(*args, **kwargs)
            finally:
                self._is_planning = outside

        return call

    def _count_resized(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``resize_`` of storages, which is no operator, and by which gathered weights are freed."""

        def call(storage: Any, size: int) -> Any:
            result = method(storage, size)
            self.live.resize(storage)
            return result

        return call
