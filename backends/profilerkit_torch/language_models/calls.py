"""The calls of a language model: a prefill, and steps of one token through the cache that the prefill returned."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from profilerkit import InputError
from profilerkit_predict.language_models.facts.model_cache import CacheContents

from .caches import list_contents, list_layer_windows
from .generating import is_encoder_decoder, require_decoder

__all__ = ["Calls", "decode", "find_cache", "prefill"]


class Calls:
    """Runs a prefill and ``steps`` steps of a model, and keeps the contents of their caches as plain numbers.

    After `run`, ``contents`` has the contents of the cache after each pass, and ``windows`` the windows of its layers.
    If the model returns no cache, ``error`` says so, and no step is made.
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
        if not self.contents[0].tensors:
            self.error = InputError(
                f"{type(model).__name__} returned a cache in which no tensor is found: {type(cache).__name__}; give a "
                "model whose cache has them as attributes or items"
            )
            return outputs.logits
        for step in range(1, self.steps + 1):
            later = decode(model, tokens[:, :1], name, cache, outputs)
            _, cache = find_cache(model, later)
            self.contents.append(list_contents(cache, seen + step, batch, source))
        return outputs.logits


def prefill(model: Any, tokens: torch.Tensor, sound: torch.Tensor | None = None) -> Any:
    """Return the outputs of the model for a prompt; only the logits of the last token if it can leave out others."""
    parameters = inspect.signature(model.forward).parameters
    options: dict[str, Any] = {"use_cache": True}
    if "logits_to_keep" in parameters:
        options["logits_to_keep"] = 1
    if is_encoder_decoder(model.config):
        options["decoder_input_ids"] = tokens[:, :1]
    return model(tokens if sound is None else sound, **options)


def decode(model: Any, token: torch.Tensor, name: str, cache: Any, before: Mapping[str, Any]) -> Any:
    """Return the outputs of the model for one more token of each sequence.

    ``name`` is the name by which the model takes its cache. ``before`` has its outputs for the prompt, with the states
    of the encoder of an encoder-decoder.
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

    The cache is an output with the name of an input. Transformers 5.24 has given it another name, and some models have
    a name of their own.
    """
    parameters = inspect.signature(model.forward).parameters
    for name, value in outputs.items():
        is_input = isinstance(value, torch.Tensor) or name.endswith("hidden_states")  # a mask, an encoded image
        if name in parameters and value is not None and not is_input:
            return name, value
    require_decoder(model)
    raise InputError(
        f"{type(model).__name__} returned no cache although use_cache=True was given; its outputs are "
        f"{', '.join(outputs.keys())}. llm follows a model through its own cache: give one that has it"
    )
