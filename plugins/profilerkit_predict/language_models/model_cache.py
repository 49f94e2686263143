"""The cache that a model itself returns: its bytes, and how its parts grow, by its contents at several lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from profilerkit.errors import InputError


@dataclass(frozen=True, slots=True)
class CacheTensor:
    """A tensor in a cache that a model returned."""

    #: Where it is in the cache: "layers.3.keys".
    path: str
    shape: tuple[int, ...]
    #: The name of its dtype: "bfloat16".
    dtype: str
    #: The bytes of its elements.
    bytes: int
    #: The bytes of the storage that it keeps alive, which may be larger; 0 if another tensor of the cache counts that
    #: storage already.
    allocated_bytes: int
    #: How many tokens its layer attends to; None if that is not limited, or not known.
    window: int | None = None


@dataclass(frozen=True)
class CacheContents:
    """The tensors of a cache after so many tokens of so many sequences."""

    #: The tokens of each sequence that the model has seen; in an encoder-decoder the tokens of its decoder.
    context: int
    batch: int
    #: The tensors; single numbers (counters, lengths) are left out.
    tensors: tuple[CacheTensor, ...]
    #: The tokens that the encoder of an encoder-decoder has seen; None for others.
    source: int | None = None

    @property
    def logical_bytes(self) -> int:
        """Bytes of the elements of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the storages that the tensors keep alive: a view can keep a whole prompt."""
        return sum(tensor.allocated_bytes for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """How one part of a cache grows; all bytes are for one sequence."""

    #: Where it is in the cache: "layers.3".
    path: str
    #: The bytes of one entry: of a token, or of ``stride`` tokens; 0 for a state of constant size.
    bytes_per_entry: int
    #: The bytes that do not depend on the context, such as a state-space state.
    constant_bytes: int = 0
    #: How many tokens the layer attends to at most; None for all.
    window: int | None = None
    #: How many tokens one entry is for: more than 1 if a model compresses them.
    stride: int = 1
    #: Whether the entries are only the tokens that wait until ``stride`` tokens are there.
    waits: bool = False
    #: How many of its entries a step reads at most, because an indexer chooses them; None for all.
    most_read: int | None = None
    #: The heads of keys and values, which devices can share; 1 for latents, which each device has whole. None for a
    #: part that any number of devices can share.
    heads: int | None = None
    #: Whether the windows are chunks, as in Llama 4: a token attends only to tokens of its own chunk.
    is_chunked: bool = False
    #: Of layers that are joined as one part, their numbers in the model; empty if they are not known.
    numbers: tuple[int, ...] = ()

    @property
    def bytes_per_token(self) -> float:
        """The bytes that a token adds, on average; 0 for a part that does not grow."""
        return 0 if self.waits else self.bytes_per_entry / self.stride

    def share_out(self, amount: float, devices: int) -> float:
        """Return how much of an amount of it the fullest of so many devices has: of heads whole ones.

        >>> CacheLayer("layers.0", 1, heads=8).share_out(800, devices=3)  # three heads of eight
        300.0
        """
        return amount / devices if self.heads is None else amount * math.ceil(self.heads / devices) / self.heads

    def entries(self, context: int) -> int:
        """Return how many entries it has after so many tokens.

        A window has all of its tokens but one, because the next token is the last. Chunks have as many, because the
        next token after a whole chunk needs none of it.
        """
        if self.waits:
            return context % self.stride
        return (context if self.window is None else min(context, self.window - 1)) // self.stride

    def entries_read(self, context: int) -> int:
        """Return how many entries a step after so many tokens reads."""
        if self.is_chunked and self.window is not None:
            return context % self.window  # the entries of the next token's chunk
        entries = self.entries(context)
        return entries if self.most_read is None else min(entries, self.most_read)

    def logical_bytes(self, context: int) -> int:
        """Return its bytes after so many tokens."""
        return self.constant_bytes + self.bytes_per_entry * self.entries(context)

    def count_paged_bytes(self, context: int, block_size: int) -> int:
        """Return its bytes in blocks of so many entries, each of which is allocated whole."""
        entries = self.entries(context)
        in_blocks = entries if self.waits else math.ceil(entries / block_size) * block_size
        return self.constant_bytes + self.bytes_per_entry * in_blocks


@dataclass(frozen=True, slots=True)
class CacheGrowth:
    """The cache of a model for the tokens that it has seen."""

    #: How each part of the cache grows.
    parts: tuple[CacheLayer, ...]
    #: The contents of the model's cache after the prompt, and after the step; empty if no code was followed.
    contents: Sequence[CacheContents] = ()
    #: How often that cache holds each head of keys and values, because the library repeats them first.
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class CacheBytes:
    """The bytes of a cache after so many tokens of so many sequences.

    Attributes:
        context: Tokens of each sequence.
        batch: Sequences.
        logical: Bytes of the elements.
        allocated: Bytes of the storages that they keep alive: a view of a window can keep the whole prompt.
        paged: Bytes in blocks, each of which is allocated whole; states of constant size are not in blocks.
        block_size: Tokens of a block.
        contents: Every tensor.
        bytes_per_token: The bytes that the next token of one sequence adds; 0 if all windows are full, or all states
            constant.
    """

    context: int
    batch: int
    logical: int
    allocated: int
    paged: int
    block_size: int
    contents: CacheContents
    bytes_per_token: int


def count_cache_bytes(
    contents: CacheContents, one_token_later: CacheContents, layers: tuple[CacheLayer, ...], block_size: int
) -> CacheBytes:
    """Return the bytes of a cache by its contents; ``layers`` tell which parts grow, and so are in blocks."""
    context, batch = contents.context, contents.batch
    return CacheBytes(
        context,
        batch,
        logical=contents.logical_bytes,
        allocated=contents.allocated_bytes,
        paged=sum(layer.count_paged_bytes(context, block_size) for layer in layers) * batch,
        block_size=block_size,
        contents=contents,
        bytes_per_token=(one_token_later.logical_bytes - contents.logical_bytes) // batch,
    )


def needs_third_length(before: CacheContents, after: CacheContents) -> bool:
    """Return whether two lengths, the second one token longer, leave open how a part of a cache grows.

    A tensor that has the same size at both may be a state of constant size, or grow once in so many tokens. Caches of
    encoder-decoders have tensors of the prompt's length, which are constant while tokens are decoded.
    """
    if before.source is not None:
        return False
    for history in _list_histories([before, after]):
        old, new = history.tensors
        if old is None or new is None:
            return True
        grows_by_one = 1 in (size - size_before for size_before, size in zip(old.shape, new.shape, strict=True))
        if not grows_by_one and not _is_full_window(new, before.context):
            return True
    return False


def find_growth(
    before: CacheContents, after: CacheContents, later: CacheContents | None = None, most_read: int | None = None
) -> tuple[CacheLayer, ...]:
    """Return how each part of a cache grows.

    Args:
        before: The contents at some length.
        after: The contents one token later.
        later: The contents at a much greater length, see `needs_third_length`; None to treat parts without growth as
            constant.
        most_read: How many entries of a layer with an indexer a step reads at most.

    Raises `InputError` for sizes that no rule explains.
    """
    contents = [before, after] if later is None else [before, after, later]
    histories = _list_histories(contents)
    with_indexer = {find_layer(history.path) for history in histories if is_index(history.path)}
    parts: dict[CacheLayer, CacheLayer] = {}  # sums of tensors that grow alike, like keys and values
    for history in histories:
        tensor, path = history.find_part(), history.path
        is_chosen = find_layer(path) in with_indexer and not is_index(path) and tensor.window is None
        limit = most_read if is_chosen and tensor.bytes_per_entry else None
        kind = replace(tensor, path=path.rpartition(".")[0], bytes_per_entry=0, constant_bytes=0, most_read=limit)
        part = parts.get(kind, kind)
        parts[kind] = replace(
            part,
            bytes_per_entry=part.bytes_per_entry + tensor.bytes_per_entry // after.batch,
            constant_bytes=part.constant_bytes + tensor.constant_bytes // after.batch,
        )
    return tuple(parts.values())


def find_layer(path: str) -> str:
    """Return the layer that a part of a cache belongs to: "layers.3" of "layers.3.keys"."""
    return ".".join(path.split(".")[:2])


def is_index(path: str) -> bool:
    """Return whether a layer, or a part of a cache, belongs to an indexer, which chooses the entries for attention."""
    return "index" in path or "idx" in path


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
        """Return how the tensor grows."""
        present = [tensor for tensor in self.tensors if tensor is not None]
        last, axis = present[-1], _find_changing_axis(present)
        if axis is not None or None in self.tensors:
            return self._describe_growing(last, len(last.shape) - 2 if axis is None else axis)
        if last.window is not None and _is_full_window(last, self.contexts[0]):
            return CacheLayer(self.path, last.bytes // (last.window - 1), window=last.window, heads=_count_heads(last))
        return CacheLayer(self.path, 0, last.bytes, heads=_count_heads(last) if self.has_encoder else None)

    def _describe_growing(self, last: CacheTensor, axis: int) -> CacheLayer:
        """Return how the tensor grows along an axis; ``last`` is the tensor after the greatest length.

        Raises `InputError` for sizes that no rule explains.
        """
        part = CacheLayer(self.path, last.bytes // last.shape[axis], heads=_count_heads(last, axis))
        entries = [0 if tensor is None else tensor.shape[axis] for tensor in self.tensors]
        windowed = replace(part, window=last.window)
        surplus = {count - windowed.entries(context) for count, context in zip(entries, self.contexts, strict=True)}
        if None not in self.tensors and len(surplus) == 1:  # an entry for each token, and others that are of none
            return replace(windowed, constant_bytes=part.bytes_per_entry * surplus.pop())
        for waits in (False, True):
            stride = _find_stride(self.contexts, entries, waits)
            if stride:
                return replace(part, stride=stride, waits=waits)
        if len(self.contexts) < 3:  # of one context alone, like for kv_bytes: its growth does not matter
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


def _find_stride(contexts: Sequence[int], entries: Sequence[int], waits: bool) -> int:
    """Return of how many tokens an entry is; 0 for none. Of several that fit, a power of two is taken."""
    fitting = [
        stride
        for stride in range(2, max(contexts) + 1)
        if [context % stride if waits else context // stride for context in contexts] == list(entries)
    ]
    powers_of_two = [stride for stride in fitting if stride.bit_count() == 1]
    return min(powers_of_two or fitting, default=0)


def _find_changing_axis(tensors: Iterable[CacheTensor]) -> int | None:
    """Return the first axis of a tensor that is not the same at all lengths; None for none."""
    sizes = zip(*(tensor.shape for tensor in tensors), strict=True)
    return next((axis for axis, values in enumerate(sizes) if len(set(values)) > 1), None)


def _is_full_window(tensor: CacheTensor, context: int) -> bool:
    """Return whether a tensor holds a whole window: all of its tokens but one: the next token is the last."""
    return tensor.window is not None and context >= tensor.window - 1 and tensor.window - 1 in tensor.shape[1:]


def _count_heads(tensor: CacheTensor, axis: int = 2) -> int:
    """Return the heads that devices can share: of keys and values by head, tokens and size; 1 for latents.

    ``axis`` is the axis of the tokens.
    """
    return tensor.shape[1] if len(tensor.shape) == 4 and axis == 2 else 1
