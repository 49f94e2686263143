"""The present structure of a model, to notice that it was changed in place: nodes, types, constants."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

from onnx import ModelProto

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
    for messages in (
        *(model.opset_import, model.functions, model.metadata_props, graph.metadata_props),
        *(graph.node, graph.input, graph.output, graph.value_info, graph.sparse_initializer),
    ):
        yield len(messages).to_bytes(8, "little")
        yield from (message.SerializeToString(deterministic=True) for message in messages)
    for tensor in graph.initializer:
        if values or math.prod(tensor.dims) <= LARGEST:
            yield tensor.SerializeToString(deterministic=True)
        else:  # all but its elements
            location = [(entry.key, entry.value) for entry in tensor.external_data]
            yield repr((tensor.name, list(tensor.dims), tensor.data_type, tensor.data_location, location)).encode()
