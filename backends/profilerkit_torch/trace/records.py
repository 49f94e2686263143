"""The model's modules as records: what each owns, and the shapes of the tensors that went through it."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn

from profilerkit.arguments.structures import tensors_in
from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.backend_kit.keras_children import write_settings
from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.backend_kit.keras_layers import read_variable_value
from profilerkit.backend_kit.keras_quantization import list_packed_variables
from profilerkit.backend_kit.keras_variables import list_own_states
from profilerkit.trace.layer_paths import count_depth
from profilerkit.trace.records import LayerCall, LayerRecord, TensorInfo, WeightRecord

from ..compat.modes import is_function_mode_active, unseen_by_functions
from ..compat.modules import read_buffers, read_parameters, unsaved_buffers
from ..costs import replace_by_shapes
from ..model.inventory import Inventory
from ..model.keras_layers import find_trained_ids, list_reported_weights
from ..model.packed_weights import list_own_weights, list_packed_weights
from ..model.scripts import type_name
from ..model.tensors import PLAIN_TYPES
from ..model.weights import count_shared_bytes, weight_record

__all__ = ["layer_records", "tensor_info", "tensor_infos"]

#: The parameters and the buffers of a module.
_Weights = tuple[list[WeightRecord], list[WeightRecord]]


def layer_records(inventory: Inventory, calls: dict[str, list[LayerCall]]) -> tuple[LayerRecord, ...]:
    """Return a record for each module, and for each further path under which a shared one was called."""
    identities: dict[Any, int] = {}  # the numbers of tensors: one of two modules has the same in both
    records = []
    trained = find_trained_ids(inventory.model) if inventory.holds_keras else set()
    packing = _find_packing(inventory)
    configured = {kind for kind in inventory.kinds if _has_configuration(kind)}
    for path, module in list_shown_layers(inventory.layers, calls):
        parameters: list[WeightRecord] = []
        buffers: list[WeightRecord] = []
        if read_parameters(module) or read_buffers(module) or id(module) in packing:
            parameters, buffers = _read_weights(module, identities, id(module) in packing)
        configuration = _read_configuration(module) if type(module) in configured else ""
        if inventory.holds_keras:
            keras_weights, keras_states = _read_keras_weights(module, identities, trained)
            parameters += keras_weights
            buffers += keras_states
            configuration = write_settings(module) if is_keras(module) else configuration
        records.append(
            LayerRecord(
                path,
                type_name(module),
                count_depth(path),
                tuple(parameters),
                tuple(buffers),
                tuple(calls.get(path, ())),
                configuration,
            )
        )
    return tuple(_count_views_once(records, identities))


def _find_packing(inventory: Inventory) -> set[int]:
    """Return the ``id`` of each module that may keep weights in objects of torch's, and of each script."""
    packing = {
        id(module)
        for module, attributes in inventory.further_attributes
        if any(isinstance(value, torch.ScriptObject) for value in attributes.values())
    }
    return packing.union(map(id, inventory.scripts))


def _count_views_once(records: list[LayerRecord], identities: dict[Any, int]) -> list[LayerRecord]:
    """Return records in which weights that are views of one another count what is stored of them once.

    What two have, the first has; parameters go before buffers.
    """
    parameters = {weight.identity for layer in records for weight in layer.parameters}
    in_order = [key for key, number in identities.items() if number in parameters]
    in_order += [key for key, number in identities.items() if number not in parameters]
    shared = {identities[identity]: nbytes for identity, nbytes in count_shared_bytes(in_order).items() if nbytes}
    if not shared:
        return records

    def count_rest(weight: WeightRecord) -> WeightRecord:
        nbytes = weight.bytes - shared.get(weight.identity, 0)
        return replace(weight, count=weight.count * nbytes // max(weight.bytes, 1), bytes=nbytes)

    def count_rests(layer: LayerRecord) -> LayerRecord:
        parameters, buffers = tuple(map(count_rest, layer.parameters)), tuple(map(count_rest, layer.buffers))
        return replace(layer, parameters=parameters, buffers=buffers)

    return list(map(count_rests, records))


def _read_weights(module: nn.Module, identities: dict[Any, int], is_packing: bool) -> _Weights:
    """Return the parameters and buffers of a module, with what it keeps packed."""
    weights, not_saved = list_own_weights(module), unsaved_buffers(module)
    parameters, buffers = [], []
    for name, tensor in weights.parameters.items():
        if tensor is not None:
            parameters.append(weight_record(name, tensor, identities, count=weights.numbers.get(name)))
    for name, key, tensor in list_packed_weights(module) if is_packing else ():
        parameters.append(weight_record(name, tensor, identities, key=key))
    for name, tensor in weights.buffers.items():
        if tensor is not None:
            buffers.append(weight_record(name, tensor, identities, persistent=name not in not_saved))
    return parameters, buffers


def _read_keras_weights(module: nn.Module, identities: dict[Any, int], trained: Container[int]) -> _Weights:
    """Return what a Keras layer owns: its weights, and the states that it writes to."""
    packed = {id(read_variable_value(variable)): count for variable, count in list_packed_variables(module)}
    weights = [
        replace(weight_record(name, tensor, identities, count=packed.get(id(tensor))), trainable=id(tensor) in trained)
        for name, tensor in list_reported_weights(module)
    ]
    states = [
        replace(weight_record(name, read_variable_value(state), identities, persistent=is_saved), trainable=False)
        for name, state, is_saved in (list_own_states(module) if is_keras(module) else ())
        if read_variable_value(state) is not None
    ]
    return weights, states


def _has_configuration(kind: type[nn.Module]) -> bool:
    """Return whether a class of torch's layers prints its arguments."""
    return kind.__module__.startswith("torch.nn.") and kind.extra_repr is not nn.Module.extra_repr


def _read_configuration(module: nn.Module) -> str:
    """Return the arguments of a torch layer as torch prints them: "3, 16, kernel_size=(3, 3)"."""
    try:
        return " ".join(type(module).extra_repr(module).split())
    except MemoryError:
        raise
    except Exception:  # attributes that a user has removed or replaced
        return ""


# Shapes and dtypes ----------------------------------------------------------------------------------------------------


def tensor_info(tensor: torch.Tensor) -> TensorInfo:
    """Return shape and dtype of a tensor; a nested one counts as long as its longest samples."""
    if type(tensor) in PLAIN_TYPES and is_function_mode_active():  # modes have nothing to add to torch's answers
        with unseen_by_functions():
            return tensor_info(tensor)
    if tensor.is_nested:
        return TensorInfo(tuple(replace_by_shapes(tensor)), str(tensor.dtype).removeprefix("torch."))
    try:
        return _info(tensor.shape, tensor.dtype)
    except TypeError:  # sizes that are no numbers yet have no hash
        return _info.__wrapped__(tensor.shape, tensor.dtype)


@lru_cache(maxsize=4096)
def _info(shape: torch.Size, dtype: torch.dtype) -> TensorInfo:
    return TensorInfo(tuple(map(int, shape)), str(dtype).removeprefix("torch."))


def tensor_infos(structure: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every tensor in a nested structure: tuples, mappings and dataclasses."""
    if type(structure) is tuple and len(structure) == 1:
        (structure,) = structure
    if isinstance(structure, torch.Tensor):
        return (tensor_info(structure),)
    return tuple(map(tensor_info, tensors_in(structure, torch.is_tensor)))
