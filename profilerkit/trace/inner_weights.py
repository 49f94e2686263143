"""The weights inside each layer, added up; weights that several layers own count once in what is around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .records import LayerRecord, WeightRecord

__all__ = ["InnerWeights", "WeightTotals", "find_shared_weights"]


def find_shared_weights(layers: Sequence[LayerRecord]) -> set[int]:
    """Return the identities of weights that layers own together, or one layer under several names."""
    owners = Counter(weight.identity for layer in layers for weight in (*layer.parameters, *layer.buffers))
    return {identity for identity, times in owners.items() if times > 1}


class WeightTotals(NamedTuple):
    """The columns that tell of the weights inside a layer; a number that is not known is None."""

    params: int | None
    trainable_params: int | None
    params_by_dtype: dict[str, int]
    weight_bytes: int | None

    def without_sums(self) -> WeightTotals:
        """Return what is known of a layer that may get further weights."""
        return WeightTotals(None, None, self.params_by_dtype, None)


class InnerWeights:
    """The weights inside a layer: sums of those with one owner, and those with several by their identity."""

    __slots__ = ("by_dtype", "saved_bytes", "shared", "shared_saved", "trainable")

    def __init__(self, layer: LayerRecord, shared: set[int]) -> None:
        self.by_dtype: dict[str, int] = {}
        self.trainable: int | None = 0
        self.saved_bytes = 0
        self.shared: dict[int, WeightRecord] = {}
        self.shared_saved: dict[int, WeightRecord] = {}
        for weight in layer.parameters:
            if weight.identity in shared:
                self.shared[weight.identity] = weight
            else:
                self.by_dtype[weight.dtype] = self.by_dtype.get(weight.dtype, 0) + weight.count
                self.trainable = _add_known(self.trainable, _count_trainable(weight))
        for weight in (*layer.buffers, *layer.parameters):  # what is a parameter too is that
            if weight.persistent and weight.identity in shared:
                self.shared_saved[weight.identity] = weight
            elif weight.persistent:
                self.saved_bytes += weight.bytes

    def add(self, inner: InnerWeights) -> None:
        """Add the weights of a layer inside."""
        for dtype, count in inner.by_dtype.items():
            self.by_dtype[dtype] = self.by_dtype.get(dtype, 0) + count
        self.trainable = _add_known(self.trainable, inner.trainable)
        self.saved_bytes += inner.saved_bytes
        self.shared.update(inner.shared)
        self.shared_saved.update(inner.shared_saved)

    def totals(self) -> WeightTotals:
        """Return the numbers of all the weights."""
        by_dtype, trainable, saved_bytes = dict(self.by_dtype), self.trainable, self.saved_bytes
        for weight in self.shared.values():
            by_dtype[weight.dtype] = by_dtype.get(weight.dtype, 0) + weight.count
            trainable = _add_known(trainable, _count_trainable(weight))
        for weight in self.shared_saved.values():
            saved_bytes += weight.bytes
        return WeightTotals(sum(by_dtype.values()), trainable, by_dtype, saved_bytes)


def _count_trainable(weight: WeightRecord) -> int | None:
    """Return the elements of a weight that training changes; None where that is not known."""
    if weight.trainable is None:
        return None
    return weight.count if weight.trainable else 0


def _add_known(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
