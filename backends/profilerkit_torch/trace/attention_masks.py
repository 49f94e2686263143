"""How much of an attention operator's work its mask leaves: of a causal one a part, of any other nobody knows."""

from __future__ import annotations

from typing import Any

__all__ = ["attended_macs", "is_masked"]

_MASKS = ("attn_mask", "attn_bias", "bias")


def _bound(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of an attention operator by name; none of another operator."""
    if "attention" not in func._schema.name:
        return {}
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def attended_macs(func: Any, args: Any, kwargs: Any, macs: int) -> int | None:
    """Return the multiply-accumulates of the scores that a causal mask leaves; None where the operator has none.

    As torch has it, the query at place i attends to the keys up to place i.
    """
    arguments = _bound(func, args, kwargs)
    query, key = arguments.get("query"), arguments.get("key")
    if not arguments.get("is_causal") or query is None or key is None or not macs:
        return None
    length, keys = int(query.shape[-2]), int(key.shape[-2])
    whole = min(length, keys)
    attended = whole * (whole + 1) // 2 + (length - whole) * keys
    return macs * attended // (length * keys)


def is_masked(func: Any, args: Any, kwargs: Any) -> bool:
    """Say whether a tensor masks attention: how many scores it leaves depends on its values."""
    arguments = _bound(func, args, kwargs)
    return any(arguments.get(name) is not None for name in _MASKS)
