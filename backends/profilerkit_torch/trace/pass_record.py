"""The record of a pass: its operators by layer, the bytes alive after each, and the uncounted work."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace
from torch import nn

from profilerkit.costs import Cost, Formula, Shape, evaluate_formula
from profilerkit.trace.layer_operators import name_layer_operator
from profilerkit.trace.records import MemoryTimeline, OpRecord

from ..compat.autograd import find_current_node
from ..compat.recording import find_transform_level
from ..costs import module_cost
from ..model.storages import count_stored_bytes
from ..untouched.write_guard import WriteGuard
from .fused_layers import find_fused_bytes, may_be_fused, packs_samples
from .keras_corrections import TrialSteps, take_off_masks
from .known_values import FakeValues, KnownValues
from .layers import EndedCall, LayerListener, LayerStack
from .live_bytes import LiveBytes
from .operator_facts import tensors_in
from .records import tensor_info

__all__ = ["NOTHING", "OperatorRecord", "PassRecord", "PassSettings"]

NOTHING = Cost(0, 0)


class PassSettings(NamedTuple):
    """How a pass runs a model.

    Attributes:
        on_meta: Whether the stand-ins are meta tensors: then an operator that is remembered is not run again.
        stands_in: Whether something without values stands in for the model's tensors.
        has_unread: Whether a tensor of the model's or of its inputs is sparse or nested: nothing can stand in for it.
        below_autograd: Whether the pass is without autograd's kernels.
        model_device: The device of the model's first tensor, which may be the meta device.
        device: The device of the model's tensors and inputs that have values; None where they are on several.
        kernels: The device on whose kernels the model would run, "meta" for any accelerator; None where that is not
            known.
        fuses_on: The device on which a run takes layers of attention as one kernel; None where it takes none.
        guard: Gets what is about to be written to, where it is not active as a mode itself.
    """

    on_meta: bool = False
    stands_in: bool = False
    has_unread: bool = False
    below_autograd: bool = False
    model_device: torch.device = torch.device("cpu")
    device: torch.device | None = None
    kernels: torch.device | None = None
    fuses_on: torch.device | None = None
    guard: WriteGuard | None = None


class _Treatment(NamedTuple):
    """How layers of one class are counted: the class's own formula, and whether a run may use one fused kernel."""

    formula: Formula | None
    may_be_fused: bool


class _Start(NamedTuple):
    """The index of a layer's first operator, and the bytes alive before it."""

    first: int
    alive: int


class OperatorRecord:
    """The operators of a pass, the bytes alive after each, and how often something could not be counted."""

    def __init__(self, layers: LayerStack) -> None:
        self.layers = layers
        self.live: LiveBytes = LiveBytes()
        #: Which part of a step runs: see `OpRecord`.
        self.phase: str = "forward"
        self.operators: list[OpRecord] = []
        self.live_bytes: list[int] = []
        self.uncounted: Counter[str] = Counter()
        self.unsized: Counter[str] = Counter()

    def _is_recomputing(self) -> bool:
        """Return whether forward work runs in the backward pass, where an activation checkpoint runs it again.

        A layer runs then, or a function inside a node, with gradients switched on, which they are for no node itself.
        """
        return not self.layers.is_idle or (torch.is_grad_enabled() and find_current_node() is not None)

    def with_layer(self, operator: OpRecord, reads: tuple[int, ...] = ()) -> OpRecord:
        """Return the record of an operator as one of the layer and phase that run; ``reads`` is as in `OpRecord`."""
        layers = self.layers
        return replace(
            operator,
            layer=layers.current,
            call=layers.current_call,
            phase=self.phase,
            recomputed=self.phase == "backward" and self._is_recomputing(),
            reads=reads,
        )


class PassRecord(OperatorRecord, LayerListener):
    """The record of a pass over the layers that a stack follows.

    A layer with a formula of the user has the cost of the formula: its operators are recorded without a cost.
    """

    def __init__(self, layers: LayerStack, settings: PassSettings) -> None:
        super().__init__(layers)
        self.settings = settings
        self.values: KnownValues = (KnownValues if settings.on_meta else FakeValues)(self.live)
        #: What was asked of stand-ins that they do not know: a model that goes on has taken a way of its own.
        self.unanswered: list[str] = []
        #: Notes on how something was counted.
        self.notes: list[str] = []
        #: The MACs of all operators, each by its own formula, also inside layers with a formula of their own.
        self.operator_macs: int = 0
        #: The bytes that may be alive at most while a node of a backward pass runs; None if all bytes alive count.
        self.most_alive: int | None = None
        #: How many layers around have a formula of their own.
        self._covered = 0
        self._treatments: dict[type, _Treatment] = {}
        #: Where each layer around begins that a run may take as one kernel.
        self._fused: list[_Start] = []
        self._trials = TrialSteps() if layers.holds_keras else None
        layers.report_to(self)

    def timeline(self, weight_bytes: int, input_bytes: int) -> MemoryTimeline:
        """Return the memory timeline recorded so far."""
        return MemoryTimeline(weight_bytes, input_bytes, tuple(self.live_bytes), unsized=self.unsized)

    # Operators --------------------------------------------------------------------------------------------------------

    def miss(self, name: str) -> None:
        """Count a call of an operator without a formula."""
        if not self._covered:
            self.uncounted[name] += 1

    def miss_unsized(self, name: str) -> None:
        """Count work without a formula that takes memory of a size which nobody knows."""
        self.miss(name)
        self.unsized[name] += 1

    def miss_origin(self) -> None:
        """Count work outside torch's operators, whose result has reached the running layer."""
        layer = f"layer {self.layers.current}" if self.layers.current else "the model itself"
        self.miss_unsized(f"work outside torch's operators in {layer}")

    def note(self, note: str) -> None:
        """Add a note on how something was counted, once."""
        if note not in self.notes:
            self.notes.append(note)

    def record(
        self,
        name: str,
        cost: Cost,
        arguments: Any,
        result: Any,
        missing: str = "",
        is_masked: bool = False,
        bytes_inside: int = 0,
    ) -> None:
        """Record an operator that was run without looking inside.

        ``missing`` is the name that `miss` was called with. ``is_masked`` marks attention with a mask that takes an
        unknown number of scores away.
        """
        outputs, index = list(tensors_in(result)), len(self.operators)
        reads = self.live.list_makers(tensors_in(arguments), index)
        for tensor in outputs:
            self.live.add(tensor, maker=index)
        read, written = (sum(map(count_stored_bytes, tensors)) for tensors in (tensors_in(arguments), outputs))
        infos = tuple(map(tensor_info, outputs))
        operator = OpRecord(name, "", 0, *cost, read, written, infos, is_masked=is_masked, missing=missing)
        self._record(operator, reads, bytes_inside)

    def _record(self, operator: OpRecord, reads: tuple[int, ...] = (), bytes_inside: int = 0) -> None:
        """Record an operator; in a layer with its own formula, without a cost and without the facts about the cost."""
        operator = self.with_layer(operator, reads)
        if self._covered:
            operator = replace(
                operator, macs=0, flops=0, attended_macs=None, is_masked=False, product_dtype=None, missing=""
            )
        self.operators.append(operator)
        alive = max(0, self.live.total) + bytes_inside
        self.live_bytes.append(alive if self.most_alive is None else min(alive, self.most_alive))

    # Layers -----------------------------------------------------------------------------------------------------------

    def begin_module(self, module: nn.Module) -> None:
        """Note where the cell of a recurrent layer of Keras begins."""
        if self._trials is not None:
            self._trials.begin_call(module, len(self.operators))

    def begin_layer(self, module: nn.Module, path: str, call: int) -> None:
        """Note where a layer begins whose operators `end_layer` corrects."""
        if self._trials is not None:
            self._trials.begin_layer(module)
        treatment = self._treatments.get(type(module)) or self._choose_treatment(module)
        if treatment.may_be_fused:
            self._fused.append(_Start(len(self.live_bytes), self.live.total))
        if treatment.formula is not None:
            self._covered += 1

    def end_layer(self, module: nn.Module, call: EndedCall) -> None:
        """Correct the operators of a layer for which a run does other work; count the layer by its own formula."""
        treatment = self._treatments.get(type(module)) or self._choose_treatment(module)
        if treatment.may_be_fused:
            self._fuse(module, call, self._fused.pop())
        if self._trials is not None:  # work that Keras does only on torch: trial steps, and masks of attention
            for index in self._trials.end_layer(module, call.record, call.has_finished):
                self.operators[index] = replace(self.operators[index], macs=0, flops=0)
            take_off_masks(self.operators, module, call.record, self.layers.current, self.layers.current_call)
        if treatment.formula is not None:
            self._covered -= 1
            self._count_by_formula(module, call, treatment.formula)

    def _fuse(self, module: nn.Module, call: EndedCall, start: _Start) -> None:
        """Give the operators of a layer that a run takes as one kernel the bytes that this kernel has alive.

        The one with the most alive gets them; the others have no more.
        """
        bytes_of_parts = self.live_bytes[start.first :]
        if not call.has_finished or self.settings.fuses_on is None or not bytes_of_parts:
            return
        if packs_samples(module, call.args, call.kwargs):
            self.unsized[f"the nested tensors of {type(module).__name__}"] += 1
        inside = find_fused_bytes(module, call.args, call.kwargs, self.settings.fuses_on)
        if inside is None:
            return
        if find_transform_level() is not None:  # `torch.vmap` calls the kernel for one sample after the other
            self.unsized[f"the kernel of {type(module).__name__} in a transform"] += 1
        most = start.alive + inside
        largest = start.first + bytes_of_parts.index(max(bytes_of_parts))
        self.live_bytes[start.first :] = [min(size, most) for size in bytes_of_parts]
        self.live_bytes[largest] = most

    def _choose_treatment(self, module: nn.Module) -> _Treatment:
        is_fusible = self.settings.fuses_on is not None and may_be_fused(module)
        treatment = self._treatments[type(module)] = _Treatment(module_cost(module), is_fusible)
        return treatment

    def _count_by_formula(self, module: nn.Module, call: EndedCall, formula: Formula) -> None:
        """Record the cost of a layer by its own formula."""
        kind = type(module).__name__
        operator = name_layer_operator("module", kind)
        if not call.has_finished:  # there are no outputs to give to the formula
            self.miss(operator)
            return
        inputs = tuple(Shape(info.shape) for info in call.record.inputs)
        outputs = tuple(Shape(info.shape) for info in call.record.outputs)
        cost = evaluate_formula(
            f"module {kind}",
            lambda: formula(module, inputs, outputs),
            lambda: f"inputs={inputs!r} and outputs={outputs!r}",
        )
        missing = "" if cost is not None else operator
        if missing:
            self.miss(missing)
        self._record(OpRecord(operator, "", 0, *(cost or NOTHING), 0, 0, call.record.outputs, missing=missing))
