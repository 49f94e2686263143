"""Weights that are not counted, because they are no tensors, or because nothing tells that constants are weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from onnx import ModelProto

from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.costs.numbers import is_float
from profilerkit.count_text import format_count
from profilerkit.trace.layer_paths import walk_outwards

from .constants import Constant, Use
from .exported_module import ExportedModule
from .nodes import list_nodes
from .types import STANDARD
from .weights import find_places

__all__ = ["describe_uncounted"]

#: Operators that take bits out of integers.
_TAKES_BITS = ("BitShift", "BitwiseAnd")
#: The domain of classical models and of encodings, and its operators whose attributes are learned from data. The
#: attributes of its other operators are tables of texts and numbers, as of ``LabelEncoder``, and settings.
_CLASSICAL = "ai.onnx.ml"
_LEARNED = (
    "Imputer",
    "LinearClassifier",
    "LinearRegressor",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "TreeEnsemble",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
)
#: The producer name of torch's exporters, which write results into ``Constant`` nodes, and no weights.
_BY_TORCH = "pytorch"


def describe_uncounted(
    model: ModelProto, module: ExportedModule, constants: Sequence[Constant], weights: Sequence[PlacedWeight]
) -> str:
    """Return in words which weights are not counted; empty if all are.

    Linear models, trees and scalers have their weights in attributes, which are no tensors. Matrices of integers may
    hold an unknown number of packed weights, if an unknown operator reads them or if they are split into bits. And
    ``Constant`` nodes may hold weights beside those in initializers, if a tool has moved these. Torch's exporter may
    have computed constants of a parameter, which the file then does not have.
    """
    parameters = {int(weight.record.identity) for weight in weights if weight.is_parameter}
    others = [constant for identity, constant in enumerate(constants) if identity not in parameters]
    is_in_nodes = all(constants[identity].is_node for identity in parameters)
    parts = []
    for operators, where in (
        (_list_learned(model), "in attributes"),
        (_list_unpacking(constants), "in integers"),
        (() if is_in_nodes or model.producer_name == _BY_TORCH else _list_readers_of_nodes(others), "in nodes"),
    ):
        names = sorted(set(operators))
        if names:
            parts.append(f"the weights that {', '.join(names)} {'has' if len(names) == 1 else 'have'} {where}")
    lost = _list_lost(module, others)
    if lost:
        further = f" and {format_count(len(lost) - 1, 'other')}" if len(lost) > 1 else ""
        parts.append(f"the parameter {lost[0]}{further}, of which the exporter may have made constants")
    return " and ".join(parts)


def _list_learned(model: ModelProto) -> Iterator[str]:
    """Yield the operators that have weights in their attributes."""
    domains = {entry.domain for part in (model, *model.functions) for entry in part.opset_import}
    for node in list_nodes(model) if _CLASSICAL in domains else ():
        if node.domain == _CLASSICAL and node.op_type in _LEARNED:
            yield node.op_type


def _list_unpacking(constants: Sequence[Constant]) -> Iterator[str]:
    """Yield the operators that may take several weights out of an element of a matrix of integers."""
    for constant in constants:
        if "int" in constant.dtype and sum(size > 1 for size in constant.shape) > 1:
            yield from (use.node.op_type for use in constant.uses if _may_unpack(use, constant.dtype))


def _may_unpack(use: Use, dtype: str) -> bool:
    """Return whether a node may take several weights out of an integer of a dtype.

    An operator that nobody knows may do so with any but the longest, which are shapes and indices.
    """
    node, places = use.node, find_places(use)
    is_known = node.domain in (*STANDARD, _CLASSICAL) or use.input in (*places.weights, *places.kept)
    return node.op_type.startswith(_TAKES_BITS) or (dtype != "int64" and not is_known)


def _list_readers_of_nodes(others: Iterable[Constant]) -> Iterator[str]:
    """Yield the operators that read floats of ``Constant`` nodes as weights."""
    for constant in others:
        if constant.is_node and _is_row(constant):
            yield from (use.node.op_type for use in constant.uses if use.input not in find_places(use).kept)


def _list_lost(module: ExportedModule, others: Iterable[Constant]) -> list[str]:
    """Return the parameters that are not in the file, and near to which computed constants are used.

    A computed constant is used in the layer of the parameter, or near to it in the same block: a layer adds a table
    that it has looked up in another one, and a norm reads the sum. A parameter of which none is near may be unused, or
    be in the file by the name of a parameter that it is tied to.
    """
    computed = [constant for constant in others if _is_row(constant) and module.has_computed(constant)]
    paths = {use.path for constant in computed for use in constant.uses}
    near = paths | {path.rpartition(".")[0] for path in paths if "." in path}
    return [name for name in module.lost if not near.isdisjoint(islice(walk_outwards(name.rpartition(".")[0]), 3))]


def _is_row(constant: Constant) -> bool:
    """Return whether a constant has several floating-point numbers, as weights have."""
    return constant.shape.numel > 1 and is_float(constant.dtype)
