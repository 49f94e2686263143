"""One pass over a model with something standing in for its weights and inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.parameter import is_lazy as is_unsized
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit import ModelInputs
from profilerkit.trace import LayerRecord, ModelTrace, distinct

from .costs import require_plain
from .given import GivenObjects
from .guard import WriteGuard
from .higher_order import called_directly
from .inventory import Inventory
from .keras_layers import build_without_values, fill_variables, is_unbuilt
from .layers import LayerStack, is_lazy
from .passes import InferencePass
from .preservation import preserved, substitute
from .recorder import Recorder
from .records import layer_records

__all__ = ["StandIns", "meta_twin", "traced"]


@dataclass(frozen=True)
class StandIns:
    """What stands in for the model's weights and inputs: one way to trace. ``weight`` is None for a real run."""

    method: str
    weight: Callable[[torch.Tensor], torch.Tensor] | None
    leaf: Callable[[Any], Any]
    mode: AbstractContextManager[Any] = field(default_factory=nullcontext)


def traced(model: nn.Module, inputs: ModelInputs, stand_ins: StandIns, kind: InferencePass) -> ModelTrace:
    """Return the trace of one pass, with stand-ins for weights and inputs; whatever the model raises goes through."""
    _import_dynamo()
    given = GivenObjects(inputs)
    leaves = (leaf for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor))
    held = Inventory(model)
    guard = WriteGuard([*held.tensors, *given.tensors, *leaves])
    lazy = is_lazy(held)
    records: tuple[LayerRecord, ...] = ()
    with guard.restoring(), preserved(model, held=held), given.restoring(), ExitStack() as active:
        torch.backends.mha.set_fastpath_enabled(False)
        known = {} if stand_ins.weight is None else substitute(model, stand_ins.weight, held)
        kind.prepare(model)
        standing_in = inputs.map(stand_ins.leaf)
        on_meta = stand_ins.weight is meta_twin
        if held.holds_keras and is_unbuilt(held.modules):
            build_without_values(model, inputs)
            with stand_ins.mode:
                for module in held.modules:
                    fill_variables(module)
        elif lazy:  # a first call gives the lazy parameters their sizes, which inference mode would not let it
            with torch.no_grad(), guard, stand_ins.mode, Recorder(LayerStack(model), on_meta=on_meta):
                standing_in.run(model)
        made = Inventory(model) if lazy else held
        layers = kind.layer_stack(model, made)
        recorder = kind.recorder(layers, on_meta=on_meta)
        if on_meta:  # one mode less: what is written to there is no tensor of the model's, but for a few
            recorder.guard = guard
        held_bytes, input_bytes = _alive_before(recorder, made, known, standing_in)
        active.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        watching = nullcontext() if on_meta else guard
        for context in (kind.grad_mode(), called_directly(), watching, layers.following(), stand_ins.mode, recorder):
            active.enter_context(context)
        kind.run(model, standing_in, recorder)
        active.close()
        if lazy:
            records = layer_records(model, layers.calls)
    records = records or layer_records(model, layers.calls, held)
    weights = distinct(weight for record in records for weight in (*record.parameters, *record.buffers))
    return ModelTrace(
        layers=records,
        operators=tuple(recorder.operators),
        memory=recorder.timeline(sum(weight.bytes for weight in weights) + held_bytes, input_bytes),
        uncounted={**recorder.uncounted, **layers.elsewhere},
        method=stand_ins.method,
        notes=(*_notes(lazy, layers.strangers), *kind.notes(), *recorder.notes),
    )


def _alive_before(
    recorder: Recorder, held: Inventory, known: dict[int, torch.Tensor], inputs: ModelInputs
) -> tuple[int, int]:
    """Have the recorder count what is alive before the first operator.

    Return the bytes of tensors that the model holds beside its weights (tables, caches), which stay as weights do, and
    those of the inputs. The weights are counted elsewhere. ``known`` has what stands in for which tensor.
    """
    for weight in (*held.parameters, *held.buffers):
        recorder.live.add(known.get(id(weight), weight), size=0)
    others = sum(recorder.live.add(known.get(id(tensor), tensor), size=0) for tensor in held.attributes)
    for leaf in (*inputs.leaves(), *GivenObjects(inputs).tensors):
        if isinstance(leaf, torch.Tensor):
            recorder.live.add(leaf, size=leaf.numel() * leaf.element_size())
    return others, recorder.live.total


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


_META = torch.device("meta")


def meta_twin(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the meta device that is like another one; a parameter for a parameter."""
    if is_unsized(tensor):
        lazy: Any = UninitializedParameter if isinstance(tensor, nn.Parameter) else UninitializedBuffer
        twin: torch.Tensor = lazy(requires_grad=tensor.requires_grad, device="meta", dtype=tensor.dtype)
        return twin
    require_plain(tensor)
    if tensor.is_meta:
        return tensor
    twin = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=_META)
    if type(tensor) is nn.Parameter and not tensor.__dict__:  # as nn.Parameter does, less what it asks first
        return torch.Tensor._make_subclass(nn.Parameter, twin, tensor.requires_grad)
    if isinstance(tensor, nn.Parameter):
        twin = nn.Parameter(twin, requires_grad=tensor.requires_grad)
    if not hasattr(tensor, "__tensor_flatten__"):  # of a packed weight: its real shape and its scales
        twin.__dict__.update(tensor.__dict__)
    return twin
