"""The present structure of a model, to notice that it was changed in place: nodes, types, constants."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator

from onnx import ModelProto, TensorProto

from .types import LARGEST

__all__ = ["fingerprint"]


def fingerprint(model: ModelProto, values: bool = True) -> str:
    """Return a digest that changes with the nodes, types and constants of a model.

    Without ``values``, the elements of large constants are left out: no count depends on them. For weights in files
    beside the model the digest has only their names; see `model_file.read_stamps`.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in _list_parts(model, values):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _list_parts(model: ModelProto, values: bool) -> Iterator[bytes]:
    """Yield the bytes of the digest; a list begins with its length, so that two lists never look like one list."""
    graph = model.graph
    yield graph.name.encode()
    for messages in (model.opset_import, model.functions, model.metadata_props, graph.metadata_props, graph.node):
        yield from _serialize(messages)
    for types in (graph.input, graph.output, graph.value_info, graph.sparse_initializer):
        yield from _serialize(types)
    for tensor in graph.initializer:
        if values or math.prod(tensor.dims) <= LARGEST:
            yield tensor.SerializeToString(deterministic=True)
        else:
            yield _strip_values(tensor)


def _serialize(messages: Iterable[object]) -> Iterator[bytes]:
    """Yield how many messages there are, and the bytes of each."""
    texts = [message.SerializeToString(deterministic=True) for message in messages]  # type: ignore[attr-defined]
    yield len(texts).to_bytes(8, "little")
    yield from texts


def _strip_values(tensor: TensorProto) -> bytes:
    """Return the bytes of a tensor without its elements: name, shape, dtype, and the place of external elements."""
    shell = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
    shell.data_location = tensor.data_location
    shell.external_data.extend(tensor.external_data)
    return bytes(shell.SerializeToString(deterministic=True))
