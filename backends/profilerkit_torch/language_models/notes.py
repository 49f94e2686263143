"""Notes for the reader on the numbers of a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from profilerkit import ModelTrace
from profilerkit.count_text import list_some
from profilerkit.trace.conditions import write_notes
from profilerkit_predict.language_models.facts.laws import Passes, split_phases
from profilerkit_predict.language_models.facts.records import ReadIn
from profilerkit_predict.language_models.facts.weights import find_passes

from ..model.packed_weights import note_quantization
from .configurations import find_longest_context
from .following import follow
from .generating import is_encoder_decoder

__all__ = ["list_notes", "list_notes_on_text", "list_notes_on_trace"]

_SPLIT = (
    "the work of some layers follows no law of tokens and pairs ({layers}): prefill is taken to grow with the tokens, "
    "from the traced prompt; a step is as traced"
)
_GROWING = (
    "the work of a step grows with the cache in these layers, by no law that is known here: a step counts as after the "
    "traced prompt, so that its work is a lower bound for longer ones"
)
_UNROUTED = (
    "the library's code runs every expert for each token; the engine's numbers are of those that a token is sent to by "
    "the configuration"
)
_UNREAD = (
    "{count:,} parameters of layers that text does not go through ({layers}) take memory, and no step reads them; "
    "where they are for images or sound, images= (--images) or audio= (--audio) counts the work for those"
)
_ENCODER_DECODER = (
    "the prompt goes to the encoder, and its work and the cross attention are those of the traced prompt; the "
    "decoder's own attention is taken as in its second token, so that later steps are lower bounds"
)


def list_notes(
    model: Any, passes: Passes, strangers: Sequence[str], trace: ModelTrace, is_unrouted: bool
) -> Iterator[str]:
    """Yield notes on how the work grows.

    The work of the ``strangers`` among the layers follows no law. With ``is_unrouted`` the library runs experts that a
    token is not sent to.
    """
    has_encoder = is_encoder_decoder(model.config)
    if has_encoder:
        yield _ENCODER_DECODER
    elif strangers:
        yield _SPLIT.format(layers=list_some(strangers, 2))
    if is_unrouted:
        yield _UNROUTED
    if trace.uncounted:
        yield f"not counted, so that counts are lower bounds: {', '.join(trace.missing)}"
    if strangers and not has_encoder and _does_step_grow(model, strangers, passes):
        yield _GROWING


def _does_step_grow(model: Any, strangers: Sequence[str], passes: Passes) -> bool:
    """Return whether a step takes more work in some layers after a prompt of twice the length."""
    longest = find_longest_context(model.config) or 2 * passes.prompt + 1
    trace, _ = follow(model, min(2 * passes.prompt, longest - 1), passes.batch, 1)
    later = [trace.operators[index] for index in split_phases(trace)[1]]
    layers = set(strangers)
    before = sum(operator.macs for operator in passes.decode if operator.layer in layers)
    after = sum(operator.macs for operator in later if operator.layer in layers)
    return after > before


def list_notes_on_trace(model: nn.Module, trace: ModelTrace) -> Iterator[str]:
    """Yield the notes of a trace, except notes on quantization: the bytes of stored weights are counted."""
    on_quantization = tuple(note_quantization(model))
    yield from (note for note in trace.notes if note not in on_quantization)
    yield from write_notes(trace.conditions)


def list_notes_on_text(trace: ModelTrace) -> Iterator[str]:
    """Yield a note that names the layers that text does not go through."""
    passes = find_passes(trace)
    unread = [layer for layer in trace.layers if passes[layer.path] is ReadIn.NONE]
    count = sum(weight.count for layer in unread for weight in layer.parameters)
    if count:
        outermost = [layer.path for layer in unread if passes[layer.path.rpartition(".")[0]] is not ReadIn.NONE]
        yield _UNREAD.format(count=count, layers=list_some(outermost, 2))
