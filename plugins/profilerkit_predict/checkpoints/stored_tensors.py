"""Tensors in files of checkpoints: names, shapes, where their bytes are, and their layers. No values are read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from profilerkit.errors import InputError
from profilerkit.trace.layer_paths import walk_outwards

#: The dtypes of unpacked tensors: weights, which an engine converts to the dtype of its activations, and counters.
_PLAIN = frozenset({"float64", "float32", "float16", "bfloat16", "int64", "bool"})


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file; its values are not read."""

    name: str
    #: Its sizes, the slowest dimension first.
    shape: tuple[int, ...]
    #: The name of its dtype or of the type of its blocks: "bfloat16", "Q4_K".
    dtype: str
    #: The offset of its bytes from the first byte of all tensors.
    start: int
    bytes: int

    @property
    def elements(self) -> int:
        """The number of its elements, unless several are packed in one."""
        return math.prod(self.shape)


def require_whole(path: Path, tensors: Iterable[StoredTensor], size: int) -> None:
    """Raise `InputError` if tensors do not lie within the ``size`` bytes that a file has for them."""
    for tensor in tensors:
        end = tensor.start + tensor.bytes
        if end > size:
            raise InputError(
                f"{path} is cut off: its tensor {tensor.name!r} ends at byte {end:,} of {size:,}; download it again"
            )


def join_tensors(groups: Iterable[Iterable[StoredTensor]], message: str) -> tuple[StoredTensor, ...]:
    """Return the tensors of several groups; raises `InputError` with the message if two have the same name."""
    tensors = tuple(tensor for group in groups for tensor in group)
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise InputError(message)
    return tensors


# The layers of packed tensors -----------------------------------------------------------------------------------------


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
    """Return the bytes of the tensors of a layer, without biases and GPTQ's ``g_idx``, which engines drop.

    They keep it for weights that were quantized in the order of activations (``desc_act``) alone.
    """
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.dtype] += 0 if tensor.name.endswith(("bias", "g_idx")) else tensor.bytes
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
