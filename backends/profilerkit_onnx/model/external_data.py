"""The files beside a model that hold its weights, as the model names them; none of them is opened here."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, ModelProto, TensorProto

__all__ = ["external_files"]


def external_files(model: ModelProto) -> list[str]:
    """Return the names of the files that hold tensors of a model, in its graph and in the graphs inside."""
    tensors = _tensors(model.graph)
    return list(dict.fromkeys(name for tensor in tensors if (name := _location(tensor)) is not None))


def _location(tensor: TensorProto) -> str | None:
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors)
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(inner)
