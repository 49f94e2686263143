"""Files of LiteRT, made by hand: graphs of tensors and operators, written by the schema's own classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")  # doctests are looked for here too, in environments that lack it

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

__all__ = ["GraphBuilder", "options", "write_model"]

#: The sizes of a tensor; -1 for an open one.
Sizes = tuple[int, ...]


def options(name: str, **values: Any) -> Any:
    """Return the options of an operator by their class, without its end: ``options("Conv2D", strideH=2)``."""
    made = getattr(schema, f"{name}OptionsT")()
    for key, value in values.items():
        assert hasattr(made, key), key
        setattr(made, key, value)
    return made


class GraphBuilder:
    """A graph that grows operator by operator; tensors are known by their indices.

    ``buffers`` are those of the model; graphs of one model share them.
    """

    def __init__(self, buffers: list[Any] | None = None, name: str = "main") -> None:
        self.buffers = [schema.BufferT()] if buffers is None else buffers
        self.graph = schema.SubGraphT()
        self.graph.name, self.graph.tensors, self.graph.operators = name.encode(), [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.codes: list[tuple[str, str]] = []

    def tensor(self, name: str, shape: Sizes, dtype: str = "float32", **further: Any) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.buffer = name.encode(), getattr(schema.TensorType, dtype.upper()), 0
        tensor.shape, tensor.hasRank = [1 if size == -1 else size for size in shape], True
        if -1 in shape:
            tensor.shapeSignature = list(shape)
        for key, value in further.items():
            setattr(tensor, key, value)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, name: str, shape: Sizes, dtype: str = "float32") -> int:
        index = self.tensor(name, shape, dtype)
        self.graph.inputs.append(index)
        return index

    def constant(self, name: str, values: Any, scales: Sequence[float] = (), dtype: str = "") -> int:
        array = np.asarray(values)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        self.buffers.append(buffer)
        quantization = None
        if scales:
            quantization = schema.QuantizationParametersT()
            quantization.scale, quantization.zeroPoint = list(scales), [0] * len(scales)
        index = self.tensor(name, array.shape, dtype or str(array.dtype), quantization=quantization)
        self.graph.tensors[index].buffer = len(self.buffers) - 1
        return index

    def add(
        self, operator: str, inputs: Sequence[int], *shapes: Sizes, name: str = "", dtype: str = "float32", **made: Any
    ) -> Any:
        """Add an operator; return the index of its output, or a list of several. ``options=`` are its options."""
        name = name or f"{operator.lower()}_{len(self.graph.operators)}"
        outputs = [
            self.tensor(name if not place else f"{name}:{place}", shape, dtype) for place, shape in enumerate(shapes)
        ]
        node = schema.OperatorT()
        is_custom = not hasattr(schema.BuiltinOperator, operator)
        code = ("CUSTOM", operator) if is_custom else (operator, "")
        if code not in self.codes:
            self.codes.append(code)
        node.opcodeIndex, node.inputs, node.outputs = code, list(inputs), outputs
        chosen = made.get("options")
        if chosen is not None:
            title = type(chosen).__name__.removesuffix("T")
            for union, number in (("BuiltinOptions", ""), ("BuiltinOptions2", "2")):
                if hasattr(getattr(schema, union), title):
                    setattr(node, f"builtinOptions{number}Type", getattr(getattr(schema, union), title))
                    setattr(node, f"builtinOptions{number}", chosen)
        self.graph.operators.append(node)
        return outputs[0] if len(outputs) == 1 else outputs


def write_model(
    graphs: Sequence[GraphBuilder],
    outputs: Sequence[int | Mapping[str, int]],
    signatures: Mapping[str, int] | None = None,
) -> bytes:
    """Return the file of these graphs; ``outputs`` are those of each graph, by their names where a signature has them.

    ``signatures`` has the keys of signatures, with the graph of each; inputs have the names of their tensors.
    """
    model = schema.ModelT()
    model.version, model.description, model.buffers = 3, b"made by hand", graphs[0].buffers if graphs else []
    codes = list(dict.fromkeys(code for builder in graphs for code in builder.codes))
    model.operatorCodes = [_make_code(*code) for code in codes]
    model.subgraphs, model.signatureDefs = [], []
    for builder, made in zip(graphs, outputs, strict=True):
        builder.graph.outputs = list(made.values()) if isinstance(made, Mapping) else [made]
        for node in builder.graph.operators:
            if isinstance(node.opcodeIndex, tuple):
                node.opcodeIndex = codes.index(node.opcodeIndex)
        model.subgraphs.append(builder.graph)
    for key, index in (signatures or {}).items():
        graph, made = graphs[index].graph, outputs[index]
        assert isinstance(made, Mapping)
        entry = schema.SignatureDefT()
        entry.signatureKey, entry.subgraphIndex = key.encode(), index
        entry.inputs = [_make_entry(graph.tensors[tensor].name, tensor) for tensor in graph.inputs]
        entry.outputs = [_make_entry(name.encode(), tensor) for name, tensor in made.items()]
        model.signatureDefs.append(entry)
    writer = flatbuffers.Builder(1024)
    writer.Finish(model.Pack(writer), b"TFL3")
    return bytes(writer.Output())


def _make_code(operator: str, custom: str) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode, code.version = getattr(schema.BuiltinOperator, operator), 1
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.customCode = custom.encode() or None
    return code


def _make_entry(name: bytes, tensor: int) -> Any:
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name, tensor
    return entry
