"""How the parts of a cache grow, from its contents at two lengths, and at a third where two do not tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from profilerkit.errors import InputError

from .records import CacheContents, CacheLayer, CacheTensor

__all__ = ["find_growth", "find_layer", "is_index", "needs_third_length"]


def needs_third_length(before: CacheContents, after: CacheContents) -> bool:
    """Return whether two lengths, the second one token longer, leave open how a part of a cache grows.

    A tensor that has the same size at both may be a state of constant size, or grow once in so many tokens. Caches of
    encoder-decoders have tensors of the prompt's length, which are constant while tokens are decoded.
    """
    if before.source is not None:
        return False
    earlier = {tensor.path: tensor for tensor in before.tensors}
    paths = {tensor.path for tensor in after.tensors}
    if earlier.keys() != paths:
        return True
    return any(
        _longer_axis(earlier[tensor.path], tensor) is None and not _is_full_window(tensor, before.context)
        for tensor in after.tensors
    )


def find_growth(
    before: CacheContents, after: CacheContents, later: CacheContents | None = None, most_read: int | None = None
) -> tuple[CacheLayer, ...]:
    """Return how each part of a cache grows.

    Args:
        before: The contents at some length.
        after: Those one token later.
        later: Those at a length that is far away, see `needs_third_length`; None to take what did not grow as constant.
        most_read: How many entries of a layer with an indexer a step reads at most.

    Raises `InputError` for sizes that no rule explains.
    """
    contents = [before, after] if later is None else [before, after, later]
    sizes = {path: _Sizes(path, tensors) for path, tensors in _by_path(contents)}
    indexed = {find_layer(path) for path in sizes if is_index(path)}
    parts: dict[tuple[object, ...], list[int]] = {}
    for path, size in sizes.items():
        rule = size.rule([content.context for content in contents])
        chosen = find_layer(path) in indexed and not is_index(path) and rule.window is None and rule.entry_bytes
        limit = most_read if chosen else None
        key = (path.rpartition(".")[0], rule.window, rule.stride, rule.waits, limit, rule.heads)
        part = parts.setdefault(key, [0, 0])
        part[0] += rule.entry_bytes // after.batch
        part[1] += rule.constant_bytes // after.batch
    return tuple(
        CacheLayer(str(key[0]), entry, constant, *key[1:])  # type: ignore[arg-type]
        for key, (entry, constant) in parts.items()
    )


def find_layer(path: str) -> str:
    """Return the layer that a part of a cache belongs to: "layers.3" of "layers.3.keys"."""
    return ".".join(path.split(".")[:2])


def is_index(path: str) -> bool:
    """Return whether a layer, or a part of a cache, is an indexer's, which chooses what is attended to."""
    return "index" in path or "idx" in path


def _by_path(contents: Sequence[CacheContents]) -> Iterator[tuple[str, list[CacheTensor | None]]]:
    """Yield each path with the tensor that is there at each length."""
    by_length = [{tensor.path: tensor for tensor in content.tensors} for content in contents]
    for path in dict.fromkeys(path for tensors in by_length for path in tensors):
        yield path, [tensors.get(path) for tensors in by_length]


@dataclass(frozen=True, slots=True)
class _Rule:
    entry_bytes: int
    constant_bytes: int = 0
    window: int | None = None
    stride: int = 1
    waits: bool = False
    heads: int | None = None


class _Sizes:
    """One tensor of a cache at several lengths; None where it is not there."""

    def __init__(self, path: str, tensors: Sequence[CacheTensor | None]) -> None:
        self.path = path
        self.tensors = tensors
        present = [tensor for tensor in tensors if tensor is not None]
        self.one = present[-1]
        self.is_always_there = len(present) == len(tensors)
        self.axis = _find_changing_axis(present)

    def rule(self, contexts: Sequence[int]) -> _Rule:
        """Return how it grows over these lengths."""
        one = self.one
        if self.axis is None and self.is_always_there:
            window = one.window
            if window is not None and _is_full_window(one, contexts[0]):
                return _Rule(one.bytes // (window - 1), window=window, heads=_heads(one, None))
            return _Rule(0, one.bytes)
        axis = len(one.shape) - 2 if self.axis is None else self.axis
        entries = [0 if tensor is None else tensor.shape[axis] for tensor in self.tensors]
        entry_bytes, heads = one.bytes // one.shape[axis], _heads(one, axis)
        if self.is_always_there and entries[1] == entries[0] + 1:
            in_window = [min(context, one.window - 1) if one.window else context for context in contexts]
            beyond = {entry - count for entry, count in zip(entries, in_window, strict=True)}
            if len(beyond) == 1:
                return _Rule(entry_bytes, entry_bytes * beyond.pop(), one.window, heads=heads)
        for waits in (False, True):
            stride = _stride(contexts, entries, waits)
            if stride:
                return _Rule(entry_bytes, stride=stride, waits=waits, heads=heads)
        if len(contexts) < 3:  # of one context alone, as kv_bytes asks for
            return _Rule(0, one.bytes)
        shown = ", ".join(f"{entry:,} after {context:,}" for entry, context in zip(entries, contexts, strict=True))
        raise InputError(
            f"the cache of this model grows by no rule that is known here: {self.path} has {shown} tokens; "
            "kv_bytes(model, context) gives the bytes of one context"
        )


def _stride(contexts: Sequence[int], entries: Sequence[int], waits: bool) -> int:
    """Return of how many tokens an entry is; 0 for none. Of several that fit, a power of two is taken."""
    fitting = [
        stride
        for stride in range(2, max(contexts) + 1)
        if all(
            (context % stride if waits else context // stride) == entry
            for context, entry in zip(contexts, entries, strict=True)
        )
    ]
    return min((stride for stride in fitting if stride & (stride - 1) == 0), default=min(fitting, default=0))


def _longer_axis(before: CacheTensor, after: CacheTensor) -> int | None:
    """Return the axis of a tensor that is one longer after one more token; None for none."""
    axes = enumerate(zip(before.shape, after.shape, strict=True))
    return next((axis for axis, (old, new) in axes if new == old + 1), None)


def _find_changing_axis(tensors: Iterable[CacheTensor]) -> int | None:
    """Return the first axis of a tensor that is not the same at all lengths; None for none."""
    sizes = zip(*(tensor.shape for tensor in tensors), strict=True)
    return next((axis for axis, values in enumerate(sizes) if len(set(values)) > 1), None)


def _is_full_window(tensor: CacheTensor, context: int) -> bool:
    full = None if tensor.window is None else tensor.window - 1
    return full is not None and full in tensor.shape[1:] and context >= full


def _heads(tensor: CacheTensor, axis: int | None) -> int:
    """Return the heads that devices can share: of keys and values by head, tokens and size; 1 for latents."""
    return tensor.shape[1] if len(tensor.shape) == 4 and axis in (None, 2) else 1
