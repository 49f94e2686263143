"""The records of a model's layers and weights, for reports."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from msgspec.structs import replace

from profilerkit import ModelTrace
from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.backend_kit.keras_children import write_settings
from profilerkit.backend_kit.keras_quantization import find_quantization_data
from profilerkit.backend_kit.scoped_calls import count_weight_bytes
from profilerkit.trace.layer_paths import count_depth
from profilerkit.trace.records import LayerCall, LayerRecord, WeightRecord

from ..compat.functions import list_traces
from ..compat.saved_models import is_saved_model
from ..model.kinds import is_function, list_layers, list_own_states, name_own_weights, type_name
from ..model.saved_packing import SavedPacking, read_packing
from ..model.stored_variables import count_bytes, count_elements, holds_random_state, identify, is_variable
from ..model.weights import describe_unmade_weights, list_trainable_variables, list_weights
from .layers import LayerCalls
from .program import Program

__all__ = ["RecordedLayers", "record_layers", "record_program_layers", "trace_layers_alone"]


class RecordedLayers(NamedTuple):
    """The layers of a model, and how weights of saved models among them keep several numbers in one element.

    Attributes:
        records: The layers, with the parameters and buffers of each.
        packing: The packing of the weights.
    """

    records: tuple[LayerRecord, ...]
    packing: SavedPacking

    @property
    def weight_bytes(self) -> int:
        """The bytes of all parameters and buffers."""
        return count_weight_bytes(self.records)


def record_layers(
    layers: Sequence[tuple[str, Any]], calls: Mapping[str, list[LayerCall]], captured: Iterable[Any]
) -> RecordedLayers:
    """Return a record for each layer, and for each further path under which a shared layer was called.

    ``captured`` are variables that a function captures; captures that belong to no layer are added to the root.
    """
    captured = list(captured)
    packing = read_packing(layers, captured)
    recorder = _WeightRecorder(map(identify, list_trainable_variables(layers, captured)), packing.counts)
    others = [(str(other.name).removesuffix(":0"), other) for other in _list_others(layers, captured)]
    scales = set(map(id, find_quantization_data(other for _, other in others)))  # they are no parameters
    records = []
    for path, layer in list_shown_layers(layers, calls):
        variables, states = list(name_own_weights(layer)), list(list_own_states(layer))
        is_model = not path
        if is_model:
            variables += [(name, other) for name, other in others if id(other) not in scales]
            states += [(name, other, True) for name, other in others if id(other) in scales]
        records.append(
            LayerRecord(
                path=path,
                type=type_name(layer),
                depth=count_depth(path),
                parameters=tuple(recorder.record(name, variable) for name, variable in variables),
                buffers=tuple(recorder.record_state(name, state, is_saved) for name, state, is_saved in states),
                calls=tuple(calls.get(path, ())),
                configuration=write_settings(layer),
            )
        )
    return RecordedLayers(tuple(records), packing)


def _list_others(layers: Sequence[tuple[str, Any]], captured: Iterable[Any]) -> list[Any]:
    """Return the captured variables that belong to no layer, without the states of random generators."""
    of_layers = set()
    for _, layer in layers:
        of_layers |= {identify(variable) for _, variable in name_own_weights(layer)}
        of_layers |= {identify(state) for _, state, _ in list_own_states(layer)}
    return [other for other in captured if identify(other) not in of_layers and not holds_random_state(other)]


class _WeightRecorder:
    """Makes records of variables; two names of one variable have the same identity."""

    def __init__(self, trained: Iterable[int], packed: Mapping[int, int]) -> None:
        self._trained: Container[int] = set(trained)
        self._packed = packed
        self._identities: dict[int, int] = {}

    def record(self, name: str, variable: Any) -> WeightRecord:
        """Return the record of one variable."""
        key = identify(variable)
        return WeightRecord(
            name=name,
            identity=self._identities.setdefault(key, len(self._identities)),
            count=self._packed.get(key) or count_elements(variable),
            bytes=count_bytes(variable),
            dtype=tf.as_dtype(variable.dtype).name,
            trainable=key in self._trained,
            shape=tuple(variable.shape.as_list()) if hasattr(variable.shape, "as_list") else tuple(variable.shape),
        )

    def record_state(self, name: str, state: Any, is_saved: bool) -> WeightRecord:
        """Return the record of a variable that is no parameter."""
        return replace(self.record(name, state), trainable=False, persistent=is_saved)


def record_program_layers(program: Program) -> tuple[RecordedLayers, int]:
    """Return the layers of a program, and the bytes of the variables that it captures and that are no parameters."""
    captured = program.graph.variables
    parameters = _select_parameters(captured, program.model)
    of_parameters = set(map(identify, parameters))
    others = [variable for variable in captured if identify(variable) not in of_parameters]
    return record_layers(program.layers, program.calls.calls, parameters), sum(map(count_bytes, others))


def _select_parameters(captured: Iterable[Any], model: Any) -> list[Any]:
    """Return the captured variables that may be parameters: of a saved model, only the variables that it lists."""
    listed = getattr(model, "variables", None) if is_saved_model(model) else None
    if listed is None or callable(listed) or is_variable(listed):
        return list(captured)
    declared = set(map(identify, listed))
    return [variable for variable in captured if identify(variable) in declared]


def trace_layers_alone(model: Any, failure: Exception | None = None, followed: Sequence[LayerCalls] = ()) -> ModelTrace:
    """Return the layers of a model that did not run to its end, with the calls of the last pass that made any."""
    layers, captured = list_layers(model), _list_captured(model)
    if failure is not None and not captured and is_function(model):  # its traces failed: its code names variables
        captured = list_weights(model)
    calls = next((call.calls for call in reversed(followed) if call.calls), {})
    recorded = record_layers(layers, calls, captured)
    unmade = describe_unmade_weights(model) or recorded.packing.describe_unknown()
    return ModelTrace(layers=recorded.records, failure=failure, unmade_weights=unmade)


def _list_captured(model: Any) -> list[Any]:
    """Return the variables that a function holds by having been traced before."""
    concrete = [model] if hasattr(model, "captured_inputs") else list_traces(model)
    if concrete is None:  # not a `tf.function`, or one whose traces this release hides
        is_traced = isinstance(model, tf.types.experimental.PolymorphicFunction)
        return list_weights(model) if is_traced else []
    variables = {id(variable): variable for function in concrete for variable in function.graph.variables}
    return list(variables.values())
