"""A language model followed through a prefill and steps of one token, on shapes alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.error_text import error_line
from profilerkit_predict.language_models.model_cache import find_growth, needs_third_length
from profilerkit_predict.language_models.records import CacheContents, CacheLayer

from ..trace.inference_pass import GRAD_MODES, InferencePass
from ..trace.tracing import trace_model
from .calls import Calls
from .configurations import find_longest_context, find_most_attended
from .decoders import find_sound_positions, is_encoder_decoder, require_decoder
from .dtypes import choose_dtype
from .models import make_language_model

__all__ = ["Followed", "choose_length", "find_cache_growth", "follow", "list_cache_contents"]

#: The fewest tokens of a prompt that tell one law from another.
_FEWEST = 4
#: The tokens that recurrent layers are traced with: their reference code runs a loop over the tokens.
_RECURRENT = 16
#: A third length of a cache: so many times the first and one less, long enough to tell a stride of 128 tokens from
#: others.
_THIRD = 32
#: The third length for recurrent layers.
_THIRD_RECURRENT = 2 * _RECURRENT + 1
#: What configurations call the sizes of recurrent states.
_RECURRENT_SIZES = ("state_size", "ssm_state_size", "mamba_d_state", "attention_hidden_size")


class _EnginePass(InferencePass):
    """A pass of a serving engine, whose kernels never write the scores of attention, whatever device they are for."""

    knows_kernels = False


class Followed(NamedTuple):
    """What a model did: the trace of all its passes, and the calls with the contents of the cache after each."""

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


def _make_sound(model: Any, batch: int) -> Iterator[torch.Tensor]:
    """Yield the spectrograms that an encoder of sound takes, two frames for each of its positions; else nothing."""
    positions = find_sound_positions(model.config)
    if positions is not None:
        frames = 2 * positions
        yield torch.empty(batch, model.config.num_mel_bins, frames, dtype=choose_dtype(model), device="meta")


def _explain(failure: Exception | None) -> str:
    """Return why a model was not followed: what it raised itself, not what a pass makes of its inputs."""
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


def find_cache_growth(model: nn.Module, contents: Sequence[CacheContents]) -> tuple[CacheLayer, ...]:
    """Return how the cache of a model grows; a cache that two lengths do not explain is looked at at a third."""
    before, after = contents[:2]
    later = None
    if needs_third_length(before, after):
        length = _THIRD_RECURRENT if _is_recurrent(model) else _THIRD * before.context - 1
        longest = find_longest_context(model.config) or length + 1
        later = follow(model, min(length, longest - 1), before.batch, 0).calls.contents[0]
    return find_growth(before, after, later, find_most_attended(model.config))


def choose_length(model: Any, prompt: int) -> tuple[int, list[str]]:
    """Return the tokens of the prompt to trace, and a note if they are not those that were requested.

    Raises `InputError` for a prompt in tokens where the encoder takes sound of a fixed length.
    """
    sound = find_sound_positions(model.config)
    if sound is not None:
        if prompt != sound:
            raise InputError(
                f"{type(model).__name__} takes sound, in {sound:,} positions of its encoder whatever its length, and "
                f"{prompt:,} tokens of prompt were requested; leave out prompt (prompt=, --prompt)"
            )
        return sound, [f"the prompt is sound: {sound:,} positions of the encoder, whatever is said in it"]
    if _is_recurrent(model) and prompt > _RECURRENT:
        note = (
            f"traced with a prompt of {_RECURRENT} tokens, for its recurrent layers loop over them; longer ones follow "
            "from its laws"
        )
        return _RECURRENT, [note]
    if prompt < _FEWEST:
        return _FEWEST, [f"traced with a prompt of {_FEWEST} tokens; shorter ones follow from its laws"]
    return prompt, []


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
