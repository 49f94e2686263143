"""The recorder of a training step: the layer of each operator of the backward pass, and the use of the bytes alive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import torch
from torch import nn
from torch.autograd.function import BackwardCFunction

from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.trace.layer_operators import name_layer_operator
from profilerkit.trace.records import MemoryTimeline, OpRecord

from ..compat.autograd import find_current_node
from ..compat.modes import disable_dispatch_modes
from ..compat.operators import find_operator
from ..costs import Cost, is_plain, module_cost
from ..costs.attention import without_mask
from ..costs.matmul import is_gradient_product, price_gradient_product
from ..model.attributes import list_tensors
from ..trace.layers import EndedCall
from ..trace.live_bytes import LiveBytes
from ..trace.operator_facts import OperatorCall
from ..trace.plans import Plan
from ..trace.recorder import PassSettings, Recorder
from .trained_layers import TrainedLayers

__all__ = ["TrainingRecorder"]

_DETACH = find_operator("aten.detach.default")
_CLONE = find_operator("aten.clone.default")


class TrainingRecorder(Recorder):
    """Records both passes; an operator of the backward pass belongs to the layer that made its node."""

    layers: TrainedLayers
    phase: str

    def __init__(self, layers: Any, settings: PassSettings) -> None:
        super().__init__(layers, settings)
        self._peak = _StepPeak(self.live)
        self._left_bytes: int | None = None  #: the bytes alive after the step
        #: To how many scores torch adds a mask that costs nothing; None outside of such attention.
        self._free_scores: int | None = None
        self._holds_inside = False  #: whether the caller holds what the operators make inside

    def begin_forward(self) -> None:
        """Record the work from here on as the forward pass."""
        self.live.part = "activations"

    @contextmanager
    def record_backward(self) -> Iterator[None]:
        """Record the work inside as the backward pass."""
        self.phase, self.live.part = "backward", "other"
        with self.layers.apart():
            yield
        self._left_bytes = max(0, self.live.total)

    def note_gradient(self, parameter: torch.Tensor) -> None:
        """Note that a parameter has its gradient, which stays."""
        if parameter.grad is not None:
            self.live.move(parameter.grad, "gradients")

    def timeline(self, weight_bytes: int, input_bytes: int) -> MemoryTimeline:
        """Return the memory timeline, with the bytes at its peak by use."""
        parts = self._peak.divide()
        return replace(super().timeline(weight_bytes, input_bytes), parts=parts, left_bytes=self._left_bytes)

    # Functions of torch that a step replaces ------------------------------------------------------------------------

    @contextmanager
    def leave_out_mask(self, scores: int) -> Iterator[None]:
        """Record attention without the addition of its mask to so many scores."""
        self._free_scores = scores
        try:
            yield
        finally:
            self._free_scores = None

    @contextmanager
    def hold_inside(self) -> Iterator[None]:
        """Count nothing inside the operators that run here: the caller holds it."""
        self._holds_inside = True
        try:
            yield
        finally:
            self._holds_inside = False

    def hold(self, like: torch.Tensor, elements: int) -> torch.Tensor:
        """Return a tensor of so many elements and the dtype of another tensor; its bytes live as long as it does."""
        with disable_dispatch_modes():
            memory = like.new_empty(elements)
        self.live.add(memory)
        return memory

    def record_gradients(self, name: str, cost: Cost, arguments: Any, gradients: Any, bytes_inside: int) -> None:
        """Record an operator of the node of the backward pass that runs: a function of ours has made its gradients."""
        self.operator_macs += cost.macs
        with self.layers.work_for(*self.layers.find_maker(find_current_node())):
            self.record(name, cost, arguments, gradients, bytes_inside=bytes_inside)

    # Operators ------------------------------------------------------------------------------------------------------

    def _dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record the operator for the layer that it belongs to."""
        if func is _DETACH:  # autograd detaches the tensors that it saves: no work
            return self._run_view(OperatorCall(func, args, kwargs or {}))
        node = self._find_step_node()
        if node is None:
            return super()._dispatch(func, args, kwargs)
        if func is _CLONE and not is_plain(args[0]) and hasattr(node, "variable"):
            return self._run_view(OperatorCall(_DETACH, args, {}))  # as torch without a mode: a sparse gradient
        with self.layers.work_for(*self.layers.find_maker(node)):
            return super()._dispatch(func, args, kwargs)

    def _find_step_node(self) -> Any:
        """Return the node of the backward pass that runs; None in the forward pass, and in a layer that runs again."""
        return find_current_node() if self.phase == "backward" and self.layers.is_idle else None

    def _find_node(self) -> Any:
        return super()._find_node() if self.phase == "forward" else self._find_step_node()

    def _record_run(self, plan: Plan, result: Any, call: OperatorCall, reads: tuple[int, ...]) -> None:
        cost = self._price(self._find_step_node(), plan.operator, call, result)
        if cost is not None:
            operator = msgspec.structs.replace(plan.operator, macs=cost.macs, flops=cost.flops)
            plan = msgspec.structs.replace(plan, operator=operator)
        if self._holds_inside:
            plan = msgspec.structs.replace(plan, bytes_inside=0, unknown_inside="")
        super()._record_run(plan, result, call, reads)

    def _price(self, node: Any, operator: OpRecord, call: OperatorCall, result: Any) -> Cost | None:
        """Return the cost of an operator, inside of a node or not, that its own formula does not tell; else None."""
        if node is not None and is_gradient_product(call.func, call.args, node):
            return price_gradient_product(call.args, result)
        if self._free_scores is not None:
            return without_mask(operator.operator, Cost(operator.macs, operator.flops), self._free_scores)
        return None

    def _record(self, operator: OpRecord, reads: tuple[int, ...] = (), bytes_inside: int = 0) -> None:
        super()._record(operator, reads, bytes_inside)
        self._peak.note(self.live_bytes[-1])

    # Layers ---------------------------------------------------------------------------------------------------------

    def end_layer(self, module: nn.Module, call: EndedCall) -> None:
        """Count the backward pass of a layer with a formula as not counted: the formula covers the forward pass."""
        super().end_layer(module, call)
        if module_cost(module) is None or is_shipped(module) or self._covered or not self._is_differentiated():
            return
        if any(tensor.requires_grad for tensor in list_tensors((call.output,))):
            operator = name_layer_operator("module", type(module).__name__)
            self.uncounted[f"backward of {operator}"] += 1

    def _is_differentiated(self) -> bool:
        """Return whether the backward pass goes through the nodes that are made now.

        It goes through those of the forward pass. What is run again for its saved tensors alone makes nodes for
        nothing; a node written in Python may go through them itself, as that of a reentrant checkpoint does.
        """
        return self.phase == "forward" or isinstance(find_current_node(), BackwardCFunction)


class _StepPeak:
    """The bytes by use at the moment of a step when most are alive."""

    def __init__(self, live: LiveBytes) -> None:
        self._live = live
        self._bytes = -1  #: the most bytes alive so far, -1 before the first operator
        self._parts: dict[str, int] = {}  #: these bytes by use

    def note(self, alive: int) -> None:
        """Take the bytes alive after an operator; those beyond the tensors alive then were inside it."""
        if alive > self._bytes:
            self._bytes = alive
            self._parts = dict(self._live.parts)
            self._parts["other"] = self._parts.get("other", 0) + alive - self._live.total

    def divide(self) -> dict[str, int]:
        """Return the bytes by use at the peak, without the weights; the inputs alone before the first operator.

        Weights that were replaced in the forward pass are freed: their bytes are taken off the tensors that replaced
        them.
        """
        sizes = self._parts or self._live.parts
        parts = {name: sizes.get(name, 0) for name in ("inputs", "activations", "gradients", "other")}
        freed = -sizes.get("weights", 0)
        for name in ("activations", "other", "gradients"):
            taken = min(freed, parts[name])
            parts[name] -= taken
            freed -= taken
        return parts
