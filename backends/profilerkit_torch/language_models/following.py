"""A language model followed through a prefill and steps of one token, on shapes alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.error_text import error_line
from profilerkit_predict.language_models.model_cache import CacheContents, CacheLayer, find_growth, needs_third_length

from ..trace.inference_pass import GRAD_MODES, InferencePass
from ..trace.tracing import trace_model
from .caches import list_contents, list_layer_windows
from .checkpoints import choose_dtype
from .configurations import (
    find_longest_context,
    find_most_attended,
    find_sound_positions,
    is_encoder_decoder,
    require_decoder,
)
from .models import make_language_model

__all__ = [
    "Calls",
    "Followed",
    "choose_length",
    "decode",
    "find_cache",
    "find_cache_growth",
    "follow",
    "list_cache_contents",
    "prefill",
]

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


# The two calls: a prefill, and a step of one token through the cache that the prefill returned ------------------------


class Calls:
    """Runs a prefill and ``steps`` steps of a model, and keeps what their caches hold as plain numbers.

    After `run`, ``contents`` has the contents of the cache after each pass, and ``windows`` the windows of its layers.
    Where the model returns no cache, ``error`` says so, and no step was made.
    """

    def __init__(self, steps: int = 1) -> None:
        self.steps = steps
        self.contents: list[CacheContents] = []
        self.windows: dict[int, int] = {}
        self.error: InputError | None = None

    def run(self, model: Any, tokens: torch.Tensor, sound: torch.Tensor | None = None) -> Any:
        """Call the model with the prompt, then with one token after the other; return the logits of the prompt.

        The prompt of an encoder of sound is ``sound``; ``tokens`` then are as many as its positions.
        """
        self.contents.clear()
        batch, length = tokens.shape
        outputs = prefill(model, tokens, sound)
        try:
            name, cache = find_cache(model, outputs)
        except InputError as error:
            self.error = error
            return outputs.logits
        seen, source = (1, length) if is_encoder_decoder(model.config) else (length, None)
        self.windows = list_layer_windows(cache)
        self.contents.append(list_contents(cache, seen, batch, source))
        for step in range(1, self.steps + 1):
            later = decode(model, tokens[:, :1], name, cache, outputs)
            _, cache = find_cache(model, later)
            self.contents.append(list_contents(cache, seen + step, batch, source))
        return outputs.logits


def prefill(model: Any, tokens: torch.Tensor, sound: torch.Tensor | None = None) -> Any:
    """Return what the model makes of a prompt: logits of the last token where it can leave the others out."""
    parameters = inspect.signature(model.forward).parameters
    options: dict[str, Any] = {"use_cache": True}
    if "logits_to_keep" in parameters:
        options["logits_to_keep"] = 1
    if is_encoder_decoder(model.config):
        options["decoder_input_ids"] = tokens[:, :1]
    return model(tokens if sound is None else sound, **options)


def decode(model: Any, token: torch.Tensor, name: str, cache: Any, before: Mapping[str, Any]) -> Any:
    """Return what the model makes of one more token of each sequence.

    Args:
        model: The model.
        token: The token of each sequence.
        name: The name by which the model takes its cache.
        cache: The cache.
        before: What the model returned for the prompt: of an encoder-decoder the states of the encoder are there.
    """
    options = {name: cache, "use_cache": True}
    if is_encoder_decoder(model.config):
        from transformers.modeling_outputs import MoEModelOutput  # has all that models ask of their encoder

        states = before["encoder_last_hidden_state"]
        encoded = MoEModelOutput(last_hidden_state=states)
        return model(encoder_outputs=encoded, decoder_input_ids=token, **options)
    return model(token, **options)


def find_cache(model: Any, outputs: Any) -> tuple[str, Any]:
    """Return the cache among a model's outputs, with its name; raises `InputError` if there is none.

    It is what the model returns and takes by the same name. Transformers 5.24 has given it another name, and some
    models have one of their own.
    """
    parameters = inspect.signature(model.forward).parameters
    for name, value in outputs.items():
        is_input = isinstance(value, torch.Tensor) or name.endswith("hidden_states")  # a mask, what an image became
        if name in parameters and value is not None and not is_input:
            return name, value
    require_decoder(model)
    raise InputError(
        f"{type(model).__name__} returned no cache although use_cache=True was given; its outputs are "
        f"{', '.join(outputs.keys())}. llm follows a model through its own cache: give one that has it"
    )
