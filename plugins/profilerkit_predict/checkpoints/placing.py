"""Which layers of a model the packed tensors of a checkpoint belong to, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .stored_tensor import StoredTensor

__all__ = ["PackedLayer", "Placement", "place_tensors"]

#: The dtypes of weights that are not packed: an engine converts them to the dtype of its activations.
_PLAIN = frozenset({"float64", "float32", "float16", "bfloat16"})


@dataclass(slots=True)
class PackedLayer:
    """The tensors of a layer whose weights are packed, without biases.

    Attributes:
        bytes: All of their bytes, with scales and zero points.
        by_dtype: Their bytes by dtype.
    """

    bytes: int = 0
    by_dtype: dict[str, int] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """The dtype that most of the bytes have."""
        return max(self.by_dtype, key=self.by_dtype.__getitem__)


@dataclass(frozen=True)
class Placement:
    """Where the tensors of a checkpoint belong.

    Attributes:
        layers: The layers that are packed, by their paths.
        left_over: The bytes of tensors that are of no layer of the model, such as those of an encoder of images.
    """

    layers: Mapping[str, PackedLayer]
    left_over: int


def place_tensors(tensors: Iterable[StoredTensor], layers: Mapping[str, bool]) -> Placement:
    """Return where tensors belong; ``layers`` are the paths of layers with weights, and whether they join experts.

    A tensor belongs to the nearest layer around it. A library may join experts that a checkpoint has one by one, also
    under another name: a tensor of an expert belongs to the layer that joins those of the same block.
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
    packed: dict[str, PackedLayer] = {}
    for path, members in placed.items():
        if any(tensor.dtype not in _PLAIN for tensor in members):
            layer = packed[path] = PackedLayer()
            for tensor in members:
                if not tensor.name.endswith("bias"):
                    layer.bytes += tensor.bytes
                    layer.by_dtype[tensor.dtype] = layer.by_dtype.get(tensor.dtype, 0) + tensor.bytes
    return Placement(packed, left_over)


def _find_layer(name: str, layers: Mapping[str, bool]) -> str | None:
    """Return the nearest layer around a tensor; None for none."""
    path = name.rpartition(".")[0]
    while path and path not in layers:
        path = path.rpartition(".")[0]
    return path or None


def _find_block(path: str) -> str:
    """Return a path up to its first number: "model.layers.3" of "model.layers.3.mlp.experts.7.up_proj.weight"."""
    parts = path.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), len(parts) - 1)
    return ".".join(parts[: number + 1])
