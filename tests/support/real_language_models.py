"""Language models of transformers that run with values, as oracles: the bytes of their caches, and their products.

Nothing of the library is used here: a cache is walked through anew, and torch's own counter counts the products.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
)
from transformers.modeling_outputs import MoEModelOutput

__all__ = ["RealModel"]

#: What outputs call a cache.
_CACHES = ("past_key_values", "cache_params", "state", "past_buckets_states", "mems")


def _count_attention(queries: Any, keys: Any, values: Any, *_: Any, **__: Any) -> Any:
    """Return the FLOPs of fused attention, by the shapes (batch, heads, tokens, size)."""
    batch, heads, tokens, size = queries
    return 2 * batch * heads * tokens * keys[2] * (size + values[3])


#: What torch's counter leaves out: fused attention on the CPU, which some models call whatever they are told.
_BESIDES: dict[Any, Any] = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _count_attention}


class RealModel:
    """A small model with random values on the CPU, each token of which goes through the experts that it is sent to."""

    def __init__(self, config: Any) -> None:
        self.is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
        torch.manual_seed(0)
        implementations = {"attn_implementation": "eager", "experts_implementation": "eager"}
        # transformers writes the implementations into the configuration
        self.model = _find_kind(config).from_config(copy.deepcopy(config), **implementations).eval()
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())

    def count_cache_bytes(self, tokens: int, source: int) -> int:
        """Return the bytes of the cache after so many tokens; ``source`` are those of an encoder."""
        cache = self._run(tokens, source)[1]
        return sum(tensor.numel() * tensor.element_size() for tensor in _walk(cache, set()))

    def count_macs(self, tokens: int, cached: int, source: int) -> int:
        """Return the multiply-accumulates of so many tokens after those that are cached, the head for the last one."""
        past = self._run(cached, source) if cached else None
        with FlopCounterMode(display=False, custom_mapping=_BESIDES) as counter:
            self._run(tokens, source, past)
        return int(counter.get_total_flops()) // 2

    def _run(self, tokens: int, source: int, past: tuple[str, Any, Any] | None = None) -> tuple[str, Any, Any]:
        """Return the name of the cache, the cache, and all outputs."""
        words = torch.arange(tokens).reshape(1, -1) % 90 + 3
        options: dict[str, Any] = {"use_cache": True} | ({past[0]: past[1]} if past else {})
        if self.is_encoder_decoder:
            options["decoder_input_ids"] = words
            if past:
                options["encoder_outputs"] = MoEModelOutput(last_hidden_state=past[2].encoder_last_hidden_state)
            elif self.model.main_input_name == "input_features":
                options["input_features"] = torch.zeros(1, self.model.config.num_mel_bins, 2 * source)
            else:
                options["input_ids"] = torch.arange(source).reshape(1, -1) % 90 + 3
        else:
            options["input_ids"] = words
        with torch.no_grad():
            outputs = self.model(**options)
        name = next(name for name in _CACHES if outputs.get(name) is not None)
        return name, outputs[name], outputs


def _find_kind(config: Any) -> Any:
    """Return the class of transformers that makes the whole model of a configuration."""
    kinds: list[Any] = [
        AutoModelForImageTextToText,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSpeechSeq2Seq,
    ]
    if not hasattr(config, "text_config"):
        kinds = kinds[1:]
    if getattr(config, "is_encoder_decoder", False):
        kinds.reverse()
        kinds.sort(key=lambda kind: kind is not AutoModelForSeq2SeqLM)
    return next(kind for kind in kinds if type(config) in kind._model_mapping)


def _walk(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Yield the tensors of a cache with more than one element, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        if value.numel() > 1:
            yield value
    elif isinstance(value, dict):
        yield from (tensor for inner in value.values() for tensor in _walk(inner, seen))
    elif isinstance(value, (list, tuple)):
        yield from (tensor for inner in value for tensor in _walk(inner, seen))
    elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.dtype, torch.device, torch.nn.Module)):
        yield from _walk(vars(value), seen)
