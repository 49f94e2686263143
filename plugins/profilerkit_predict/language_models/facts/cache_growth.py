"""How the parts of a cache that a model returns grow, by its contents at several lengths.

The sizes of a tensor that grows, along the axis that grows, are its numbers of entries. The first of these rules that
gives all of them is its rule: an entry for each token, or the last tokens of a window; an entry for each whole stride
of tokens; an entry for each token that waits until its stride is whole. A tensor that does not grow is a full window,
or a state of constant size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from profilerkit.errors import InputError

from .model_cache import CacheContents, CacheLayer, CacheTensor, find_layer, is_index


def needs_later_lengths(before: CacheContents, after: CacheContents) -> bool:
    """Return whether two lengths, the second one token longer, leave open how a part of a cache grows.

    A tensor that has the same size at both may be a state of constant size, or grow once in so many tokens; the same
    holds for one that has an entry more, and fewer entries than tokens. Caches of encoder-decoders have tensors of the
    prompt's length, which are constant while tokens are decoded.
    """
    if before.source is not None:
        return False
    for history in _list_histories([before, after]):
        old, new = history.tensors
        if old is None or new is None:
            return True
        is_by_token = any(
            size == old_size + 1 > before.context for old_size, size in zip(old.shape, new.shape, strict=True)
        )
        if not is_by_token and not _is_full_window(new, before.context):
            return True
    return False


def find_growth(
    before: CacheContents, after: CacheContents, later: Sequence[CacheContents] = (), most_read: int | None = None
) -> tuple[CacheLayer, ...]:
    """Return how each part of a cache grows.

    Args:
        before: The contents at some length.
        after: The contents one token later.
        later: The contents at other lengths, see `needs_later_lengths`; none to treat parts without growth as constant.
            One length does not tell all rules apart: 639 tokens leave 127 that wait for 128, as many as a window of
            128 keeps.
        most_read: How many entries of a layer with an indexer a step reads at most.

    Raises `InputError` for sizes that no rule explains.
    """
    histories = _list_histories([before, after, *later])
    parts = [history.find_part() for history in histories]
    with_indexer = {find_layer(part.path) for part in parts if is_index(part.path)}
    return _join_alike([_limit_reads(part, with_indexer, most_read) for part in parts], after.batch)


def _limit_reads(part: CacheLayer, with_indexer: set[str], most_read: int | None) -> CacheLayer:
    """Return a part with its entries that a step reads at most: it reads a window, and the indexer itself, whole."""
    is_chosen = find_layer(part.path) in with_indexer and not is_index(part.path)
    has_limit = is_chosen and part.bytes_per_entry > 0 and part.window is None
    return replace(part, most_read=most_read) if has_limit else part


def _join_alike(parts: Sequence[CacheLayer], batch: int) -> tuple[CacheLayer, ...]:
    """Return the sums of parts of a layer that grow alike, like keys and values, for one of so many sequences."""
    entry_bytes: Counter[CacheLayer] = Counter()
    constant_bytes: Counter[CacheLayer] = Counter()
    for part in parts:
        kind = replace(part, path=part.path.rpartition(".")[0], bytes_per_entry=0, constant_bytes=0)
        entry_bytes[kind] += part.bytes_per_entry // batch
        constant_bytes[kind] += part.constant_bytes // batch
    return tuple(
        replace(kind, bytes_per_entry=entry_bytes[kind], constant_bytes=constant_bytes[kind]) for kind in entry_bytes
    )


class _History(NamedTuple):
    """One tensor of a cache after several lengths, with the bytes of all sequences."""

    path: str
    #: The tensor after each length; None where it is missing, because it would have no entries.
    tensors: Sequence[CacheTensor | None]
    #: The lengths, in tokens of a sequence.
    contexts: Sequence[int]
    #: Whether the cache belongs to an encoder-decoder, which has no states: all tensors are keys and values.
    has_encoder: bool

    def find_part(self) -> CacheLayer:
        """Return how the tensor grows; raises `InputError` for sizes that no rule explains."""
        last = [tensor for tensor in self.tensors if tensor is not None][-1]
        axis = _find_tokens_axis(self.tensors)
        if axis is not None:
            return self._describe_growing(last, axis)
        if last.window is not None and _is_full_window(last, self.contexts[0]):
            return CacheLayer(self.path, last.bytes // (last.window - 1), window=last.window, heads=_count_heads(last))
        return CacheLayer(self.path, 0, last.bytes, heads=_count_heads(last) if self.has_encoder else None)

    def _describe_growing(self, last: CacheTensor, axis: int) -> CacheLayer:
        """Return the part by the first rule that explains the sizes along an axis; see the top of this file.

        ``last`` is the tensor after the greatest length.
        """
        part = CacheLayer(self.path, last.bytes // last.shape[axis], heads=_count_heads(last, axis))
        entries = [0 if tensor is None else tensor.shape[axis] for tensor in self.tensors]
        by_token = replace(part, window=last.window)
        of_no_token = {count - by_token.entries(context) for count, context in zip(entries, self.contexts, strict=True)}
        if len(of_no_token) == 1 and min(of_no_token) >= 0:  # no part has fewer entries than none
            return replace(by_token, constant_bytes=part.bytes_per_entry * of_no_token.pop())
        for waits in (False, True):
            stride = _find_stride(self.contexts, entries, waits)
            if stride:
                return replace(part, stride=stride, waits=waits)
        if len(self.contexts) < 3:  # only the bytes of one context are asked for, as by kv_bytes
            return CacheLayer(self.path, 0, last.bytes)
        shown = (f"{entry:,} after {context:,}" for entry, context in zip(entries, self.contexts, strict=True))
        raise InputError(
            f"the cache of this model grows by no rule that is known here: {self.path} has {', '.join(shown)} tokens; "
            "kv_bytes(model, context) gives the bytes of one context"
        )


def _list_histories(contents: Sequence[CacheContents]) -> list[_History]:
    """Return each tensor of a cache over the lengths of its contents."""
    by_length = [{tensor.path: tensor for tensor in one.tensors} for one in contents]
    contexts, has_encoder = [one.context for one in contents], contents[0].source is not None
    paths = dict.fromkeys(path for tensors in by_length for path in tensors)
    return [_History(path, [tensors.get(path) for tensors in by_length], contexts, has_encoder) for path in paths]


def _find_tokens_axis(tensors: Sequence[CacheTensor | None]) -> int | None:
    """Return the first axis along which the sizes of a tensor differ; None for a tensor that does not grow.

    A tensor of one size that is missing at some lengths grows along its last axis but one.
    """
    shapes = [tensor.shape for tensor in tensors if tensor is not None]
    otherwise = len(shapes[0]) - 2 if None in tensors else None
    return next((axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1), otherwise)


def _find_stride(contexts: Sequence[int], entries: Sequence[int], waits: bool) -> int:
    """Return of how many tokens an entry is; 0 for none. Of several that fit, a power of two is taken."""
    fitting = [
        stride
        for stride in range(2, max(contexts) + 1)
        if [context % stride if waits else context // stride for context in contexts] == list(entries)
    ]
    powers_of_two = [stride for stride in fitting if stride.bit_count() == 1]
    return min(powers_of_two or fitting, default=0)


def _is_full_window(tensor: CacheTensor, context: int) -> bool:
    """Return whether a tensor that does not grow holds a window but for one token, which the next token is.

    Any axis after the batch may be of the tokens. None has the size 0: a cache's tensors have several elements.
    """
    return tensor.window is not None and context >= tensor.window - 1 and tensor.window - 1 in tensor.shape[1:]


def _count_heads(tensor: CacheTensor, axis: int = 2) -> int:
    """Return the heads that devices can share: of keys and values by head, tokens and size; 1 for latents.

    ``axis`` is the axis of the tokens.
    """
    return tensor.shape[1] if len(tensor.shape) == 4 and axis == 2 else 1
