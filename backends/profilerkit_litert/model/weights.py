"""The weights of a graph: constants that its operators compute with, by the layers that use them.

A quantized weight counts the numbers that it stands for, with its stored bytes. Its scales and zero points are no
parameters; they are separate buffers if there is one for each channel.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

from profilerkit.backend_kit.graph_work import count_bytes
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.trace.records import WeightRecord

from .graphs import Graph, Tensor
from .reading import LiteRTModel

__all__ = ["list_weights"]

#: The parts of a tensor that may be weights of their own.
_PARTS = ("values", "scales", "zero points")
#: Operators that hand a constant on as it is or in another form: the users of their results use the constant.
_HANDING_ON = ("DENSIFY", "DEQUANTIZE", "RESHAPE", "TRANSPOSE")


def list_weights(model: LiteRTModel, scopes: Scopes) -> Iterator[PlacedWeight]:
    """Yield the parameters and the buffers of the layers, also from graphs inside their operators.

    Parameters are constants of floats, and of integers with scales. Constants of other integers are buffers: shapes,
    indices, tables; a single number is nothing. States with which a loop begins are buffers too, and so is a state that
    a variable keeps, which no file has.
    """
    identities: dict[Hashable, int] = {}
    for number, paths in _list_graphs(model, scopes):
        graph = model.graphs[number]
        states = _find_states(model, graph)
        for index, owners in _find_users(graph, paths).items():
            tensor = graph.tensors[index]
            if tensor.data is None and not tensor.is_variable:
                continue
            # Tensors of one buffer are one weight; a variable has no buffer.
            origin = (number, index) if tensor.is_variable else tensor.buffer
            parts = [identities.setdefault((origin, part), len(identities)) for part in _PARTS]
            for path in owners:
                yield from _list_records(path, tensor, parts, is_state=index in states)


def _list_graphs(model: LiteRTModel, scopes: Scopes) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the number of the profiled graph and of each graph inside it, with the layer of each of its operators.

    A graph inside is yielded once for each layer that has it.
    """
    waiting: list[tuple[int, Sequence[str]]] = [(model.signature.graph, scopes.paths)]
    seen: set[tuple[int, str]] = set()
    while waiting:
        number, paths = waiting.pop()
        yield number, paths
        for operator, path in zip(model.graphs[number].operators, paths, strict=True):
            for inner in operator.graphs:
                if 0 <= inner < len(model.graphs) and (inner, path) not in seen:
                    seen.add((inner, path))
                    waiting.append((inner, [path] * len(model.graphs[inner].operators)))


def _find_users(graph: Graph, paths: Sequence[str]) -> dict[int, dict[str, None]]:
    """Return the layers that use each tensor; ``paths`` has the layer of each operator.

    An unpacked or transposed form of a constant stands for it: an operator that reads this form uses the constant, and
    the operator that makes this form does not.
    """
    sources = {index: index for index in range(len(graph.tensors))}
    users: dict[int, dict[str, None]] = {}
    for operator, path in zip(graph.operators, paths, strict=True):
        read = [sources[index] for index in operator.inputs if index >= 0]
        if operator.name in _HANDING_ON and read and graph.tensors[read[0]].data is not None:
            constant = read.pop(0)
            sources.update(dict.fromkeys(operator.outputs, constant))
        for index in read:
            users.setdefault(index, {})[path] = None
    return users


def _find_states(model: LiteRTModel, graph: Graph) -> set[int]:
    """Return the tensors with which a loop begins and which its body replaces: states, and no weights."""
    states: set[int] = set()
    for operator in graph.operators:
        if operator.name in ("WHILE", "STABLEHLO_WHILE") and 0 <= operator.graphs[1] < len(model.graphs):
            body = model.graphs[operator.graphs[1]]
            carried = zip(operator.inputs, body.inputs, body.outputs, strict=False)
            states.update(index for index, before, after in carried if before != after)
    return states


def _list_records(path: str, tensor: Tensor, identities: Sequence[int], *, is_state: bool) -> Iterator[PlacedWeight]:
    """Yield the weights of a tensor: the tensor, and its scales and zero points if each channel has its own.

    ``identities`` has the identity of each of these `_PARTS`.
    """
    of_values, of_scales, of_zero_points = identities
    shape = tensor.sizes or ()
    elements = math.prod(shape)
    is_constant = tensor.data is not None
    size = len(tensor.data) if is_constant else count_bytes(elements, tensor.dtype)
    name = tensor.name.rpartition("/")[2]
    is_parameter = tensor.is_weight and not is_state
    if elements > 1 or (is_parameter and shape):
        record = WeightRecord(name, of_values, elements, size, tensor.dtype, None, persistent=is_constant, shape=shape)
        yield PlacedWeight(path, record, is_parameter)
    scales, zero_points = tensor.quantization
    if is_parameter and len(scales) > 1:
        yield _make_row(path, f"{name}.scale", of_scales, len(scales), "float32")
    if is_parameter and len(zero_points) > 1:
        yield _make_row(path, f"{name}.zero_point", of_zero_points, len(zero_points), "int64")


def _make_row(path: str, name: str, identity: int, length: int, dtype: str) -> PlacedWeight:
    """Return a buffer of a layer, of one dimension."""
    size = count_bytes(length, dtype)
    record = WeightRecord(name, identity, length, size, dtype, None, shape=(length,))
    return PlacedWeight(path, record, is_parameter=False)
