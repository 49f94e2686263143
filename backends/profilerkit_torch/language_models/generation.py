"""Real generation with the model's own cache, and the time of each token."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import InputError
from profilerkit.arguments.checks import at_least
from profilerkit_predict.language_models.facts.records import GeneratedTokens

from ..compat.names import VERSION
from ..model.inventory import Inventory
from ..model.modules import set_inference_flags
from ..running.devices import describe_accelerators, require_values
from ..running.timed_passes import synchronize
from ..untouched.caller_context import apart, as_caller
from ..untouched.preservation import preserve
from .caches import list_contents
from .calls import decode, find_cache, prefill
from .configurations import find_longest_context, find_text_configuration, is_configuration
from .generating import find_sound_positions, is_encoder_decoder, require_decoder
from .models import find_dtype

__all__ = ["generate"]


def generate(
    model: Any,
    prompt: int,
    new: int,
    batch: int,
    repetitions: int,
    clock: Callable[[], float] = time.perf_counter,
) -> GeneratedTokens:
    """Generate tokens greedily for random prompts, on the model's device, and return the time of each token.

    Two tokens are generated first and left out. Raises `WithoutValuesError` if the weights have no values, and
    `InputError` for a configuration, which has no weights.
    """
    for name, value in {"prompt": prompt, "new": new, "batch": batch, "repetitions": repetitions}.items():
        at_least(1)(name, value)
    _require_generating(model, prompt, new)
    with apart():
        inventory = Inventory(model)
        device = inventory.device
        require_values(inventory, device)
        with preserve(model, tensor_values=True, inventory=inventory), torch.no_grad():
            set_inference_flags(inventory.modules)
            vocabulary = int(find_text_configuration(model.config).vocab_size)
            generator = torch.Generator().manual_seed(0)
            tokens = torch.randint(vocabulary, (batch, prompt), generator=generator).to(device)
            with as_caller():
                _time_tokens(model, tokens, min(new, 2), clock)
                generations = [_time_tokens(model, tokens, new, clock) for _ in range(repetitions)]
    return GeneratedTokens(
        prompt,
        batch,
        tuple(generation.seconds for generation in generations),
        str(device),
        find_dtype(model),
        generations[-1].cache_bytes,
        {"torch": VERSION, "threads": str(torch.get_num_threads()), **describe_accelerators()},
    )


def _require_generating(model: Any, prompt: int, new: int) -> None:
    """Raise `InputError` for a model that cannot generate so many tokens after such a prompt, and for other values."""
    if is_configuration(model) or not is_configuration(getattr(model, "config", None)):
        raise InputError("measure=True: a model of transformers with values is needed; give one that was loaded")
    require_decoder(model)
    if find_sound_positions(model.config):
        raise InputError(f"measure=True: {type(model).__name__} takes sound, and prompts are of text; leave it out")
    limit = find_longest_context(model.config)
    if is_encoder_decoder(model.config):
        sequences = {"prompt is {:,} tokens": prompt, "new is {:,} tokens with the one that they begin with": 1 + new}
    else:
        sequences = {"prompt and new are {:,} tokens together": prompt + new}
    for sentence, tokens in sequences.items():
        if limit is not None and tokens > limit:
            raise InputError(f"{sentence.format(tokens)}: {type(model).__name__} takes {limit:,}")


class _Generation(NamedTuple):
    """The seconds that each token took, and the bytes of the cache at the end."""

    seconds: tuple[float, ...]
    cache_bytes: int


def _time_tokens(model: nn.Module, tokens: torch.Tensor, new: int, clock: Callable[[], float]) -> _Generation:
    """Generate so many tokens after a prompt."""
    batch, length = tokens.shape
    seconds: list[float] = []
    synchronize(tokens.device)
    begin = clock()
    outputs = of_prompt = prefill(model, tokens)
    while True:
        token = outputs.logits[:, -1:].argmax(dim=-1)
        synchronize(tokens.device)
        seconds.append(clock() - begin)
        name, cache = find_cache(model, outputs)
        if len(seconds) == new:
            break
        begin = clock()
        outputs = decode(model, token, name, cache, of_prompt)
    return _Generation(tuple(seconds), list_contents(cache, length + new - 1, batch).logical_bytes)
