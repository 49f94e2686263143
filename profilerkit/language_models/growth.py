"""How the parts of a cache grow, from its contents at two lengths."""

from __future__ import annotations

from .records import CacheContents, CacheLayer, CacheTensor

__all__ = ["growth_of"]


def growth_of(before: CacheContents, after: CacheContents) -> tuple[CacheLayer, ...]:
    """Return how each part of a cache grows, from its contents at two lengths, the second one token longer."""
    earlier = {tensor.path: tensor for tensor in before.tensors}
    parts: dict[str, list[int | None]] = {}
    for tensor in after.tensors:
        path = tensor.path.rpartition(".")[0]
        slope, constant = _slope(earlier.get(tensor.path), tensor, after.context)
        part = parts.setdefault(path, [0, 0, tensor.window])
        part[0] = (part[0] or 0) + slope // after.batch
        part[1] = (part[1] or 0) + constant // after.batch
    return tuple(
        CacheLayer(path, slope or 0, constant or 0, window if slope else None)
        for path, (slope, constant, window) in parts.items()
    )


def _slope(before: CacheTensor | None, after: CacheTensor, context: int) -> tuple[int, int]:
    """Return the bytes that a token adds to a tensor, and those that it has whatever the context."""
    if before is None:
        return 0, after.bytes
    longer = [axis for axis, (old, new) in enumerate(zip(before.shape, after.shape, strict=True)) if new == old + 1]
    if longer:
        slope = after.bytes // after.shape[longer[0]]
        return slope, after.bytes - slope * context
    full = None if after.window is None else after.window - 1
    if full is not None and full in after.shape[1:] and context >= full:
        return after.bytes // full, 0
    return 0, after.bytes
