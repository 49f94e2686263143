"""The dimensions of one sample for layers of Equinox and Flax: one fewer than their weights have, or as many."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from profilerkit import ModelInputs
from profilerkit.backend_kit import samples
from profilerkit.backend_kit.samples import InputLayout
from profilerkit.trace.records import LayerRecord, ModelTrace

from .subject import Subject

__all__ = ["count_samples", "note_assumed_batch"]

_CONVOLUTIONS = tuple(f"Conv{kind}{rank}" for kind in ("", "Transpose") for rank in ("", "1d", "2d", "3d"))
_PRODUCTS = ("Dense", "GRUCell", "LSTMCell", "Linear")
_NORMALIZATIONS = ("LayerNorm", "RMSNorm")
#: Of Equinox, over the features of one sequence; Flax's have other names, and batches of any number of dimensions.
_ATTENTION = "MultiheadAttention"
#: Of Equinox, with the dimensions of one sample; Flax has no such layers.
_POOLINGS = {
    f"{kind}Pool{rank}d": InputLayout(rank + 1)
    for kind in ("AdaptiveAvg", "AdaptiveMax", "Avg", "Max")
    for rank in (1, 2, 3)
}
_GROUPS = "GroupNorm"
_ASSUMED = (
    "the inputs have one dimension, and no layer says whether it is the batch: it counts as a batch of {length}, "
    "though they may be one sample"
)


def count_samples(subject: Subject, inputs: ModelInputs, trace_model: Callable[[], ModelTrace]) -> int | None:
    """Return the number of samples in the inputs, None if no layer says it.

    ``trace_model`` is called only if an input may be a single sample.
    """
    shapes = _list_shapes(inputs)
    if not _may_have_one_sample(subject, shapes):
        return None
    try:
        trace = trace_model()
    except MemoryError:
        raise
    except Exception:  # the trace of the profile says why
        return None
    return _count_in_trace(trace, shapes)


def note_assumed_batch(trace: ModelTrace, inputs: ModelInputs) -> ModelTrace:
    """Add a note if inputs of one dimension count as a batch and no layer says so: they may be one sample."""
    shapes = [shape for shape in _list_shapes(inputs) if shape]
    lengths = {shape[0] for shape in shapes if len(shape) == 1}
    if len(lengths) != 1 or not trace.operators or any(len(shape) > 1 for shape in shapes):
        return trace
    if lengths == {1} or _count_in_trace(trace, shapes) is not None:
        return trace
    return replace(trace, notes=(*trace.notes, _ASSUMED.format(length=lengths.pop())))


def _count_in_trace(trace: ModelTrace, shapes: Collection[tuple[int, ...]]) -> int | None:
    pairs = ((layer.path, _find_layout(layer)) for layer in trace.layers)
    layouts = {path: layout for path, layout in pairs if layout is not None}
    return samples.count_samples(trace, layouts, shapes)


def _list_shapes(inputs: ModelInputs) -> list[tuple[int, ...]]:
    return [tuple(leaf.shape) for leaf in inputs.leaves() if hasattr(leaf, "shape")]


def _may_have_one_sample(subject: Subject, shapes: Collection[tuple[int, ...]]) -> bool:
    """Return whether a weight has as many dimensions as an input or one more, or a layer takes a sample of any."""
    if not {_GROUPS, *_POOLINGS}.isdisjoint(subject.types.values()):
        return True
    ranks = {len(leaf.value.shape) for leaf in subject.leaves}
    return any(shape and (len(shape) in ranks or len(shape) + 1 in ranks) for shape in shapes)


def _find_layout(layer: LayerRecord) -> InputLayout | None:
    """Return the input layout of a layer; None for a layer that shows nothing about samples.

    The weight of a convolution has one dimension more than a sample, two for channels instead of one. The weight of a
    product has two dimensions; a sample has at least its features, with any number of dimensions in front of them. The
    weight of a normalization has the dimensions that it normalizes over, which are at most the dimensions of a sample.
    """
    weight_rank = max((len(weight.shape) for weight in layer.parameters), default=0)
    if layer.type == _ATTENTION:
        return InputLayout(2, is_sequence=True)
    if layer.type == _GROUPS:
        return _find_layout_of_groups(layer)
    if layer.type in _NORMALIZATIONS:
        return InputLayout(weight_rank, only_single=True)
    if layer.type in _CONVOLUTIONS and weight_rank > 2:
        return InputLayout(weight_rank - 1)
    if layer.type in _PRODUCTS and weight_rank == 2:
        return InputLayout(1, only_single=True)
    return _POOLINGS.get(layer.type)


def _find_layout_of_groups(layer: LayerRecord) -> InputLayout | None:
    """Return that one sample has all dimensions, if the channels that Equinox has a "weight" for come first alone."""
    channels = next((weight.count for weight in layer.parameters if weight.name == "weight"), None)
    taken = layer.calls[0].inputs[0].shape if layer.calls else ()
    is_sample = channels in taken[:1] and channels not in taken[1:2]
    return InputLayout(len(taken)) if is_sample else None
