"""How much of the work of attention a mask leaves: by its values, or by its shape if it is causal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from ..compat.operators import read_schema
from .operator_facts import OperatorCall

if TYPE_CHECKING:
    from .known_values import KnownValues

__all__ = ["count_attended_macs", "count_macs_under_mask", "is_masked"]

_MASKS = ("attn_mask", "attn_bias", "bias")


def count_attended_macs(call: OperatorCall, macs: int) -> int | None:
    """Return the multiply-accumulates of the scores that a causal mask leaves; None where the operator has none.

    As torch has it, the query at place i attends to the keys up to place i.
    """
    arguments = _name_arguments(call)
    query, key = arguments.get("query"), arguments.get("key")
    if not arguments.get("is_causal") or query is None or key is None or not macs:
        return None
    length, keys = int(query.shape[-2]), int(key.shape[-2])
    triangle = min(length, keys)
    attended = triangle * (triangle + 1) // 2 + (length - triangle) * keys
    return macs * attended // (length * keys)


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


def _name_arguments(call: OperatorCall) -> dict[str, Any]:
    """Return the arguments of an attention operator by name; none of another operator."""
    schema = read_schema(call.func)
    if "attention" not in schema.name:
        return {}
    names = [argument.name for argument in schema.arguments]
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


def _list_masks(arguments: dict[str, Any]) -> list[torch.Tensor]:
    return [arguments[name] for name in _MASKS if isinstance(arguments.get(name), torch.Tensor)]


def _count_scores_left(mask: torch.Tensor) -> int:
    attended = mask if mask.dtype is torch.bool else mask > torch.finfo(mask.dtype).min
    return int(attended.sum())
