"""Real generation with the model's own cache, and the time of each token."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from profilerkit import InputError
from profilerkit_predict.language_models.records import GeneratedTokens

from ..compat import VERSION
from ..model.modules import find_device, list_modules, set_inference_flags
from ..running.devices import describe_accelerators, require_values
from ..running.timed_passes import synchronize
from ..untouched.caller_context import apart, as_caller
from ..untouched.preservation import preserve
from .caches import list_contents
from .calls import cache_in, decode, prefill
from .models import find_dtype, is_configuration, longest_context, require_decoder, text_configuration

__all__ = ["generate"]


def generate(
    model: Any,
    prompt: int,
    new: int,
    batch: int,
    repetitions: int,
    clock: Callable[[], float] = time.perf_counter,
) -> GeneratedTokens:
    """Generate tokens greedily for random prompts, where the model is, and return the time of each token.

    One repetition more is run first and left out. Raises `WithoutValuesError` if the weights have no values, and
    `InputError` for a configuration, which has none either.
    """
    if is_configuration(model) or not is_configuration(getattr(model, "config", None)):
        raise InputError("measure=True: a model of transformers with values is needed; give one that was loaded")
    require_decoder(model)
    with apart():
        device = find_device(model)
        require_values(model, device)
        limit = longest_context(model.config)
        if limit is not None and prompt + new > limit:
            raise InputError(f"prompt={prompt} and new={new}: {type(model).__name__} takes {limit:,} tokens")
        with preserve(model, tensor_values=True), torch.no_grad():
            set_inference_flags(list_modules(model))
            vocabulary = int(text_configuration(model.config).vocab_size)
            generator = torch.Generator().manual_seed(0)
            tokens = torch.randint(vocabulary, (batch, prompt), generator=generator).to(device)
            with as_caller():
                _generation(model, tokens, min(new, 2), device, clock)
                results = [_generation(model, tokens, new, device, clock) for _ in range(repetitions)]
    return GeneratedTokens(
        prompt,
        batch,
        tuple(seconds for seconds, _ in results),
        str(device),
        find_dtype(model),
        results[-1][1],
        {"torch": VERSION, "threads": str(torch.get_num_threads()), **describe_accelerators()},
    )


def _generation(
    model: nn.Module, tokens: torch.Tensor, new: int, device: torch.device, clock: Callable[[], float]
) -> tuple[tuple[float, ...], int]:
    """Return the seconds until each token since the one before, and the bytes of the cache at the end."""
    seconds = []
    synchronize(device)
    before = clock()
    outputs = prefill(model, tokens)
    states = outputs  # an encoder's states are among the outputs of the prefill alone
    while True:
        name, cache = cache_in(model, outputs)
        token = outputs.logits[:, -1:].argmax(dim=-1)
        synchronize(device)
        after = clock()
        seconds.append(after - before)
        before = after
        if len(seconds) == new:
            break
        outputs = decode(model, token, name, cache, states)
    return tuple(seconds), list_contents(cache, tokens.shape[1] + new - 1, tokens.shape[0]).logical_bytes
