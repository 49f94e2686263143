"""The bytes inside operators that take indices (``IndexingUtils.h``), and bags of embeddings (``EmbeddingBag.cpp``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from ..model.storages import count_stored_bytes
from .inside_operation import Operation, count_copy, count_copy_on_cpu

__all__ = ["RULES", "is_mask"]

_INT64_BYTES = 8


def is_mask(index: torch.Tensor | None) -> bool:
    """Return whether an index chooses by a value for each element."""
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _count_in_index(indexing: Operation) -> int:
    """Return the bytes of the positions that indices become, in int64: of masks, and of integers of 32 bits.

    A mask has as many as elements in the result for each element of the dimensions that are not indexed, and that for
    each of its dimensions.
    """
    x, indices = indexing.x, indexing.arguments["indices"]
    rest, dim, converted = 1, 0, 0
    for index in indices:
        if index is None:
            rest *= x.shape[dim]
            dim += 1
        else:
            taken = index.dim() if is_mask(index) else 1
            converted += taken if is_mask(index) or _is_narrow(index) else 0
            dim += taken
    rest *= x.shape[dim:].numel()
    return int(indexing.result.numel() // max(1, rest) * converted * _INT64_BYTES)


def _count_in_put(putting: Operation) -> int:
    """Return the bytes of the positions in int64 that integers of 32 bits become."""
    return sum(index.numel() * _INT64_BYTES for index in putting.arguments["indices"] if _is_narrow(index))


def _is_narrow(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype is torch.int32


#: The mode of bags of which the largest elements are the result.
_MAX_MODE = 2


#: How many tensors of positions a sort of the rows has: sorted, where they were, and those that it begins with.
_SORTED_TENSORS = 3


def _count_in_bags(bags: Operation) -> int:
    """Return the bytes of the sums that give the bag of each row on the CPU, before sizes and places are made."""
    _, bag_by_row, sizes, places = bags.result
    return max(0, bag_by_row.nbytes - sizes.nbytes - places.nbytes) if bags.is_on("cpu") else 0


def _count_in_bags_gradient(gradient: Operation) -> int:
    """Return the bytes of the CPU's sort of the rows, of their sorted weights, and of bags by row where these lack.

    Of the largest elements it copies column by column: at the end all places and the output's gradient.
    """
    if not gradient.is_on("cpu") or gradient.arguments["sparse"]:
        return 0
    if gradient.arguments["mode"] == _MAX_MODE:
        return int(gradient.arguments["dy"].nbytes + gradient.arguments["maximum_indices"].nbytes)
    tensors = _SORTED_TENSORS + (gradient.arguments["offset2bag"].numel() == 0)
    weights = gradient.get("per_sample_weights")
    of_weights = 0 if weights is None else count_stored_bytes(weights)
    return int(tensors * gradient.arguments["indices"].numel() * _INT64_BYTES) + of_weights


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_index: "index.Tensor",
    _count_in_put: "index_put.default index_put_.default _index_put_impl_.default _unsafe_index_put.default",
    _count_in_bags: "_embedding_bag.default _embedding_bag_forward_only.default",
    _count_in_bags_gradient: "_embedding_bag_backward.default",
    partial(count_copy_on_cpu, count_copy, "dy"): "embedding_dense_backward.default",
}
