"""One pass over a model with something standing in for its weights and inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.parameter import is_lazy as is_unsized
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit import ModelInputs
from profilerkit.trace import LayerRecord, ModelTrace, distinct

from .guard import WriteGuard
from .keras_layers import build_without_values, fill_variables, is_unbuilt
from .layers import LayerStack, is_lazy
from .modules import buffers_of, modules_of, parameters_of, set_inference_flags, tensors_of
from .preservation import preserved, substitute
from .recorder import Recorder
from .records import layer_records

__all__ = ["GradMode", "StandIns", "meta_twin", "traced"]

GradMode: TypeAlias = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class StandIns:
    """What stands in for the model's weights and inputs: one way to trace. ``weight`` is None for a real run."""

    method: str
    weight: Callable[[torch.Tensor], torch.Tensor] | None
    leaf: Callable[[Any], Any]
    mode: AbstractContextManager[Any] = field(default_factory=nullcontext)


def traced(model: nn.Module, inputs: ModelInputs, stand_ins: StandIns, grad_mode: GradMode) -> ModelTrace:
    """Return the trace of one call, with stand-ins for weights and inputs; whatever the model raises goes through."""
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
        on_meta = stand_ins.weight is meta_twin
        if is_unbuilt(modules_of(model)):
            build_without_values(model, inputs)
            with stand_ins.mode:
                for module in modules_of(model):
                    fill_variables(module)
        elif lazy:  # a first call gives the lazy parameters their sizes, which inference mode would not let it
            with torch.no_grad(), guard, stand_ins.mode, Recorder(LayerStack(model), on_meta=on_meta):
                standing_in.run(model)
        layers = LayerStack(model)
        recorder = Recorder(layers, on_meta=on_meta)
        held_bytes, input_bytes = _alive_before(recorder, model, standing_in)
        active.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        for context in (grad_mode(), guard, layers.following(), stand_ins.mode, recorder):
            active.enter_context(context)
        standing_in.run(model)
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


def meta_twin(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the meta device that is like another one; a parameter for a parameter."""
    if is_unsized(tensor):
        lazy: Any = UninitializedParameter if isinstance(tensor, nn.Parameter) else UninitializedBuffer
        twin: torch.Tensor = lazy(requires_grad=tensor.requires_grad, device="meta", dtype=tensor.dtype)
        return twin
    if tensor.is_meta:
        return tensor
    twin = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
    return nn.Parameter(twin, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else twin
