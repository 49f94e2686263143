"""The count of numbers in 4-bit weights: Keras keeps two in a byte, and the file of a saved model has no count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.backend_kit.keras_layers import flat_layers
from profilerkit.backend_kit.keras_quantization import list_packed_variables, name_variable
from profilerkit.count_text import format_count

from ..compat.saved_models import is_saved_model
from .kinds import list_own_states, name_own_weights
from .saved_variables import holds_saved_model
from .stored_variables import find_id, find_stored_variable, identify, keras_variable_classes

__all__ = ["SavedPacking", "read_packing"]

#: The operator by which a graph takes numbers of a byte apart.
_UNPACKING = "BitwiseAnd"


def read_packing(layers: Sequence[tuple[str, Any]], captured: Iterable[Any] = ()) -> SavedPacking:
    """Return the packing of the variables of layers, the model itself first, and of the captures of a function."""
    counts, unknown = dict(_list_recorded(layers[0][1])), []
    for variables in _group_by_layer(layers, captured):
        names = set(map(name_variable, variables))
        for variable in variables:
            is_integer = len(variable.shape) == 2 and variable.dtype in (tf.int8, tf.uint8)
            has_scale = f"{name_variable(variable)}_scale" in names
            if is_integer and has_scale and identify(variable) not in counts:
                unknown.append(str(variable.name).removesuffix(":0"))
    return SavedPacking(counts, unknown)


def _group_by_layer(layers: Sequence[tuple[str, Any]], captured: Iterable[Any]) -> Iterable[list[Any]]:
    """Return the variables of saved models, and the captured ones, by the layers that their names tell."""
    saved = [layer for _, layer in layers if is_saved_model(layer) or holds_saved_model(layer)]
    pairs = (variable for layer in saved for variable in (*name_own_weights(layer), *list_own_states(layer)))
    of_saved = [variable for _, variable, *_ in pairs]
    stored = {identify(variable): find_stored_variable(variable) for variable in (*of_saved, *captured)}
    by_layer: dict[str, list[Any]] = {}
    for variable in stored.values():
        by_layer.setdefault(str(variable.name).rpartition("/")[0], []).append(variable)
    return by_layer.values()


def _list_recorded(model: Any) -> Iterator[tuple[int, int]]:
    """Yield the variables of Keras layers that hold two numbers in a byte, by id, with how many numbers they hold."""
    for layer in flat_layers(model) if is_keras(model) else ():
        for variable, count in list_packed_variables(layer):
            if isinstance(variable, keras_variable_classes()):
                yield find_id(variable), count


class SavedPacking(NamedTuple):
    """How many numbers integer variables stand for.

    Attributes:
        counts: By `identify`, how many numbers a variable of a Keras layer with two in a byte stands for.
        unknown: The names of saved variables of which it is not known.
    """

    counts: dict[int, int]
    unknown: list[str]

    def describe_unknown(self, operators: Iterable[str] = (_UNPACKING,)) -> str:
        """Return which weights are known by their bytes alone, in words; empty without any, or if none is unpacked."""
        if not self.unknown or _UNPACKING not in operators:
            return ""
        shown = ", ".join(self.unknown[:3]) + (", ..." if len(self.unknown) > 3 else "")
        return f"the second numbers in the bytes of {format_count(len(self.unknown), 'saved weight')} ({shown})"
