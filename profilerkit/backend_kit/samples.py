"""How many samples the inputs of a model are, where their first dimension need not be the batch.

Convolutions take one sample without a batch dimension, and recurrent and attention layers may have time first. The
first such layer that a trace reaches decides, if it takes what the model was given, or a batch that the model has made
of one sample, ``x.unsqueeze(0)``, or of a list of them, as detectors take images. What has been reshaped or transposed
otherwise says nothing about the inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ..trace.records import ModelTrace, TensorInfo

__all__ = ["InputLayout", "count_samples", "may_have_no_batch_first"]


class InputLayout(NamedTuple):
    """What a layer takes: one sample, or a batch of them.

    Attributes:
        rank: The number of dimensions of one sample.
        batch: The dimension of the samples in a batch.
        is_sequence: Whether it takes features over time.
        only_single: Whether a batch may have any number of dimensions, so that only one sample can be recognized.
    """

    rank: int
    batch: int = 0
    is_sequence: bool = False
    only_single: bool = False


def may_have_no_batch_first(layout: InputLayout, shapes: Collection[tuple[int, ...]]) -> bool:
    """Return whether a layer may take inputs of these shapes as anything but a batch along the first dimension."""
    if layout.is_sequence:
        return layout.batch != 0 or any(len(shape) <= layout.rank for shape in shapes)
    if layout.only_single:
        return any(len(shape) == layout.rank for shape in shapes)
    return any(len(shape) <= layout.rank for shape in shapes)


def count_samples(
    trace: ModelTrace, layouts: Mapping[str, InputLayout], shapes: Collection[tuple[int, ...]]
) -> int | None:
    """Return the number of samples in inputs of these shapes, None if no layer says it.

    ``layouts`` has what layers take by their paths, and ``trace`` the calls of the layers with these inputs.
    """
    calls = {layer.path: layer.calls for layer in trace.layers}
    order_of_calls = dict.fromkeys((operator.layer, operator.call) for operator in trace.operators)
    for path, index in order_of_calls:
        if path not in layouts or not 0 <= index < len(calls[path]):
            continue
        layout, taken = layouts[path], calls[path][index].inputs
        if taken and any(_is_made_batch(layout, taken[0].shape, shape) for shape in shapes):
            return 1
        if taken and _is_joined(layout, taken[0].shape, shapes):
            return taken[0].shape[0]
        if taken and not (layout.only_single and len(taken[0].shape) > layout.rank):
            return _count_samples_of_layer(layout, taken, shapes)
    return None


def _count_samples_of_layer(
    layout: InputLayout, taken: Sequence[TensorInfo], shapes: Collection[tuple[int, ...]]
) -> int | None:
    """Return the samples that a layer took; None unless an input of the model has the dimensions of the layer's."""
    shape = taken[0].shape
    rank = len(shape)
    if not layout.is_sequence:
        is_from_input = any(len(source) == rank and source[:1] == shape[:1] for source in shapes)
    else:
        is_packed = any(len(tensor.shape) == 1 for tensor in taken[1:])  # sequences of all samples in one row
        steps = shape[:-1]  # time and batch; the features are made in the model, and tokens have none
        is_from_input = not is_packed and any(
            len(source) in (rank, rank - 1) and source[: rank - 1] == steps for source in shapes
        )
    if not is_from_input:
        return None
    return 1 if rank == layout.rank else shape[layout.batch]


def _is_made_batch(layout: InputLayout, taken: tuple[int, ...], source: tuple[int, ...]) -> bool:
    """Return whether a layer takes a batch of one, which was made of an input that has fewer dimensions."""
    if len(taken) <= max(len(source), layout.rank) or taken[layout.batch] != 1:
        return False
    return [size for size in taken if size != 1] == [size for size in source if size != 1]


def _is_joined(layout: InputLayout, taken: tuple[int, ...], shapes: Collection[tuple[int, ...]]) -> bool:
    """Return whether a convolution takes a batch with a place for each input that is one sample, of whatever size.

    For example, the images of a list, (3, 480, 640) and (3, 600, 600), are scaled and joined to (2, 3, 800, 800).
    """
    singles = [shape for shape in shapes if len(shape) == layout.rank]
    if layout.is_sequence or layout.only_single or len(taken) != layout.rank + 1:
        return False
    return len(singles) == taken[0] and all(shape[0] == taken[1] for shape in singles)
