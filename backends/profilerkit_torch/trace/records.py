"""The model's modules as records: what each owns, and what went through it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.backend_kit.keras_layers import is_keras, own_states
from profilerkit.trace.records import LayerCall, LayerRecord, WeightRecord
from profilerkit.trace.rows import count_depth

from ..compat import keras_value, read_buffers, read_parameters, unsaved_buffers
from ..model.inventory import Inventory
from ..model.keras_layers import list_trained_by_keras, own_keras_weights
from ..model.packed_weights import are_plain, list_packed_weights, own_buffers, own_parameters
from ..model.scripted import type_name
from ..model.weights import weight_record

__all__ = ["layer_records"]


def layer_records(
    model: nn.Module, calls: dict[str, list[LayerCall]], inventory: Inventory | None = None
) -> tuple[LayerRecord, ...]:
    """Return a record for each module, and for each further path under which a shared one was called."""
    identities: dict[Any, int] = {}
    records = []
    inventory = inventory or Inventory(model)
    trained = list_trained_by_keras(model) if inventory.holds_keras else set()
    for path, module in list_shown_layers(inventory.layers, calls):
        parameters: Sequence[WeightRecord] = ()
        buffers: Sequence[WeightRecord] = ()
        if not inventory.is_bare(module):
            weights_of = (
                _plain_weights if are_plain(module) and not inventory.find_further_attributes(module) else _own_weights
            )
            parameters, buffers = weights_of(module, identities)
        if inventory.holds_keras:
            more, states = _keras_weights(module, identities, trained)
            parameters, buffers = (*parameters, *more), (*buffers, *states)
        records.append(_record(path, module, calls, parameters, buffers))
    return tuple(records)


def _plain_weights(module: nn.Module, identities: dict[Any, int]) -> tuple[list[WeightRecord], list[WeightRecord]]:
    """Return the parameters and buffers of a module whose tensors are plain ones: of nearly every one."""
    parameters, buffers, not_saved = read_parameters(module), read_buffers(module), unsaved_buffers(module)
    return [weight_record(name, tensor, identities) for name, tensor in parameters.items() if tensor is not None], [
        weight_record(name, tensor, identities, persistent=name not in not_saved)
        for name, tensor in buffers.items()
        if tensor is not None
    ]


def _own_weights(module: nn.Module, identities: dict[Any, int]) -> tuple[list[WeightRecord], list[WeightRecord]]:
    """Return the parameters and buffers of any module, with what it keeps packed."""
    not_saved = unsaved_buffers(module)
    parameters = [
        weight_record(name, tensor, identities, count=count) for name, tensor, count in own_parameters(module)
    ]
    parameters += [
        weight_record(name, tensor, identities, key=key) for name, key, tensor in list_packed_weights(module)
    ]
    buffers = [
        weight_record(name, tensor, identities, persistent=name not in not_saved)
        for name, tensor in own_buffers(module)
    ]
    return parameters, buffers


def _keras_weights(
    module: nn.Module, identities: dict[Any, int], trained: Container[int]
) -> tuple[list[WeightRecord], list[WeightRecord]]:
    """Return what a Keras layer owns: its weights, and the states that it writes to."""
    weights = [
        replace(weight_record(name, tensor, identities), trainable=id(tensor) in trained)
        for name, tensor in own_keras_weights(module)
    ]
    states = [
        replace(weight_record(name, keras_value(state), identities, persistent=is_saved), trainable=False)
        for name, state, is_saved in (own_states(module) if is_keras(module) else ())
        if keras_value(state) is not None
    ]
    return weights, states


def _record(
    path: str,
    module: nn.Module,
    calls: dict[str, list[LayerCall]],
    parameters: Iterable[WeightRecord] = (),
    buffers: Iterable[WeightRecord] = (),
) -> LayerRecord:
    made = tuple(calls.get(path, ()))
    return LayerRecord(
        path, type_name(module), count_depth(path), tuple(parameters), tuple(buffers), made, _configuration(module)
    )


def _configuration(module: nn.Module) -> str:
    """Return what torch prints of a layer of its own: "3, 16, kernel_size=(3, 3)"; of a user's class nothing is run."""
    cls = type(module)
    if not cls.__module__.startswith("torch.nn.") or cls.extra_repr is nn.Module.extra_repr:
        return ""
    try:
        return " ".join(cls.extra_repr(module).split())
    except MemoryError:
        raise
    except Exception:  # attributes that a user has removed or replaced
        return ""
