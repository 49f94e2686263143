"""One pass over a model with stand-ins for its weights and inputs, or with these themselves, and its trace."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from profilerkit import ModelInputs
from profilerkit.backend_kit.call_stack import note_unlisted
from profilerkit.trace.bounds import PeakSpread
from profilerkit.trace.records import LayerCall, LayerRecord, ModelTrace, distinct

from ..costs import is_plain
from ..model.inventory import Inventory, is_lazy
from ..model.keras_layers import build_without_values, fill_variables, is_unbuilt
from ..model.modules import list_modules
from ..model.storages import count_stored_bytes, list_aliases, storage_key
from ..model.tensors import PLAIN_TYPES, list_with_values
from ..untouched.caller_context import as_caller
from ..untouched.mutable_inputs import InputObjects
from ..untouched.preservation import preserve, substitute
from ..untouched.snapshots import list_class_tensors
from ..untouched.write_guard import WriteGuard
from .hidden_modes import find_namespaces, hide_modes
from .inference_pass import InferencePass, below_autograd
from .layers import LayerStack
from .live_bytes import LiveBytes
from .origins import count_missing_replays
from .pass_errors import PassError, UnansweredError
from .prepared_model import AliveBytes, PreparedModel, count_alive, has_unread, share_values
from .questions import Questions, runs_other_code
from .recorder import PassSettings, Recorder
from .records import layer_records
from .stand_ins import StandIns

__all__ = ["RecordedPass"]

_FORMATTED = (
    "the model formats tensors as text ({formatted}), which have no values on shapes alone: what it does by that text "
    "may be something else in a run"
)
_LAZY = "the model has lazy parameters without a size yet; they are counted with the size these inputs give"
_REPLACED = "{count:,} bytes of weights that the model replaces, counted until the end of this real run"


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
        #: Whether a run takes layers of attention as one kernel, which the user may have switched off.
        self._fuses_layers: bool = torch.backends.mha.get_fastpath_enabled()
        #: What counts the storages that are made for the pass: of each recorder.
        self._lives: list[LiveBytes] = []
        self._objects = InputObjects(inputs)
        of_classes = list_aliases(list_class_tensors(inventory))
        self._guard = WriteGuard((*self._objects.aliases, *inventory.aliases, *of_classes))

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
        ):
            prepared = self._put_stand_ins()
            recorder = self._make_recorder(prepared)
            try:
                alive = count_alive(recorder, prepared)
                self._prepare_answers(recorder, prepared)
                prepared.stand_ins.clear()  # a weight that the model replaces is freed
                with self._watch(recorder):
                    recorder.require_no_autocast()
                    self._kind.run(self._model, prepared.inputs, recorder)
                spread = self._find_peak_spread()
            finally:
                torch.clear_autocast_cache()  # in a block of the caller's it would keep the casts of stand-ins
                recorder.values.forget()
            _require_answers(recorder, self.inventory)
            if self._is_lazy:  # here, since the weights that the pass has made are taken away again
                records = layer_records(Inventory(self._model), self.calls)
        if not self._is_lazy:
            records = layer_records(self.inventory, self.calls)
        trace = self._build_trace(recorder, records, alive, spread)
        vars(recorder).clear()  # it is part of cycles: what it holds is freed now, and not by the collector
        return trace

    # Before the model runs --------------------------------------------------------------------------------------------

    def _put_stand_ins(self) -> PreparedModel:
        """Make the model ready to run with stand-ins for its weights and inputs; `preserve` takes them away again."""
        torch.backends.mha.set_fastpath_enabled(False)
        stand_ins: dict[int, torch.Tensor] = {}
        if self.stand_ins.lack_values:
            stand_ins = substitute(self._model, self.stand_ins.replace_weight, self.inventory)
        self._kind.prepare(self._model, self.inventory.modules)
        fed = self.stand_ins.replace_leaves(self.inputs)
        self._make_missing_weights(fed)
        inventory = Inventory(self._model) if self._is_lazy else self.inventory
        return PreparedModel(inventory, stand_ins, fed, self._objects)

    def _make_missing_weights(self, fed: ModelInputs) -> None:
        """Have a Keras model that is not built, or lazy modules, make the weights that their first call makes."""
        if self.inventory.holds_keras and is_unbuilt(self.inventory.modules):
            build_without_values(self._model, self.inputs)
            with self.stand_ins.mode:
                for module in list_modules(self._model):  # some were made by the building
                    fill_variables(module)
        elif self._is_lazy:  # by a call of its own: inference mode would not let it
            on_meta = self.stand_ins.on_meta
            first = Recorder(LayerStack(self._model), PassSettings(on_meta=on_meta, stands_in=on_meta))
            with torch.no_grad(), self._guard, self.stand_ins.mode, first, as_caller():
                fed.run(self._model)
            self._lives.append(first.live)

    def _make_recorder(self, prepared: PreparedModel) -> Recorder:
        """Return what records the pass, with all its settings."""
        layers = self._kind.layer_stack(self._model, prepared.inventory)
        layers.calls = self.calls
        model_device, on_meta = self.inventory.device, self.stand_ins.on_meta
        leaves = (leaf for leaf in self._objects.leaves if isinstance(leaf, torch.Tensor))
        device = _find_common_device([*self.inventory.tensors, *leaves])
        kernels = model_device if model_device.type == "meta" else device
        settings = PassSettings(
            on_meta=on_meta,
            stands_in=self.stand_ins.lack_values,
            has_unread=self.stand_ins.lack_values and has_unread(prepared),
            below_autograd=self._kind.grad_mode is below_autograd,
            model_device=model_device,
            device=device,
            kernels=kernels if self._kind.knows_kernels else None,
            fuses_on=model_device if self._fuses_layers else None,
            guard=self._guard if on_meta else None,  # hardly anything that is written to there is the model's
        )
        recorder = self._kind.recorder(layers, settings)
        self._lives.append(recorder.live)
        return recorder

    def _prepare_answers(self, recorder: Recorder, prepared: PreparedModel) -> None:
        """Tell the recorder the known values of stand-ins, and have it answer questions of the model's code."""
        function = self.inputs.function
        settings = recorder.settings
        recorder.questions = partial(hide_modes, ())
        if settings.stands_in:
            share_values(recorder, prepared, self.inventory.buffers)
            if function is None and not runs_other_code(self.inventory):
                return
        questions = Questions(recorder, settings.device if settings.on_meta else None, self._guard)
        namespaces = find_namespaces(self.inventory, function)
        recorder.questions = partial(_answer, questions, namespaces, self.stand_ins.mode)

    @contextmanager
    def _watch(self, recorder: Recorder) -> Iterator[None]:
        """Have all be active by which a pass is seen; the recorder comes last, so that it sees each operator first."""
        objects_have_values = any(tensor.is_floating_point() for tensor in self._objects.tensors)
        with (
            _without_warnings(),
            recorder.origins.follow(objects_have_values=objects_have_values),
            count_missing_replays(recorder),
            self._kind.grad_mode(),
            self._guard if recorder.settings.guard is None else nullcontext(),
            recorder.layers.follow(),
            self.stand_ins.mode,
            recorder,
        ):
            yield

    # After it ---------------------------------------------------------------------------------------------------------

    def _find_peak_spread(self) -> PeakSpread:
        """Return how much the peak may differ: by the weights that the model has replaced in a real run.

        Those of the user are there until its end, so that the model has them again; a run without us may free them.
        """
        if self.stand_ins.lack_values:
            return PeakSpread()
        kept = set(map(storage_key, Inventory(self._model).tensors))
        before = {storage_key(alias): alias for _, alias in self.inventory.aliases if type(alias) in PLAIN_TYPES}
        lost = [alias for key, alias in before.items() if key not in kept and is_plain(alias)]
        count = sum(map(count_stored_bytes, lost))
        return PeakSpread(below=count, reasons=(_REPLACED.format(count=count),)) if count else PeakSpread()

    def _build_trace(
        self,
        recorder: Recorder,
        records: tuple[LayerRecord, ...],
        alive: AliveBytes,
        spread: PeakSpread,
    ) -> ModelTrace:
        weights = distinct([weight for record in records for weight in (*record.parameters, *record.buffers)])
        lazy = (_LAZY,) if self._is_lazy else ()
        unlisted = note_unlisted(recorder.layers.unlisted_types)
        return ModelTrace(
            layers=records,
            operators=tuple(recorder.operators),
            memory=recorder.timeline(sum([weight.bytes for weight in weights]) + alive.of_model, alive.of_inputs),
            uncounted={**recorder.uncounted, **recorder.layers.in_other_threads.counts},
            method=self.stand_ins.method,
            notes=(*lazy, *unlisted, *self._kind.notes(), *recorder.notes),
            operator_macs=recorder.operator_macs,
            peak_spread=spread,
            without_gradient=self._kind.without_gradient,
        )


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence what torch says of models that are compiled under global hooks, and of flex attention that is not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        warnings.filterwarnings("ignore", message=r"flex_attention called without torch\.compile")
        yield


@contextmanager
def _answer(questions: Questions, namespaces: Sequence[dict[str, Any]], mode: Any) -> Iterator[None]:
    """Answer the model's questions while code of its own runs."""
    with hide_modes(namespaces, mode), questions:
        yield


def _require_answers(recorder: Recorder, inventory: Inventory) -> None:
    """Raise an error if the model took another path than in a run; warn of other threads in the model.

    It may have taken another path if it continued after a refusal, or asked stand-ins for values that they do not have.
    Text that it made of stand-ins counts as such a question only if a real run can follow.
    """
    if recorder.refusal is not None:
        raise PassError(recorder.refusal)
    if not recorder.settings.stands_in:
        return
    unanswered = recorder.unanswered
    if recorder.formatted:
        recorder.note(_FORMATTED.format(formatted=", ".join(dict.fromkeys(recorder.formatted))))
        if len(list_with_values(inventory.parameters)) == len(inventory.parameters):
            unanswered = [*unanswered, *recorder.formatted]
    if unanswered:
        raise UnansweredError(unanswered)
    recorder.layers.in_other_threads.warn_of_older_threads()


def _find_common_device(tensors: Iterable[torch.Tensor]) -> torch.device | None:
    """Return the one device of the tensors that have values, the CPU where none has; None if there are several."""
    devices = {tensor.device for tensor in tensors if not tensor.is_meta} or {torch.device("cpu")}
    return devices.pop() if len(devices) == 1 else None
