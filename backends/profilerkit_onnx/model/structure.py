"""What a model consists of right now, to notice that it was changed in place: nodes, types, constants."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator

from onnx import ModelProto, TensorProto

from .types import LARGEST

__all__ = ["fingerprint"]


def fingerprint(model: ModelProto, values: bool = True) -> str:
    """Return a digest that changes with the nodes, types and constants of a model.

    Without ``values``, the elements of large constants are left out: no count depends on them. Of weights in files
    beside the model only the names are among them; see `loaders.read_stamps`.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(model, values):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _parts(model: ModelProto, values: bool) -> Iterator[bytes]:
    graph = model.graph
    yield graph.name.encode()
    for messages in (model.opset_import, model.functions, model.metadata_props, graph.metadata_props, graph.node):
        yield from _written(messages)
    for types in (graph.input, graph.output, graph.value_info, graph.sparse_initializer):
        yield from _written(types)
    for tensor in graph.initializer:
        if values or math.prod(tensor.dims) <= LARGEST:
            yield tensor.SerializeToString(deterministic=True)
        else:
            yield _without_values(tensor)


def _written(messages: Iterable[object]) -> Iterator[bytes]:
    written = [message.SerializeToString(deterministic=True) for message in messages]  # type: ignore[attr-defined]
    yield len(written).to_bytes(8, "little")
    yield from written


def _without_values(tensor: TensorProto) -> bytes:
    shell = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
    shell.data_location = tensor.data_location
    shell.external_data.extend(tensor.external_data)
    return bytes(shell.SerializeToString(deterministic=True))
