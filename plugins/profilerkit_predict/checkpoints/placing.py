"""Which layers of a model the packed tensors of a checkpoint belong to, by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from profilerkit.trace.layer_paths import walk_outwards

from .stored_tensors import StoredTensor

#: The dtypes of unpacked tensors: weights, which an engine converts to the dtype of its activations, and counters.
_PLAIN = frozenset({"float64", "float32", "float16", "bfloat16", "int64", "bool"})


class PackedLayer(NamedTuple):
    """A layer whose weights are packed: their bytes, with scales and zero points, and the dtype that most have."""

    bytes: int
    dtype: str


class Placement(NamedTuple):
    """Where the tensors of a checkpoint belong."""

    #: The layers that are packed, by their paths.
    layers: Mapping[str, PackedLayer]
    #: The bytes of tensors that belong to no layer of the model, such as the tensors of an image encoder.
    left_over: int


def place_tensors(tensors: Iterable[StoredTensor], layers: Mapping[str, bool]) -> Placement:
    """Return the layers of tensors; ``layers`` are the paths of layers with weights, and whether they join experts.

    A tensor belongs to the nearest layer around it. A library may join experts that a checkpoint has one by one, also
    under another name: a tensor of an expert belongs to the layer that joins the experts of the same block.
    """
    joined = {_find_block(path): path for path, joins_experts in layers.items() if joins_experts}
    placed: dict[str, list[StoredTensor]] = {}
    left_over = 0
    for tensor in tensors:
        path = _find_layer(tensor.name, layers)
        if path is None and ".experts." in tensor.name:
            path = joined.get(_find_block(tensor.name))
        if path is None:
            left_over += tensor.bytes
        else:
            placed.setdefault(path, []).append(tensor)
    packed = {
        path: _add_up(members)
        for path, members in placed.items()
        if any(tensor.dtype not in _PLAIN for tensor in members)
    }
    return Placement(packed, left_over)


def _add_up(tensors: Iterable[StoredTensor]) -> PackedLayer:
    """Return the bytes of the tensors of a layer, without biases."""
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.dtype] += 0 if tensor.name.endswith("bias") else tensor.bytes
    return PackedLayer(sizes.total(), sizes.most_common(1)[0][0])


def _find_layer(name: str, layers: Mapping[str, bool]) -> str | None:
    """Return the nearest layer around a tensor; None for none."""
    around = walk_outwards(name.rpartition(".")[0])
    return next((path for path in around if path and path in layers), None)


def _find_block(path: str) -> str:
    """Return a path up to its first number: "model.layers.3" of "model.layers.3.mlp.experts.7.up_proj.weight"."""
    parts = path.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), len(parts) - 1)
    return ".".join(parts[: number + 1])
