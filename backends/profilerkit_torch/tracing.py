"""One static pass over a model, on shapes alone wherever torch can.

Meta tensors stand in for parameters and buffers; fake tensors where the model asks for its device or lacks a meta
kernel; a real run only where both fail, and the trace says so. The pass runs in inference mode, where torch shows its
operators before it takes them apart, so that a count does not depend on device, kernels or grad mode.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.parameter import is_lazy as is_unsized
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit import CostFormulaError, ModelInputs
from profilerkit.errors import model_failed
from profilerkit.measurement import collector_paused
from profilerkit.trace import LayerRecord, ModelTrace, distinct

from .guard import WriteGuard
from .keras_layers import build_without_values, called_as_keras_does, fill_variables, holds_keras, is_unbuilt
from .layers import LayerStack, is_lazy, layer_records
from .modules import buffers_of, modules_of, parameters_of, set_inference_flags, tensors_of
from .preservation import preserved, substitute
from .recorder import Recorder
from .timing import device_of, needs_autograd

__all__ = ["trace_model"]

GradMode: TypeAlias = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class _StandIns:
    """What stands in for the model's weights and inputs: one way to trace. ``weight`` is None for a real run."""

    method: str
    weight: Callable[[torch.Tensor], torch.Tensor] | None
    leaf: Callable[[Any], Any]
    mode: AbstractContextManager[Any] = field(default_factory=nullcontext)


def trace_model(model: nn.Module, inputs: ModelInputs | None) -> ModelTrace:
    """Return the trace of one forward pass; a model that raises leaves its layers, and the error as ``failure``."""
    model = getattr(model, "_orig_mod", model)  # a compiled model: its original is what is counted
    if inputs is None:
        return _layers_alone(model)
    errors: list[Exception] = []
    called = called_as_keras_does(model, inputs)
    # Keras moves meta tensors to where it works, and asks for values there: it gets fake ones.
    attempts = (_on_fake, _for_real) if holds_keras(modules_of(model)) else (_on_meta, _on_fake, _for_real)
    for grad_mode in (torch.inference_mode, torch.no_grad):
        errors.clear()
        for attempt in attempts:
            try:
                return attempt(model, called, grad_mode, errors)
            except CostFormulaError as error:
                return _layers_alone(model, error)
            except Exception as error:  # whatever a model raises, the next way may work
                errors.append(error)
        if not any(needs_autograd(error) for error in errors):
            break
    return _layers_alone(model, model_failed(errors[-1], inputs))


def _layers_alone(model: nn.Module, failure: Exception | None = None) -> ModelTrace:
    """Return the layers of a model that did not run, with what weights its first call would size or make."""
    lazy = "the weights of lazy modules, which the first call makes: give inputs or input_shape"
    return ModelTrace(layer_records(model, {}), failure=failure, unmade_weights=lazy if is_lazy(model) else "")


def _on_meta(model: nn.Module, inputs: ModelInputs, grad_mode: GradMode, errors: list[Exception]) -> ModelTrace:
    """Trace with meta tensors in place of weights and floating-point inputs; integers keep their values."""
    known: dict[int, torch.Tensor] = {}

    def stand_in(leaf: Any) -> Any:
        valued = isinstance(leaf, torch.Tensor) and not (leaf.is_floating_point() or leaf.is_complex())
        if valued or not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in known:  # an input given twice stays one tensor
            known[id(leaf)] = _meta(leaf)
        return known[id(leaf)]

    # A collector's pause would cost more than the trace; what only it would free is small where tensors have no data.
    with collector_paused():
        return _traced(model, inputs, _StandIns("meta tensors", _meta, stand_in), grad_mode)


def _on_fake(model: nn.Module, inputs: ModelInputs, grad_mode: GradMode, errors: list[Exception]) -> ModelTrace:
    """Trace with fake tensors, which know the device they stand for."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def stand_in(leaf: Any) -> Any:
        return mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    log = logging.getLogger("torch._subclasses.fake_tensor")  # it logs whatever fails, which is dealt with here
    was_disabled, log.disabled = log.disabled, True
    try:
        return _traced(model, inputs, _StandIns("fake tensors", mode.from_tensor, stand_in, mode), grad_mode)
    finally:
        log.disabled = was_disabled


def _for_real(model: nn.Module, inputs: ModelInputs, grad_mode: GradMode, errors: list[Exception]) -> ModelTrace:
    """Trace a real run, which no model can refuse; what it writes to is written back."""
    if is_lazy(model) or any(parameter.is_meta for parameter in parameters_of(model)):
        raise errors[0]
    device = device_of(model)
    placed = inputs.map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf)
    trace = _traced(model, placed, _StandIns("a real run", None, lambda leaf: leaf), grad_mode)
    note = f"counted in a real run: on shapes alone the model raised {type(errors[0]).__name__}: {_line(errors[0])}"
    return replace(trace, notes=(*trace.notes, note))


def _traced(model: nn.Module, inputs: ModelInputs, stand_ins: _StandIns, grad_mode: GradMode) -> ModelTrace:
    _import_dynamo()
    guard = WriteGuard([*tensors_of(model), *(leaf for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor))])
    lazy = is_lazy(model)
    records: tuple[LayerRecord, ...] = ()
    with guard.restoring(), preserved(model), ExitStack() as active:
        torch.backends.mha.set_fastpath_enabled(False)
        set_inference_flags(model)
        if stand_ins.weight is not None:
            substitute(model, stand_ins.weight)
        standing_in = inputs.map(stand_ins.leaf)
        on_meta = stand_ins.weight is _meta
        if is_unbuilt(modules_of(model)):
            build_without_values(model, inputs)
            with stand_ins.mode:
                for module in modules_of(model):
                    fill_variables(module)
        elif lazy:  # a first call gives the lazy parameters their sizes, which inference mode would not let it
            with torch.no_grad(), guard, stand_ins.mode, Recorder(LayerStack(model), on_meta=on_meta):
                model(*standing_in.args, **standing_in.kwargs)
        layers = LayerStack(model)
        recorder = Recorder(layers, on_meta=on_meta)
        held_bytes, input_bytes = _alive_before(recorder, model, standing_in)
        active.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        for context in (grad_mode(), guard, layers.following(), stand_ins.mode, recorder):
            active.enter_context(context)
        model(*standing_in.args, **standing_in.kwargs)
        active.close()
        if lazy:
            records = layer_records(model, layers.calls)
    records = records or layer_records(model, layers.calls)
    weights = distinct(weight for record in records for weight in (*record.parameters, *record.buffers))
    return ModelTrace(
        layers=records,
        operators=tuple(recorder.operators),
        memory=recorder.timeline(sum(weight.bytes for weight in weights) + held_bytes, input_bytes),
        uncounted={**recorder.uncounted, **layers.elsewhere},
        method=stand_ins.method,
        notes=tuple(_notes(lazy, layers.strangers)),
    )


def _alive_before(recorder: Recorder, model: nn.Module, inputs: ModelInputs) -> tuple[int, int]:
    """Have the recorder count what is alive before the first operator.

    Return the bytes of tensors that the model holds beside its weights (tables, caches), which stay as weights do, and
    those of the inputs. The weights are counted elsewhere.
    """
    for weight in (*parameters_of(model), *buffers_of(model)):
        recorder.live.add(weight, size=0)
    held = sum(recorder.live.add(tensor, size=0) for tensor in tensors_of(model))
    for leaf in inputs.leaves():
        if isinstance(leaf, torch.Tensor):
            recorder.live.add(leaf, size=leaf.numel() * leaf.element_size())
    return held, recorder.live.total


@cache
def _import_dynamo() -> None:
    """Have torch import what it imports at the first operator under a mode: the import keeps that operator's frames.

    They would hold tensors beyond their time, and the first trace of a process would find too high a peak.
    """

    class First(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with First():  # type: ignore[no-untyped-call]
        torch.empty(0, device="meta")


def _notes(lazy: bool, strangers: Iterable[str]) -> Iterator[str]:
    if lazy:
        yield "the model has lazy parameters without a size yet; they are counted with the size these inputs give"
    made = ", ".join(sorted(set(strangers)))
    if made:
        yield f"the model makes layers while it runs ({made}); their work is counted, their parameters are not"


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    if is_unsized(tensor):
        lazy: Any = UninitializedParameter if isinstance(tensor, nn.Parameter) else UninitializedBuffer
        twin: torch.Tensor = lazy(requires_grad=tensor.requires_grad, device="meta", dtype=tensor.dtype)
        return twin
    if tensor.is_meta:
        return tensor
    twin = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
    return nn.Parameter(twin, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else twin


def _line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:200]
