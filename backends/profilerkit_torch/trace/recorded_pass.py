"""One pass over a model with something standing in for its weights and inputs, and the trace of what it did."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import ModelInputs
from profilerkit.trace.records import LayerCall, LayerRecord, ModelTrace, distinct

from ..costs import is_plain
from ..model.inventory import Inventory, is_lazy
from ..model.keras_preparation import build_without_values, fill_variables, is_unbuilt
from ..untouched.caller_context import as_caller
from ..untouched.mutable_inputs import InputObjects
from ..untouched.preservation import preserve
from ..untouched.substitution import substitute
from ..untouched.write_guard import WriteGuard
from .asked_names import answer_names, find_namespaces
from .grad_modes import below_autograd
from .graph_replays import count_missing_replays
from .higher_order import call_directly
from .inference_pass import InferencePass
from .kept_plans import find_plans
from .layers import LayerStack
from .live_bytes import LiveBytes
from .questions import Questions, UnansweredError, can_ask
from .recorder import Recorder
from .records import layer_records
from .stand_ins import StandIns

__all__ = ["RecordedPass"]

_FORMATTED = (
    "the model formats tensors as text ({formatted}), which have no values on shapes alone: what it does by that text "
    "may be something else in a run"
)


class _AliveBytes(NamedTuple):
    """The bytes alive before the first operator, without those of weights.

    Attributes:
        of_model: Those of tensors that the model holds beside its weights (tables, caches), which stay as weights do.
        of_inputs: Those of the inputs.
    """

    of_model: int
    of_inputs: int


class RecordedPass:
    """One pass, of a kind, over a model with its inputs: it is run once.

    Nothing that the recorder keeps leads back here: what stands in is freed when the pass is over. What this object
    tells is there after an error too.

    Args:
        inventory: What the model holds before the pass.
        inputs: The inputs of the model itself.
        stand_ins: What stands in for the weights and inputs.
        kind: The kind of pass: with or without gradients, watched or not.
    """

    def __init__(self, inventory: Inventory, inputs: ModelInputs, stand_ins: StandIns, kind: InferencePass) -> None:
        self.inventory = inventory
        self.inputs = inputs
        self.stand_ins = stand_ins
        #: The calls of layers by their paths.
        self.calls: dict[str, list[LayerCall]] = {}
        self._model = inventory.model
        self._kind = kind
        self._is_lazy = is_lazy(inventory)
        #: The device on which a run takes layers of attention as one kernel; None where the user has switched that off.
        self._fuses_on = inventory.device if torch.backends.mha.get_fastpath_enabled() else None
        #: What counts the storages that are made for the pass: of each recorder.
        self._lives: list[LiveBytes] = []
        self._objects = InputObjects(inputs)
        self._guard = WriteGuard(
            [*self._objects.tensors, *_list_tensors(inputs)],
            [alias for _, alias in inventory.aliases],
            counting=inventory.tensors,
        )

    def list_remaining(self) -> set[int]:
        """Return the addresses of the storages made for the pass that are still alive."""
        return {address for live in self._lives for address in live.list_remaining()}

    def run(self) -> ModelTrace:
        """Run the pass and return its trace; errors of the model pass through. The model is as before afterwards."""
        records: tuple[LayerRecord, ...] = ()
        with (
            self._guard.restore_at_end(),
            preserve(self._model, inventory=self.inventory),
            self._objects.restore_at_end(),
            ExitStack() as active,
        ):
            torch.backends.mha.set_fastpath_enabled(False)
            weight = self.stand_ins.weight
            substitutes = {} if weight is None else substitute(self._model, weight, self.inventory)
            self._kind.prepare(self._model, self.inventory.modules)
            fed = self.stand_ins.replace_leaves(self.inputs)
            self._make_missing_weights(fed)
            # Of lazy modules with the weights that they have now.
            inventory = Inventory(self._model) if self._is_lazy else self.inventory
            recorder = self._make_recorder(inventory)
            active.callback(recorder.values.forget)
            active.callback(recorder.casts.forget_gradients)
            alive = self._count_alive(recorder, inventory, substitutes, fed)
            self._prepare_answers(recorder, substitutes, fed)
            self._activate(active, recorder)
            self._kind.run(self._model, fed, recorder)
            active.close()
            _require_answers(recorder, self.inventory)
            if self._is_lazy:  # here, since the weights that the pass has made are taken away again
                records = layer_records(self._model, self.calls)
        if not self._is_lazy:
            records = layer_records(self._model, self.calls, self.inventory)
        trace = self._build_trace(recorder, records, alive)
        vars(recorder).clear()  # it is part of cycles: what it holds is freed now, and not by the collector
        return trace

    # Before the model runs --------------------------------------------------------------------------------------------

    def _make_missing_weights(self, fed: ModelInputs) -> None:
        """Have a Keras model that is not built, or lazy modules, make the weights that their first call makes."""
        if self.inventory.holds_keras and is_unbuilt(self.inventory.modules):
            build_without_values(self._model, self.inputs)
            with self.stand_ins.mode:
                for module in self.inventory.modules:
                    fill_variables(module)
        elif self._is_lazy:  # by a call of its own: inference mode would not let it
            first = Recorder(LayerStack(self._model), on_meta=self.stand_ins.on_meta)
            with torch.no_grad(), self._guard, self.stand_ins.mode, first, as_caller():
                fed.run(self._model)
            self._lives.append(first.live)

    def _make_recorder(self, inventory: Inventory) -> Recorder:
        """Return what records the pass, over the layers of the model as it is now, with all its settings."""
        layers = self._kind.layer_stack(self._model, inventory)
        layers.calls = self.calls
        recorder = self._kind.recorder(layers, on_meta=self.stand_ins.on_meta, stands_in=self.stand_ins.lack_values)
        recorder.fuses_on = self._fuses_on
        recorder.below_autograd = self._kind.grad_mode is below_autograd
        recorder.origins.has_values |= any(tensor.is_floating_point() for tensor in self._objects.tensors)
        recorder.device = self._find_common_device()
        if recorder.on_meta:
            recorder.plans = find_plans(recorder.device)
            recorder.guard = self._guard  # no mode of its own: hardly anything that is written to there is the model's
        self._lives.append(recorder.live)
        return recorder

    def _find_common_device(self) -> torch.device | None:
        """Return the device of the model and its inputs, the CPU where all are on meta; None if there are several."""
        tensors = (*self.inventory.tensors, *_list_tensors(self.inputs))
        devices = {tensor.device for tensor in tensors if not tensor.is_meta} or {torch.device("cpu")}
        return devices.pop() if len(devices) == 1 else None

    def _count_alive(
        self, recorder: Recorder, inventory: Inventory, substitutes: dict[int, torch.Tensor], fed: ModelInputs
    ) -> _AliveBytes:
        """Have the recorder count what is alive before the first operator, and return the bytes of that.

        The weights are counted elsewhere. ``substitutes`` has the stand-in of each tensor by its ``id``.
        """
        live = recorder.live

        def add(tensor: torch.Tensor) -> int:
            twin = substitutes.get(id(tensor), tensor)
            return live.add(twin, size=0, made=twin is not tensor)

        for weight in (*inventory.parameters, *inventory.buffers):
            add(weight)
        held_bytes = sum(add(tensor) for tensor in inventory.attributes if id(tensor) not in inventory.of_training)
        users = set(map(id, (*self.inputs.leaves(), *self._objects.tensors)))
        for leaf in (*_list_tensors(fed), *InputObjects(fed).tensors):
            live.add(leaf, leaf.numel() * leaf.element_size(), made=id(leaf) not in users, maker=-1)
        return _AliveBytes(held_bytes, live.total)

    def _prepare_answers(self, recorder: Recorder, substitutes: dict[int, torch.Tensor], fed: ModelInputs) -> None:
        """Let the integers of the model's buffers and inputs be known, and answer where its tensors are as a run would.

        ``fed`` are the inputs that stand in.
        """
        if recorder.stands_in:
            self._share_values(recorder, substitutes, fed)
        function = self.inputs.function
        if recorder.stands_in and function is None and not can_ask(self.inventory.modules):
            return
        questions = Questions(recorder, recorder.device if recorder.on_meta else None, self._guard)
        namespaces = find_namespaces(self.inventory.modules, function)
        recorder.questions = partial(_answer, questions, namespaces, self.stand_ins.mode)

    def _share_values(self, recorder: Recorder, substitutes: dict[int, torch.Tensor], fed: ModelInputs) -> None:
        """Tell the recorder which values stand-ins have, and which tensors nothing can stand in for."""
        recorder.unread = frozenset(_list_unread(substitutes, fed))
        for buffer in self.inventory.buffers:
            if id(buffer) in substitutes:
                recorder.values.read_from(substitutes[id(buffer)], buffer)
        for leaf, stand_in in zip(self.inputs.leaves(), fed.leaves(), strict=True):
            if isinstance(leaf, torch.Tensor) and stand_in is not leaf:
                recorder.values.read_from(stand_in, leaf)

    def _activate(self, active: ExitStack, recorder: Recorder) -> None:
        """Enter what is active while the model runs; the recorder last, so that it sees each operator first."""
        active.enter_context(_without_compiler_warning())
        active.enter_context(recorder.origins.follow())
        active.enter_context(count_missing_replays(recorder))
        active.enter_context(self._kind.grad_mode())
        active.enter_context(call_directly())
        if recorder.guard is None:
            active.enter_context(self._guard)
        active.enter_context(recorder.layers.follow())
        active.enter_context(self.stand_ins.mode)
        active.enter_context(recorder)

    # After it ---------------------------------------------------------------------------------------------------------

    def _build_trace(self, recorder: Recorder, records: tuple[LayerRecord, ...], alive: _AliveBytes) -> ModelTrace:
        weights = distinct(weight for record in records for weight in (*record.parameters, *record.buffers))
        return ModelTrace(
            layers=records,
            operators=tuple(recorder.operators),
            memory=recorder.timeline(sum(weight.bytes for weight in weights) + alive.of_model, alive.of_inputs),
            uncounted={**recorder.uncounted, **recorder.layers.calls_in_threads},
            method=self.stand_ins.method,
            notes=(*self._list_notes(recorder.layers.unlisted_types), *self._kind.notes(), *recorder.notes),
            choices=tuple(recorder.choices),
            operator_macs=recorder.operator_macs,
            peak_spread=recorder.peak_spread(alive.of_inputs),
        )

    def _list_notes(self, unlisted_types: Iterable[str]) -> Iterator[str]:
        if self._is_lazy:
            yield "the model has lazy parameters without a size yet; they are counted with the size these inputs give"
        made = ", ".join(sorted(set(unlisted_types)))
        if made:
            yield (
                f"the model calls layers that it does not register ({made}), from a plain list or made while it "
                "runs; their work is counted, their parameters are not"
            )


def _list_tensors(inputs: ModelInputs) -> Iterator[torch.Tensor]:
    return (leaf for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor))


def _list_unread(substitutes: dict[int, torch.Tensor], inputs: ModelInputs) -> Iterator[int]:
    """Yield the ``id`` of each tensor that stands for itself because its shape does not tell what it stores."""
    yield from (number for number, twin in substitutes.items() if number == id(twin) and not is_plain(twin))
    yield from (id(leaf) for leaf in _list_tensors(inputs) if not is_plain(leaf))


@contextmanager
def _without_compiler_warning() -> Iterator[None]:
    """Silence what torch says of models that are compiled under global hooks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        yield


@contextmanager
def _answer(questions: Questions, namespaces: Sequence[dict[str, Any]], mode: Any) -> Iterator[None]:
    """Answer the model's questions while code of its own runs."""
    with answer_names(namespaces, mode), questions:
        yield


def _require_answers(recorder: Recorder, inventory: Inventory) -> None:
    """Raise an error if the model took a way of its own in this pass; warn of other threads in the model.

    It did where it asked what stand-ins cannot answer, or went on after the refusal of what the pass cannot do.
    """
    if recorder.refusal is not None:
        raise recorder.refusal
    if not recorder.stands_in:
        return
    if recorder.formatted and not any(parameter.is_meta or is_unsized(parameter) for parameter in inventory.parameters):
        recorder.unanswered += recorder.formatted
    if recorder.unanswered:
        raise UnansweredError(recorder.unanswered)
    if recorder.formatted:
        recorder.note(_FORMATTED.format(formatted=", ".join(dict.fromkeys(recorder.formatted))))
    recorder.layers.warn_of_older_threads()
