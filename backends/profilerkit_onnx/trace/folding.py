"""The elements of constants that shapes depend on, computed while the graph is walked, by onnx's reference.

Only small constants: they are enough to know shapes, and computing weights would take the memory of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper

from ..model.nodes import list_inner_graphs
from ..model.types import LARGEST, STANDARD, read_dims
from .values import Array, Value

__all__ = ["fold", "is_random", "is_repeatable", "is_shape_operator", "make_evaluator", "read_array"]

#: Operators whose results have no more elements than their inputs, though their types do not tell how many.
_SHRINKING = ("Compress", "NonZero", "Unique")
#: Operators whose results differ from run to run.
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def read_array(tensor: TensorProto) -> Array | None:
    """Return the elements of a tensor in the file; None for a large tensor, and for a tensor in another file."""
    external = tensor.data_location == TensorProto.EXTERNAL
    if external or math.prod(tensor.dims) > LARGEST or tensor.data_type == TensorProto.STRING:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError):  # damaged, or of a dtype that numpy lacks
        return None


def is_shape_operator(node: NodeProto) -> bool:
    """Return whether the output of a node follows from the shape of its input, whatever the elements are."""
    return node.domain in STANDARD and node.op_type in ("Shape", "Size")


def is_random(node: NodeProto, inputs: Sequence[Value | None] | None = None) -> bool:
    """Return whether an operator of the standard draws random numbers; for Dropout, whether its inputs may say so."""
    if node.domain not in STANDARD:
        return False
    if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:  # it is told whether it trains
        trains = None if inputs is None else inputs[2]
        return trains is None or trains.array is None or bool(trains.array)
    return node.op_type in _RANDOM


def is_repeatable(node: NodeProto, inputs: Sequence[Value | None] | None = None) -> bool:
    """Return whether a node has equal outputs for equal inputs: a node of the standard, without graphs inside."""
    return node.domain in STANDARD and not is_random(node, inputs) and not list_inner_graphs(node)


def fold(
    node: NodeProto,
    inputs: Sequence[Value | None],
    types: Iterable[TypeProto | None],
    opsets: Mapping[str, int],
) -> list[Array | None]:
    """Return the elements of a node's outputs if they are known before the model runs, and few; None for others.

    ``types`` are the known types of the outputs.
    """
    nothing: list[Array | None] = [None] * len(node.output)
    if is_shape_operator(node) and inputs and inputs[0] is not None:
        return _measure_shape(node, inputs[0])
    are_known = all(value is None or value.array is not None for value in inputs)
    if not are_known or not is_repeatable(node, inputs):
        return nothing
    arrays = [None if value is None else value.array for value in inputs]
    if node.op_type == "Identity" and len(arrays) == 1:
        return arrays  # nothing to compute
    if node.op_type not in _SHRINKING and not all(_makes_little(kind) for kind in types):
        return nothing
    made = _evaluate(node, arrays, opsets.get("", 1))
    few = {name: array for name, array in made.items() if array.size <= LARGEST}
    return [few.get(name) for name in node.output]


def _measure_shape(node: NodeProto, source: Value) -> list[Array | None]:
    """Return the result of ``Shape`` or ``Size`` for a value."""
    if source.shape is None:
        return [None]
    if node.op_type == "Size":
        return [np.asarray(source.shape.numel, np.int64)]
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    start, end = attributes.get("start", 0), attributes.get("end", len(source.shape))
    return [np.asarray(source.shape[start:end], np.int64)]


def _makes_little(kind: TypeProto | None) -> bool:
    """Return whether a type has few elements for sure: computing many could take all memory."""
    dims = None if kind is None else read_dims(kind)
    return dims is not None and math.prod(dim if isinstance(dim, int) else math.inf for dim in dims) <= LARGEST


def _evaluate(node: NodeProto, arrays: Sequence[Array | None], opset: int) -> dict[str, Array]:
    """Return the outputs of a node of the standard for arrays, by name; none if the reference cannot compute them.

    Outputs that are no arrays, such as sequences, are left out.
    """
    feeds = {f"x{index}": array for index, array in enumerate(arrays) if array is not None}
    copy = deepcopy(node)
    copy.domain = ""  # the standard's name in the evaluator's operator sets
    del copy.input[:]
    copy.input.extend("" if array is None else f"x{index}" for index, array in enumerate(arrays))
    names = list(filter(None, node.output))
    try:
        with np.errstate(all="ignore"):
            computed = make_evaluator([copy], feeds, names, opset).run(None, feeds)
    except MemoryError:
        raise
    except Exception:  # an operator or a dtype that the reference lacks
        return {}
    made = zip(names, computed, strict=True)
    return {name: np.asarray(value) for name, value in made if isinstance(value, (np.ndarray, np.generic))}


def make_evaluator(nodes: Sequence[NodeProto], inputs: Iterable[str], outputs: Iterable[str], opset: int) -> Any:
    """Return onnx's evaluator of nodes of the standard, which needs no runtime; ``opset`` is the standard's version."""
    from onnx.reference import ReferenceEvaluator  # takes 0.1 s, and few models need it

    sources, results = ([helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, outputs))
    graph = helper.make_graph(list(nodes), "part", sources, results)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
