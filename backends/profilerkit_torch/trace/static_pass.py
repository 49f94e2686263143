"""One pass over a model with something standing in for its weights and inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import ModelChangedWarning, ModelInputs
from profilerkit.backend_kit.failures import backend_failed, find_raising_line
from profilerkit.trace.records import LayerCall, LayerRecord, ModelTrace, distinct

from ..costs import is_plain
from ..model.inventory import Inventory, is_lazy
from ..model.keras_layers import build_without_values, fill_variables, is_unbuilt
from ..model.modules import find_device, list_parameters
from ..untouched.caller_context import as_caller
from ..untouched.leftovers import Surroundings, clear_frames, remove_leftovers, without_frames
from ..untouched.mutable_inputs import InputObjects
from ..untouched.preservation import preserve
from ..untouched.substitution import substitute
from ..untouched.write_guard import WriteGuard
from .asked_names import answer_names, find_namespaces
from .grad_modes import below_autograd
from .graph_replays import count_missing_replays
from .higher_order import call_directly
from .inference_pass import InferencePass
from .layers import LayerStack
from .live_bytes import LiveBytes
from .questions import Questions, UnansweredError, can_ask, has_type_question
from .recorder import Recorder
from .records import layer_records
from .stand_ins import StandIns

__all__ = ["LeftBehindError", "can_run", "trace_pass"]


class LeftBehindError(RuntimeError):
    """Raised where tensors without values, of a pass on shapes alone, are still kept somewhere after it.

    ``trace`` is the trace of that pass.
    """

    def __init__(self, message: str, trace: ModelTrace) -> None:
        super().__init__(message)
        self.trace = trace


def trace_pass(
    model: nn.Module,
    inputs: ModelInputs,
    stand_ins: StandIns,
    kind: InferencePass,
    calls: dict[str, list[LayerCall]] | None = None,
) -> ModelTrace:
    """Return the trace of one pass, with stand-ins for weights and inputs; errors of the model pass through.

    ``calls`` gets the calls of layers by their paths, also those before an error.

    What the pass leaves outside the model is taken away. Raises `LeftBehindError` where that cannot be done with what
    has no values.
    """
    inventory = Inventory(model)
    surroundings = Surroundings(inventory, inputs)
    if stand_ins.weight is not None and any(map(has_type_question, surroundings.names)):
        raise UnansweredError(["isinstance(x, torch.FloatTensor)"])
    lives: list[LiveBytes] = []
    outcome: ModelTrace | Exception
    try:
        outcome = _trace_pass(model, inputs, stand_ins, kind, inventory, lives, {} if calls is None else calls)
    except Exception as error:
        if stand_ins.weight is None or isinstance(error, MemoryError) or not can_run(model):
            clear_frames(error)
            remove_leftovers(lambda: _alive(lives), surroundings)
            raise
        location = find_raising_line(error, __package__)
        outcome = without_frames(error)  # not reported: the next attempt says what is wrong
        if location is not None:
            outcome = backend_failed(outcome, "torch", location)
    holders, is_left = _clear_up(lives, surroundings, stand_ins)
    if isinstance(outcome, Exception):
        raise outcome
    if is_left and stand_ins.weight is not None:
        raise LeftBehindError(_STILL_HELD.format(method=stand_ins.method), outcome)
    if not holders:
        return outcome
    return replace(outcome, notes=(*outcome.notes, _REMOVED.format(holders=", ".join(holders))))


def can_run(model: nn.Module) -> bool:
    """Return whether a model has values to run with: none is lazy, or on the meta device."""
    return not (is_lazy(model) or any(parameter.is_meta for parameter in list_parameters(model)))


_STILL_HELD = "the model keeps tensors of a pass on {method} where profilerkit cannot take them away"
_REMOVED = "the model keeps tensors of its pass outside itself ({holders}); those of this pass were taken away again"


def _clear_up(lives: list[LiveBytes], surroundings: Surroundings, stand_ins: StandIns) -> tuple[list[str], bool]:
    """Take away what a pass left outside the model; warn where that cannot be done."""
    holders, is_left = remove_leftovers(lambda: _alive(lives), surroundings)
    if is_left and (stand_ins.weight is not None or torch.is_inference_mode_enabled()):
        warnings.warn(
            f"{_STILL_HELD.format(method=stand_ins.method)}: a cache that the model's own code does not lead to; empty "
            "it before the model is used, or have the model called once before it is profiled",
            ModelChangedWarning,
            stacklevel=2,
        )
    return holders, is_left


def _alive(lives: Iterable[LiveBytes]) -> set[int]:
    """Return the storages made for a pass that are still alive."""
    return {key for live in lives for key in live.left()}


def _trace_pass(
    model: nn.Module,
    inputs: ModelInputs,
    stand_ins: StandIns,
    kind: InferencePass,
    inventory: Inventory,
    lives: list[LiveBytes],
    calls: dict[str, list[LayerCall]],
) -> ModelTrace:
    """Return the trace of one pass; ``lives`` gets what counts the storages that are alive, ``calls`` the calls."""
    objects, lazy = InputObjects(inputs), is_lazy(inventory)
    leaves = (leaf for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor))
    guard = WriteGuard([*objects.tensors, *leaves], [a for _, a in inventory.aliases], counting=inventory.tensors)
    records: tuple[LayerRecord, ...] = ()
    with guard.restore_at_end(), preserve(model, inventory=inventory), objects.restore_at_end(), ExitStack() as active:
        fuses_on = find_device(model) if torch.backends.mha.get_fastpath_enabled() else None
        torch.backends.mha.set_fastpath_enabled(False)
        substitutes = {} if stand_ins.weight is None else substitute(model, stand_ins.weight, inventory)
        kind.prepare(model)
        standing_in = stand_ins.replace_leaves(inputs)
        if inventory.holds_keras and is_unbuilt(inventory.modules):
            build_without_values(model, inputs)
            _fill_variables(inventory, stand_ins)
        elif lazy:
            lives.append(_size_by_a_call(model, standing_in, stand_ins, guard))
        made = Inventory(model) if lazy else inventory
        layers = kind.layer_stack(model, made)
        layers.calls = calls
        recorder = _recorder(kind, layers, stand_ins)
        recorder.fuses_on = fuses_on
        lives.append(recorder.live)
        recorder.origins.has_values |= any(tensor.is_floating_point() for tensor in objects.tensors)
        active.callback(recorder.values.forget)
        active.callback(recorder.casts.forget_gradients)
        if stand_ins.on_meta:  # one mode less: what is written to there is no tensor of the model's, but for a few
            recorder.guard = guard
        users = set(map(id, (*inputs.leaves(), *objects.tensors)))
        held_bytes, input_bytes = _alive_before(recorder, made, substitutes, standing_in, users)
        _watch_questions(recorder, inventory, inputs, standing_in, substitutes, stand_ins, guard)
        active.enter_context(_around(recorder))
        active.enter_context(count_missing_replays(recorder))
        watching = nullcontext() if stand_ins.on_meta else guard
        for context in (kind.grad_mode(), call_directly(), watching, layers.follow(), stand_ins.mode, recorder):
            active.enter_context(context)
        kind.run(model, standing_in, recorder)
        active.close()
        _require_answers(recorder, inventory)
        if lazy:
            records = layer_records(model, layers.calls)
    records = records or layer_records(model, layers.calls, inventory)
    notes = (*_notes(lazy, layers.strangers), *kind.notes(), *recorder.notes)
    return _build_trace(records, recorder, held_bytes, input_bytes, stand_ins.method, notes)


def _list_unread(substitutes: dict[int, torch.Tensor], standing_in: ModelInputs) -> Iterator[int]:
    """Yield the ``id`` of each tensor that stands for itself because its shape does not tell what it stores."""
    yield from (number for number, twin in substitutes.items() if number == id(twin) and not is_plain(twin))
    yield from (id(leaf) for leaf in standing_in.leaves() if isinstance(leaf, torch.Tensor) and not is_plain(leaf))


def _recorder(kind: InferencePass, layers: LayerStack, stand_ins: StandIns) -> Recorder:
    stands_in = stand_ins.weight is not None
    recorder = kind.recorder(layers, on_meta=stand_ins.on_meta, stands_in=stands_in)
    recorder.below_autograd = kind.grad_mode is below_autograd
    return recorder


@contextmanager
def _around(recorder: Recorder) -> Iterator[None]:
    """Note threads and tensors of others; silence what torch says of models that are compiled under global hooks."""
    with warnings.catch_warnings(), recorder.origins.follow():
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        yield


def _require_answers(recorder: Recorder, inventory: Inventory) -> None:
    """Raise an error if the model took a way of its own in this pass; warn of other threads in the model.

    It did where it asked what stand-ins cannot answer, or went on after the refusal of what the pass cannot do.
    """
    if recorder.refusal is not None:
        raise recorder.refusal
    if not recorder.stands_in:
        return
    if recorder.formatted and not any(map(_is_without_values, inventory.parameters)):
        recorder.unanswered += recorder.formatted
    if recorder.unanswered:
        raise UnansweredError(recorder.unanswered)
    if recorder.formatted:
        recorder.notes.append(_FORMATTED.format(formatted=", ".join(dict.fromkeys(recorder.formatted))))
    recorder.layers.warn_of_intruders()


def _build_trace(
    records: tuple[LayerRecord, ...],
    recorder: Recorder,
    held_bytes: int,
    input_bytes: int,
    method: str,
    notes: tuple[str, ...],
) -> ModelTrace:
    weights = distinct(weight for record in records for weight in (*record.parameters, *record.buffers))
    return ModelTrace(
        layers=records,
        operators=tuple(recorder.operators),
        memory=recorder.timeline(sum(weight.bytes for weight in weights) + held_bytes, input_bytes),
        uncounted={**recorder.uncounted, **recorder.layers.elsewhere},
        method=method,
        notes=notes,
        choices=tuple(recorder.choices),
        operator_macs=recorder.operator_macs,
        peak_spread=recorder.peak_spread(input_bytes),
    )


def _is_without_values(parameter: torch.Tensor) -> bool:
    return parameter.is_meta or is_unsized(parameter)


_FORMATTED = (
    "the model formats tensors as text ({formatted}), which have no values on shapes alone: what it does by that text "
    "may be something else in a run"
)


def _watch_questions(
    recorder: Recorder,
    inventory: Inventory,
    inputs: ModelInputs,
    standing_in: ModelInputs,
    substitutes: dict[int, torch.Tensor],
    stand_ins: StandIns,
    guard: WriteGuard,
) -> None:
    """Let the integers of the model's buffers and inputs be known, and answer where its tensors are as a run would."""
    if recorder.stands_in:
        recorder.unread = frozenset(_list_unread(substitutes, standing_in))
        for buffer in inventory.buffers:
            if id(buffer) in substitutes:
                recorder.values.read_from(substitutes[id(buffer)], buffer)
        for leaf, stand_in in zip(inputs.leaves(), standing_in.leaves(), strict=True):
            if isinstance(leaf, torch.Tensor) and stand_in is not leaf:
                recorder.values.read_from(stand_in, leaf)
    tensors = (leaf for leaf in (*inventory.tensors, *inputs.leaves()) if isinstance(leaf, torch.Tensor))
    devices = {tensor.device for tensor in tensors if not tensor.is_meta} or {torch.device("cpu")}
    recorder.device = devices.pop() if len(devices) == 1 else None
    if recorder.stands_in and inputs.function is None and not can_ask(inventory.modules):
        return
    device = recorder.device if recorder.on_meta else None
    namespaces = find_namespaces(inventory.modules, inputs.function)
    recorder.questions = partial(_answer, Questions(recorder, device, guard), namespaces, stand_ins.mode)


@contextmanager
def _answer(questions: Questions, namespaces: Sequence[dict[str, Any]], mode: Any) -> Iterator[None]:
    """Answer the model's questions while code of its own runs."""
    with answer_names(namespaces, mode), questions:
        yield


def _fill_variables(inventory: Inventory, stand_ins: StandIns) -> None:
    """Give the variables of a Keras model that was built for this pass alone stand-ins."""
    with stand_ins.mode:
        for module in inventory.modules:
            fill_variables(module)


def _size_by_a_call(model: nn.Module, standing_in: ModelInputs, stand_ins: StandIns, guard: WriteGuard) -> LiveBytes:
    """Give lazy parameters their sizes by a first call, which inference mode would not let it; return what it made."""
    first = Recorder(LayerStack(model), on_meta=stand_ins.on_meta)
    with torch.no_grad(), guard, stand_ins.mode, first, as_caller():
        standing_in.run(model)
    return first.live


def _alive_before(
    recorder: Recorder,
    inventory: Inventory,
    substitutes: dict[int, torch.Tensor],
    inputs: ModelInputs,
    user_tensors: set[int],
) -> tuple[int, int]:
    """Have the recorder count what is alive before the first operator.

    Return the bytes of tensors that the model holds beside its weights (tables, caches), which stay as weights do, and
    those of the inputs. The weights are counted elsewhere. ``substitutes`` has
    the stand-in of each tensor by its ``id``, ``user_tensors`` the ``id`` of each tensor among the user's inputs.
    """

    def add(tensor: torch.Tensor) -> int:
        twin = substitutes.get(id(tensor), tensor)
        return recorder.live.add(twin, 0, twin is not tensor)

    for weight in (*inventory.parameters, *inventory.buffers):
        add(weight)
    others = sum(add(tensor) for tensor in inventory.attributes if id(tensor) not in inventory.of_training)
    for leaf in (*inputs.leaves(), *InputObjects(inputs).tensors):
        if isinstance(leaf, torch.Tensor):
            recorder.live.add(leaf, size=leaf.numel() * leaf.element_size(), made=id(leaf) not in user_tensors)
    return others, recorder.live.total


def _notes(lazy: bool, strangers: Iterable[str]) -> Iterator[str]:
    if lazy:
        yield "the model has lazy parameters without a size yet; they are counted with the size these inputs give"
    made = ", ".join(sorted(set(strangers)))
    if made:
        yield f"the model makes layers while it runs ({made}); their work is counted, their parameters are not"
