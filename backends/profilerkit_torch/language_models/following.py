"""A language model followed through a prefill and steps of one token, on shapes alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.error_text import error_line
from profilerkit_predict.language_models.facts.cache_growth import find_growth, needs_later_lengths
from profilerkit_predict.language_models.facts.laws import split_phases
from profilerkit_predict.language_models.facts.model_cache import CacheContents, CacheLayer

from ..trace.inference_pass import GRAD_MODES, InferencePass
from ..trace.tracing import trace_model
from .calls import Calls
from .configurations import find_index_stride, find_longest_context, find_most_attended, has_chunks
from .generating import find_sound_positions, is_encoder_decoder, require_decoder
from .models import choose_dtype, make_language_model

__all__ = ["FollowedPrompt", "follow", "follow_prompt", "list_cache_contents"]

#: The fewest tokens of a prompt that distinguish the laws.
_FEWEST = 4
#: The tokens that recurrent layers are traced with: their reference code may run a loop over the tokens.
_RECURRENT = 16
#: A model that computes in chunks of tokens is traced with one full chunk, of at most so many tokens.
_LARGEST_CHUNK = 1024
#: Further lengths of a cache, longer than any stride. Of a stride that is a power of two the last one leaves all tokens
#: but one; the others leave numbers that are no window's.
_LATER = [1000, 1531, 4095]
#: The further length for recurrent layers.
_LATER_RECURRENT = 2 * _RECURRENT + 1
_TELLING = "traced with a prompt of {count:,} tokens, which tells work that grows with the cache from other work"
_CHUNK = "traced with a prompt of {count:,} tokens, which recurrent layers compute at once; others follow from its laws"
_LOOPING = (
    f"traced with a prompt of {_RECURRENT} tokens, for its recurrent layers loop over them; longer ones follow from "
    "its laws"
)
#: The names in configurations of the sizes of recurrent states.
_RECURRENT_SIZES = ("state_size", "ssm_state_size", "mamba_d_state", "attention_hidden_size")


class FollowedPrompt(NamedTuple):
    """A language model that was followed through a prompt and a step of one token."""

    model: Any
    trace: ModelTrace  #: the trace of both passes
    calls: Calls  #: the calls, with the contents of the cache after each
    length: int  #: the tokens of the prompt
    cache: tuple[CacheLayer, ...]  #: how the parts of its cache grow
    strides: tuple[int, ...]  #: the numbers of tokens that entries of the cache stand for, without 1
    notes: Sequence[str]  #: the reasons if the prompt is not as long as requested

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the prompt goes to an encoder."""
        return is_encoder_decoder(self.model.config)


class _Length(NamedTuple):
    """The tokens of a prompt to trace, and the reasons if they are not as many as requested."""

    tokens: int
    notes: Sequence[str] = ()


def follow_prompt(model: Any, prompt: int, batch: int) -> FollowedPrompt:
    """Follow a model through a prompt of so many tokens, or of another length that shows how its work grows.

    The growth of the cache determines which lengths do, and is known when the model was followed once.
    """
    first = _choose_length(model, prompt)
    followed = follow(model, first.tokens, batch, 1)
    cache = _find_cache_growth(model, followed.calls.contents)
    strides = sorted(({part.stride for part in cache if not part.waits} | {find_index_stride(model.config)}) - {1})
    length = _choose_telling_length(model, followed, first, strides)
    if length.tokens != first.tokens:
        followed = follow(model, length.tokens, batch, 1)
    return FollowedPrompt(
        model, followed.trace, followed.calls, length.tokens, cache, tuple(strides), tuple(length.notes)
    )


def _choose_length(model: Any, prompt: int) -> _Length:
    """Return the requested length of the prompt, or a length that the model can be followed through.

    Raises `InputError` for a prompt in tokens if the encoder takes sound of a fixed length.
    """
    sound = find_sound_positions(model.config)
    if sound is not None:
        if prompt != sound:
            raise InputError(
                f"{type(model).__name__} takes sound, in {sound:,} positions of its encoder whatever its length, and "
                f"{prompt:,} tokens of prompt were requested; leave out prompt (prompt=, --prompt)"
            )
        return _Length(sound, [f"the prompt is sound: {sound:,} positions of the encoder, whatever is said in it"])
    if prompt > _RECURRENT and _is_recurrent(model):
        return _Length(_RECURRENT, [_LOOPING])
    if prompt < _FEWEST:
        return _Length(_FEWEST, [f"traced with a prompt of {_FEWEST} tokens; shorter ones follow from its laws"])
    return _Length(prompt)


def _choose_telling_length(model: Any, followed: Followed, length: _Length, strides: Sequence[int]) -> _Length:
    """Return a length whose work shows its growth; the same if it does, or if a longer one is too long for the model.

    ``followed`` is the model followed through a prompt of this length; entries of its cache stand for the ``strides``.
    """
    batch = followed.calls.contents[0].batch
    if _is_recurrent(model) and (chunk := _find_chunk(model, followed.trace, batch)) > _RECURRENT:
        length = _Length(chunk, [_CHUNK.format(count=chunk)])
    telling = _find_telling_length(strides, followed.calls.windows.values(), length.tokens)
    if telling != length.tokens and telling < (find_longest_context(model.config) or telling + 1):
        length = _Length(telling, [_TELLING.format(count=telling)])
    return length


def _is_recurrent(model: Any) -> bool:
    """Return whether a model has recurrent layers, by its configuration or the cache that transformers makes."""
    from transformers import cache_utils

    if any(getattr(model.config, name, None) for name in _RECURRENT_SIZES):
        return True
    recurrent = getattr(cache_utils, "LinearAttentionCacheLayerMixin", None)
    if recurrent is None or is_encoder_decoder(model.config):
        return False
    try:
        layers = cache_utils.DynamicCache(config=model.config).layers
    except MemoryError:
        raise
    except Exception:  # a configuration that it cannot read: then nothing is known beforehand
        return False
    return any(isinstance(layer, recurrent) for layer in layers)


def _find_cache_growth(model: nn.Module, contents: Sequence[CacheContents]) -> tuple[CacheLayer, ...]:
    """Return how the cache of a model grows; if two lengths do not explain it, longer prompts are followed."""
    before, after = contents[:2]
    later = []
    if needs_later_lengths(before, after):
        longest = find_longest_context(model.config) or max(_LATER) + 1
        lengths = [_LATER_RECURRENT] if _is_recurrent(model) else _LATER
        distinct = sorted({min(length, longest - 1) for length in lengths})
        later = [follow(model, length, before.batch, 0).calls.contents[0] for length in distinct]
    growth = tuple(find_growth(before, after, later, find_most_attended(model.config)))
    if not has_chunks(model.config):
        return growth
    return tuple(replace(part, is_chunked=part.window is not None) for part in growth)


def _find_chunk(model: Any, trace: ModelTrace, batch: int) -> int:
    """Return the tokens of a chunk that recurrent layers compute at once, however short the prompt is.

    Twice the tokens take no more work in such a layer, as long as they are in one chunk. ``trace`` is the trace of a
    prompt and a step. The usual number is returned if no layer computes larger chunks.
    """
    step = _count_macs(trace, 1)
    limit = min(_LARGEST_CHUNK, (find_longest_context(model.config) or _LARGEST_CHUNK) - 1)
    chunk, work = _RECURRENT, _count_macs(follow(model, _RECURRENT, batch, 0).trace, 0)
    while 2 * chunk <= limit:
        later = _count_macs(follow(model, 2 * chunk, batch, 0).trace, 0)
        if not any(macs > step[layer] and 2 * later[layer] < 3 * macs for layer, macs in work.items()):
            break  # the work of each layer grows with the tokens
        chunk, work = 2 * chunk, later
    return chunk


def _count_macs(trace: ModelTrace, number: int) -> Counter[str]:
    """Return the multiply-accumulates of each layer in one of the passes of a trace."""
    macs: Counter[str] = Counter()
    for index in split_phases(trace)[number]:
        macs[trace.operators[index].layer] += trace.operators[index].macs
    return macs


def _find_telling_length(strides: Iterable[int], windows: Container[int], length: int) -> int:
    """Return the next length whose work shows its growth: with the entries, the pairs of a window or the tokens.

    One more token fills an entry of each kind, beside another full entry; else the work of the step might look like the
    work of a token alone. The same holds if the prompt is as long as a window: each token attends to as many keys.
    """
    period = math.lcm(*strides)
    telling = period * max(math.ceil((length + 1) / period), 2) - 1
    while telling in windows:
        telling += period
    return telling


# A model followed through prefill and steps ---------------------------------------------------------------------------


class Followed(NamedTuple):
    """The trace of all passes of a model, and the calls with the contents of the cache after each pass."""

    trace: ModelTrace
    calls: Calls


def follow(model: nn.Module, length: int, batch: int, steps: int) -> Followed:
    """Follow a model through a prompt of so many tokens, and so many steps of one token.

    Raises `InputError` for a model that cannot be followed, or returns no cache.
    """
    calls = Calls(steps)
    tokens = torch.empty(batch, length, dtype=torch.int64, device="meta")
    inputs = ModelInputs(tokens, *_make_sound(model, batch)).given_to(calls.run)
    trace = trace_model(model, inputs, list(map(_EnginePass, GRAD_MODES)))
    if calls.error is not None:
        raise calls.error
    if trace.failure is not None or len(calls.contents) != steps + 1:
        raise InputError(
            f"{type(model).__name__} cannot be followed through a prompt of {length:,} tokens and {steps} more: "
            f"{_explain(trace.failure)}"
        ) from trace.failure
    return Followed(replace(trace, program=None), calls)


class _EnginePass(InferencePass):
    """A pass of a serving engine, whose kernels never write the scores of attention, on any device."""

    knows_kernels = False


def _make_sound(model: Any, batch: int) -> Iterator[torch.Tensor]:
    """Yield the spectrograms that an encoder of sound takes, two frames for each of its positions; else nothing."""
    positions = find_sound_positions(model.config)
    if positions is not None:
        frames = 2 * positions
        yield torch.empty(batch, model.config.num_mel_bins, frames, dtype=choose_dtype(model), device="meta")


def _explain(failure: Exception | None) -> str:
    """Return the reason why a model was not followed: its own error, without the error of the pass around it."""
    if failure is None:
        return "it made no cache"
    cause = failure.__cause__
    return error_line(failure) if cause is None else f"it raised {type(cause).__name__}: {error_line(cause)}"


def list_cache_contents(model: Any, context: int, batch: int, dtype: str | None) -> tuple[CacheContents, CacheContents]:
    """Return the contents of the cache that a model returns after so many tokens, and after one more."""
    language_model = make_language_model(model, dtype)
    require_decoder(language_model)
    before, after = follow(language_model, context, batch, 1).calls.contents
    return before, after
