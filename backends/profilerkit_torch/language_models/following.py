"""A language model followed through prefill and one step, on shapes alone: its counts, its cache, its weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.error_text import error_line
from profilerkit.trace.records import OpRecord
from profilerkit_predict.checkpoints.placing import Placement, place_tensors
from profilerkit_predict.checkpoints.quantization import Formats, read_formats
from profilerkit_predict.checkpoints.safetensors import read_safetensors_folder
from profilerkit_predict.language_models.growth import find_growth, needs_third_length
from profilerkit_predict.language_models.laws import find_terms, split_phases
from profilerkit_predict.language_models.records import CacheContents, CacheLayer, ModelFacts, PassCounts
from profilerkit_predict.language_models.shapes import find_shapes
from profilerkit_predict.language_models.weights import count_unrouted_macs, weight_parts

from ..model.weights import note_quantization
from ..trace.tracing import trace_model
from .calls import Calls
from .models import (
    cache_repeats,
    describe_execution,
    find_dtype,
    find_folder,
    find_quantization,
    find_routing,
    find_windows,
    language_model,
    latent_attention,
    longest_context,
    require_decoder,
    text_configuration,
)

__all__ = ["cache_after", "find_facts"]

#: The fewest tokens of a prompt that tell one law from another, and those that recurrent layers are traced with: their
#: reference code runs a loop over the tokens.
_FEWEST, _RECURRENT = 4, 16
#: A third length of a cache: so many times the first, long enough to tell a stride of 128 tokens from others; and the
#: one for recurrent layers.
_THIRD, _THIRD_RECURRENT = 32, 2 * _RECURRENT + 1
#: What configurations call the sizes of recurrent states.
_RECURRENT_SIZES = ("state_size", "ssm_state_size", "mamba_d_state", "attention_hidden_size")


def find_facts(
    model: Any, prompt: int, dtype: str | None = None, name: str | None = None, batch: int = 1
) -> ModelFacts:
    """Return what is found out about a language model by one pass over a prompt and one token after it."""
    followed = language_model(model, dtype)
    require_decoder(followed)
    length, notes = _choose_length(followed, prompt)
    trace, calls = _trace(followed, length, batch, 1)
    first, second = split_phases(trace)[:2]
    operators = [[trace.operators[index] for index in phase] for phase in (first, second)]
    windows = find_windows(followed, calls.windows)
    terms, strangers = find_terms(*operators, batch=batch, prompt=length, windows=windows)
    config, routing = followed.config, find_routing(followed.config)
    formats, unknown_storage = _read_formats(config)
    placement = _place_files(trace, config)
    if placement is not None:
        unknown_storage = ""
        if not placement.layers:
            formats = read_formats(None)
    packed = placement.layers if placement else None
    weights = weight_parts(trace, operators[1], batch, _head(followed, trace), routing, formats, packed)
    unrouted = count_unrouted_macs(trace, operators[1], batch, routing)
    cache_layers = _cache_layers(followed, calls.contents)
    has_experts = any(part.kind == "experts" for part in weights)
    is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    notes += _notes(strangers, is_encoder_decoder, unrouted, trace)
    notes += _note_files(placement)
    cached = 1 if is_encoder_decoder else length
    unquantized = tuple(note_quantization(followed))  # no remark here: the bytes of ``stored`` are counted
    return ModelFacts(
        name=name or type(followed).__name__,
        execution=describe_execution(followed, has_experts),
        parameters=trace.total_params,
        weights=weights,
        dtype=find_dtype(followed),
        vocabulary=int(getattr(text_configuration(config), "vocab_size", 0)),
        longest_context=longest_context(config),
        traced_prompt=length,
        prefill=_counts("prefill", trace, first, batch, length, 0, calls.contents[0]),
        decode=_counts("decode", trace, second, batch, 1, cached, calls.contents[1]),
        terms=terms,
        cache=tuple(calls.contents),
        cache_layers=cache_layers,
        latent=latent_attention(followed, cache_layers),
        is_encoder_decoder=is_encoder_decoder,
        notes=(*notes, *(note for note in trace.notes if note not in unquantized)),
        unrouted_macs=unrouted,
        unknown_storage=unknown_storage,
        cache_repeats=cache_repeats(followed, calls.contents[0]),
        shapes_by=None
        if is_encoder_decoder or unrouted
        else partial(find_shapes, *operators, batch=batch, prompt=length, windows=windows),
        passes_by=partial(_split_passes, trace, operators),
    )


def _read_formats(config: Any) -> tuple[Formats, str]:
    """Return the formats of the weights by a configuration, and why they are not known; empty if they are."""
    try:
        return read_formats(find_quantization(config)), ""
    except InputError as error:
        return read_formats(None), str(error)


def _place_files(trace: ModelTrace, config: Any) -> Placement | None:
    """Return where the tensors of the files beside a configuration belong; None without files, or for other names."""
    folder = find_folder(config)
    tensors = read_safetensors_folder(folder) if folder is not None else ()
    layers = {
        layer.path: any(len(weight.shape) == 3 for weight in layer.parameters)
        for layer in trace.layers
        if layer.parameters and layer.path
    }
    placement = place_tensors(tensors, layers)
    total = sum(tensor.bytes for tensor in tensors)
    return placement if tensors and 2 * placement.left_over < total else None


def _note_files(placement: Placement | None) -> Iterator[str]:
    """Yield what the files of a checkpoint told."""
    if placement is not None:
        yield "the bytes of packed weights are those of the checkpoint's files"
        if placement.left_over:
            yield f"{placement.left_over:,} bytes of these files are of no layer of this model, and not counted"


def _notes(strangers: Sequence[str], is_encoder_decoder: bool, unrouted: int, trace: ModelTrace) -> Iterator[str]:
    """Yield what a reader of the numbers must know."""
    if is_encoder_decoder:
        yield _ENCODER_DECODER
    elif strangers:
        yield _SPLIT.format(layers=_brief(strangers))
    if unrouted:
        yield _UNROUTED
    if trace.uncounted:
        yield f"not counted, so that counts are lower bounds: {', '.join(trace.missing)}"


def _cache_layers(model: nn.Module, contents: Sequence[CacheContents]) -> tuple[CacheLayer, ...]:
    """Return how the cache of a model grows; a cache that two lengths do not explain is looked at at a third."""
    before, after = contents[:2]
    chosen = getattr(text_configuration(model.config), "index_topk", None)
    later = None
    if needs_third_length(before, after):
        length = _THIRD_RECURRENT if _is_recurrent(model) else _THIRD * before.context - 1
        limit = longest_context(model.config)
        calls = _trace(model, min(length, limit or length), before.batch, 0)[1]
        later = calls.contents[0]
    return find_growth(before, after, later, chosen)


def _split_passes(trace: ModelTrace, operators: Sequence[Sequence[OpRecord]]) -> tuple[ModelTrace, ...]:
    """Return the traces of both passes."""
    return tuple(_take_pass(trace, phase, index) for index, phase in enumerate(operators))


def _take_pass(trace: ModelTrace, operators: Sequence[OpRecord], index: int) -> ModelTrace:
    """Return the trace of one of both passes: its operators, and of the calls of each layer its half."""
    layers = []
    for layer in trace.layers:
        half = len(layer.calls) // 2
        calls = layer.calls[:half] if index == 0 else layer.calls[half:]
        layers.append(replace(layer, calls=calls))
    return ModelTrace(tuple(layers), tuple(operators), uncounted=trace.uncounted)


_SPLIT = (
    "the work of some layers follows no law of tokens and pairs ({layers}): prefill is taken to grow with the tokens, "
    "from the traced prompt; a step is as traced"
)
_UNROUTED = (
    "the library's code runs every expert for each token; the engine's numbers are of those that a token is sent to by "
    "the configuration"
)
_ENCODER_DECODER = (
    "the prompt goes to the encoder, and its work and the cross attention are those of the traced prompt; the "
    "decoder's own attention is taken as in its second token, so that later steps are lower bounds"
)


def cache_after(model: Any, context: int, batch: int, dtype: str | None) -> tuple[CacheContents, CacheContents]:
    """Return the contents of the cache that a model returns after so many tokens, and after one more."""
    followed = language_model(model, dtype)
    require_decoder(followed)
    before, after = _trace(followed, context, batch, 1)[1].contents
    return before, after


def _choose_length(model: Any, prompt: int) -> tuple[int, list[str]]:
    """Return the tokens of the prompt to trace, and a note if they are not those that were requested."""
    if _is_recurrent(model) and prompt > _RECURRENT:
        return _RECURRENT, [
            f"traced with a prompt of {_RECURRENT} tokens, for its recurrent layers loop over them; longer ones follow "
            "from its laws"
        ]
    if prompt < _FEWEST:
        return _FEWEST, [f"traced with a prompt of {_FEWEST} tokens; shorter ones follow from its laws"]
    return prompt, []


def _is_recurrent(model: Any) -> bool:
    """Return whether a model has recurrent layers, by its configuration or the cache that transformers makes."""
    from transformers import cache_utils

    if any(getattr(model.config, name, None) for name in _RECURRENT_SIZES):
        return True

    recurrent = getattr(cache_utils, "LinearAttentionCacheLayerMixin", None)
    if recurrent is None or getattr(model.config, "is_encoder_decoder", False):
        return False
    try:
        layers = cache_utils.DynamicCache(config=model.config).layers
    except MemoryError:
        raise
    except Exception:  # a configuration that it cannot read: then nothing is known beforehand
        return False
    return any(isinstance(layer, recurrent) for layer in layers)


def _trace(model: nn.Module, length: int, batch: int, steps: int) -> tuple[ModelTrace, Calls]:
    calls = Calls(steps)
    tokens = torch.empty(batch, length, dtype=torch.int64, device="meta")
    trace = trace_model(model, ModelInputs(tokens).given_to(calls.run))
    if calls.error is not None:
        raise calls.error
    if trace.failure is not None or len(calls.contents) != steps + 1:
        raise InputError(
            f"{type(model).__name__} cannot be followed through a prompt of {length:,} tokens and {steps} more: "
            f"{_reason(trace.failure)}"
        ) from trace.failure
    return replace(trace, program=None), calls


def _reason(failure: Exception | None) -> str:
    """Return why a model was not followed: what it raised itself, not what a pass makes of its inputs."""
    if failure is None:
        return "it made no cache"
    cause = failure.__cause__
    return error_line(failure) if cause is None else f"it raised {type(cause).__name__}: {error_line(cause)}"


def _counts(
    phase: str, trace: ModelTrace, indices: Sequence[int], batch: int, new: int, cached: int, contents: CacheContents
) -> PassCounts:
    operators = [trace.operators[index] for index in indices]
    live = max((trace.memory.live_bytes[index] for index in indices), default=0)
    return PassCounts(
        phase,
        batch,
        new,
        cached,
        sum(operator.macs for operator in operators),
        sum(operator.flops for operator in operators),
        sum(operator.bytes_read for operator in operators),
        sum(operator.bytes_written for operator in operators),
        max(live - contents.allocated_bytes, 0),
        len(operators),
        dict(trace.uncounted),
    )


def _head(model: Any, trace: ModelTrace) -> int | None:
    """Return the identity of the weight that makes logits, in the trace."""
    output = model.get_output_embeddings()
    path = next((path for path, module in model.named_modules() if module is output), None)
    records = [layer for layer in trace.layers if layer.path == path]
    weights = [weight for layer in records for weight in layer.parameters if weight.name == "weight"]
    return weights[0].identity if weights else None


def _brief(paths: Sequence[str]) -> str:
    return f"{', '.join(paths[:2])} and {len(paths) - 2} more" if len(paths) > 3 else ", ".join(paths)
