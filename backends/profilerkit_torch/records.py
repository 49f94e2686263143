"""The model's modules as records: what each owns, and what went through it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import nn

from profilerkit.keras_layers import is_keras, own_states
from profilerkit.layering import depth_of, shown_layers
from profilerkit.trace import LayerCall, LayerRecord, WeightRecord

from .inventory import Inventory
from .keras_layers import own_keras_weights, trained_by_keras
from .packed import own_buffers, own_parameters, packed_weights
from .scripted import type_name
from .weights import weight_record

__all__ = ["layer_records"]


def layer_records(
    model: nn.Module, calls: dict[str, list[LayerCall]], held: Inventory | None = None
) -> tuple[LayerRecord, ...]:
    """Return a record for each module, and for each further path under which a shared one was called."""
    identities: dict[Any, int] = {}
    records = []
    held = held or Inventory(model)
    trained = trained_by_keras(model) if held.holds_keras else set()
    for path, module in shown_layers(held.layers, calls):
        if held.is_bare(module):
            records.append(_record(path, module, calls))
            continue
        not_saved = module._non_persistent_buffers_set
        parameters = [
            weight_record(name, tensor, identities, count=count) for name, tensor, count in own_parameters(module)
        ]
        if held.others_of(module):
            packed = packed_weights(module)
            parameters += [weight_record(name, tensor, identities, key=key) for name, key, tensor in packed]
        parameters += [
            replace(weight_record(name, tensor, identities), trainable=id(tensor) in trained)
            for name, tensor in (own_keras_weights(module) if held.holds_keras else ())
        ]
        buffers = [
            weight_record(name, tensor, identities, persistent=name not in not_saved)
            for name, tensor in own_buffers(module)
        ]
        buffers += [
            replace(weight_record(name, state._value, identities, persistent=False), trainable=False)
            for name, state in (own_states(module) if held.holds_keras and is_keras(module) else ())
            if state._value is not None
        ]
        records.append(_record(path, module, calls, parameters, buffers))
    return tuple(records)


def _record(
    path: str,
    module: nn.Module,
    calls: dict[str, list[LayerCall]],
    parameters: Iterable[WeightRecord] = (),
    buffers: Iterable[WeightRecord] = (),
) -> LayerRecord:
    made = tuple(calls.get(path, ()))
    return LayerRecord(path, type_name(module), depth_of(path), tuple(parameters), tuple(buffers), made)
