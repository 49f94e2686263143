"""How much work of attention is left: by the values of a mask, or by lengths if it is causal or in a window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from ..compat.operators import read_schema
from ..costs.argument_names import name_by_schema
from .operator_facts import OperatorCall

if TYPE_CHECKING:
    from .known_values import KnownValues

__all__ = ["count_attended_macs", "count_macs_under_mask", "is_masked"]

#: The masks that are tensors, by the names that cost formulas have for them.
_MASKS = ("attn_mask", "bias")
#: The kernels whose heads come after the length.
_HEADS_LAST = ("aten::_flash_attention_", "aten::_efficient_attention_", "torch_attn::", "flash_attn::")
#: ``custom_mask_type`` of a diagonal that ends at the last query and the last key, as those of other such kernels do.
_TO_LAST = 2


# Causal attention and windows: by lengths -----------------------------------------------------------------------------


def count_attended_macs(call: OperatorCall, macs: int) -> int | None:
    """Return the multiply-accumulates of the scores that a causal mask or a window leaves; None where neither is given.

    As torch has it, the query at place i attends to the keys up to place i, and in a window to so many keys to the left
    and right of it. Samples that lie one after the other count as padded to the longest, as in their cost.
    """
    arguments = _name_arguments(call)
    left, right = _find_window(arguments)
    if not macs or "query" not in arguments or "key" not in arguments or (left is None and right is None):
        return None
    name = read_schema(call.func).name
    length, keys = _find_lengths(name, arguments)
    ends_at_last = name.startswith(_HEADS_LAST) and arguments.get("custom_mask_type", _TO_LAST) == _TO_LAST
    first = keys - length if ends_at_last else 0  # the place of the first query among the keys
    attended = length * keys if right is None else _count_up_to(first + right, length, keys)
    if left is not None:
        attended -= _count_up_to(first - left - 1, length, keys)
    return macs * attended // (length * keys)


def _find_window(arguments: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return how many keys to the left and to the right of its own a query attends to; None for all of them.

    A window that is a number, which only ``_efficient_attention_forward`` has, is of so many keys up to its own.
    """
    size = arguments.get("window_size")
    left, right = size if isinstance(size, (list, tuple)) else (size - 1 if size else None, None)
    left, right = arguments.get("window_size_left", left), arguments.get("window_size_right", right)
    if arguments.get("is_causal") or arguments.get("causal") or arguments.get("custom_mask_type"):
        right = 0
    return (None if left is None or left < 0 else left), (None if right is None or right < 0 else right)


def _find_lengths(name: str, arguments: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of queries and keys of a sample: of the longest, if samples lie one after the other."""
    max_q, max_k = arguments.get("max_q"), arguments.get("max_k")
    if arguments.get("cum_seq_q") is not None and max_q is not None and max_k is not None:
        return int(max_q), int(max_k)
    dimension = -3 if name.startswith(_HEADS_LAST) else -2
    return int(arguments["query"].shape[dimension]), int(arguments["key"].shape[dimension])


def _count_up_to(offset: int, length: int, keys: int) -> int:
    """Return the number of scores whose key is at most ``offset`` places after the place of the query.

    Query i has ``min(i + offset + 1, keys)`` of them, and none if that is negative.
    """

    def add_up(rows: int) -> int:
        """Return the sum of ``min(row, keys)`` over the rows from 1 on."""
        triangle = min(max(rows, 0), keys)
        return triangle * (triangle + 1) // 2 + max(rows - keys, 0) * keys

    return add_up(length + offset) - add_up(offset)


# Masks that are tensors: by their values ------------------------------------------------------------------------------


def is_masked(call: OperatorCall) -> bool:
    """Return whether a tensor masks attention: how many scores it leaves depends on its values."""
    return bool(_list_masks(_name_arguments(call)))


def count_macs_under_mask(call: OperatorCall, macs: int, values: KnownValues) -> int | None:
    """Return the multiply-accumulates of the scores that a mask keeps, by its values; None if these are unknown.

    A boolean mask keeps the scores where it is True. A mask of numbers removes the scores to which it adds minus
    infinity, or the least number of its dtype.
    """
    arguments = _name_arguments(call)
    masks = _list_masks(arguments)
    query, key = arguments.get("query"), arguments.get("key")
    if len(masks) != 1 or not isinstance(query, torch.Tensor) or not isinstance(key, torch.Tensor) or query.is_nested:
        return None
    mask = values.find(masks[0])
    if mask is None or not (mask.dtype is torch.bool or mask.is_floating_point()):
        return None
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    if not mask.numel() or scores % mask.numel():
        return None
    return macs * int(values.run(_count_scores_left, (mask,), {})) // mask.numel()


def _list_masks(arguments: dict[str, Any]) -> list[torch.Tensor]:
    return [arguments[name] for name in _MASKS if isinstance(arguments.get(name), torch.Tensor)]


def _count_scores_left(mask: torch.Tensor) -> int:
    attended = mask if mask.dtype is torch.bool else mask > torch.finfo(mask.dtype).min
    return int(attended.sum())


# Both -----------------------------------------------------------------------------------------------------------------


def _name_arguments(call: OperatorCall) -> dict[str, Any]:
    """Return the arguments of an attention operator by the names of cost formulas; none of another operator."""
    name = read_schema(call.func).name
    return name_by_schema(*call) if "attention" in name or name.startswith(_HEADS_LAST) else {}
