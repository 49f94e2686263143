"""The model's modules as records: what each owns, and what went through it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from profilerkit.keras_layers import is_keras, own_states
from profilerkit.layering import depth_of, shown_layers
from profilerkit.trace import LayerCall, LayerRecord

from .keras_layers import own_keras_weights, trained_by_keras
from .modules import named_layers
from .weights import packed_weights, weight_record

__all__ = ["layer_records"]


def layer_records(model: nn.Module, calls: dict[str, list[LayerCall]]) -> tuple[LayerRecord, ...]:
    """Return a record for each module, and for each further path under which a shared one was called."""
    identities: dict[Any, int] = {}
    records = []
    layers = list(named_layers(model))
    trained = trained_by_keras(model)
    for path, module in shown_layers(layers, calls):
        not_saved = module._non_persistent_buffers_set
        parameters = [
            weight_record(name, tensor, identities) for name, tensor in module._parameters.items() if tensor is not None
        ]
        parameters += [weight_record(name, tensor, identities, key=key) for name, key, tensor in packed_weights(module)]
        parameters += [
            replace(weight_record(name, tensor, identities), trainable=id(tensor) in trained)
            for name, tensor in own_keras_weights(module)
        ]
        buffers = [
            weight_record(name, tensor, identities, persistent=name not in not_saved)
            for name, tensor in module._buffers.items()
            if tensor is not None
        ]
        buffers += [
            replace(weight_record(name, state._value, identities, persistent=False), trainable=False)
            for name, state in (own_states(module) if is_keras(module) else ())
            if state._value is not None
        ]
        records.append(
            LayerRecord(
                path=path,
                type=type(module).__name__,
                depth=depth_of(path),
                parameters=tuple(parameters),
                buffers=tuple(buffers),
                calls=tuple(calls.get(path, ())),
            )
        )
    return tuple(records)
