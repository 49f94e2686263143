"""Small ONNX models of one or a few nodes, for tests of what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("onnx")  # doctests are looked for here too, in environments that lack it

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from profilerkit import ModelInputs, ModelTrace
from profilerkit_onnx.backend import OnnxBackend

__all__ = ["F", "make_graph", "make_model", "make_unknown", "trace_node"]

F = np.float32
BACKEND = OnnxBackend()


def make_model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Any],
    weights: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 22,
    **further: Any,
) -> ModelProto:
    """Return a model; ``inputs`` are arrays, or (dtype, dims) of what may be any array."""
    declared = []
    for name, value in inputs.items():
        dtype, dims = value if isinstance(value, tuple) else (value.dtype, value.shape)
        declared.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims))
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "small", declared, results, tensors)
    domains = sorted({node.domain for node in nodes} - {""})
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **further)


def make_unknown(**arrays: Any) -> ModelInputs:
    """Return inputs of these shapes whose elements decide nothing, as ``input_shape=`` makes them."""
    inputs = ModelInputs(**arrays)
    inputs.are_random = True
    return inputs


def trace_node(
    op: str,
    *arrays: Any,
    outputs: int = 1,
    opset: int = 22,
    domain: str = "",
    declared: Sequence[int] | None = None,
    **attributes: Any,
) -> ModelTrace:
    """Trace one node over arrays: the inputs that are known are numbers, the others open."""
    names = ["" if array is None else f"x{index}" for index, array in enumerate(arrays)]
    made = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    given = {name: array for name, array in zip(names, arrays, strict=True) if name}
    floats = {name: array for name, array in given.items() if array.size > 8 or array.dtype.kind == "f"}
    known = {name: array for name, array in given.items() if name not in floats}
    model = make_model([node], floats, known, made, opset)
    if declared is not None:
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info(made[0], TensorProto.FLOAT, declared))
    trace = BACKEND.trace(model, ModelInputs(**floats))
    if trace.failure is not None:
        raise trace.failure
    return trace


def make_graph(
    nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str], weights: Mapping[str, Any] | None = None
) -> Any:
    """Return a graph for an operator that has one inside."""
    return helper.make_graph(
        list(nodes),
        "inner",
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
