"""The number of samples in the inputs of a model, whose first dimension need not be the batch.

Convolutions take one sample without a batch dimension, and recurrent and attention layers may have time first. The
first call of such a layer in a trace decides. It is evidence if the layer takes

- an input of the model as it is, or the features made of it;
- a batch that the model has made of one sample: ``x.unsqueeze(0)``;
- a batch that the model has made of a list of samples, as detectors take images.

Tensors that were reshaped or transposed in another way are no evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..trace.records import ModelTrace, TensorInfo

__all__ = ["InputLayout", "count_samples", "may_have_no_batch_first"]


Shape: TypeAlias = tuple[int, ...]


class InputLayout(NamedTuple):
    """The input layout of a layer: one sample, or a batch of samples.

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


def may_have_no_batch_first(layout: InputLayout, shapes: Collection[Shape]) -> bool:
    """Return whether a layer may take inputs of these shapes as anything but a batch along the first dimension."""
    if layout.only_single:
        return max(map(len, shapes), default=0) == layout.rank
    if layout.is_sequence and layout.batch != 0:
        return True
    return any(len(shape) <= layout.rank for shape in shapes)


def count_samples(
    trace: ModelTrace, layouts: Mapping[str, InputLayout], shapes: Collection[Shape], listed: int = 1
) -> int | None:
    """Return the number of samples in inputs of these shapes, None if no layer says it.

    ``layouts`` has the input layouts of layers by their paths, and ``trace`` the calls of the layers with these inputs.
    ``listed`` is how many tensors the list has that the model takes, if it takes one: images, for example.
    """
    for path, taken in _list_calls(trace):
        if path in layouts and taken and _is_telling(layouts[path], taken[0].shape, shapes):
            return _count_samples_of_layer(layouts[path], taken, shapes, listed)
    return None


def _list_calls(trace: ModelTrace) -> Iterator[tuple[str, Sequence[TensorInfo]]]:
    """Yield the path and the inputs of a layer for each call that has operators of its own, in the order of calls."""
    taken = {(layer.path, index): call.inputs for layer in trace.layers for index, call in enumerate(layer.calls)}
    for key in dict.fromkeys((operator.layer, operator.call) for operator in trace.operators):
        if key in taken:
            yield key[0], taken[key]


def _is_telling(layout: InputLayout, taken: Shape, shapes: Collection[Shape]) -> bool:
    """Return whether a layer with this layout, called with this shape, decides what the inputs are.

    A layer that shows only single samples decides nothing if an input has more dimensions than its sample: its vector
    may be shared by all samples of that input, such as the time step of a denoiser.
    """
    if not layout.only_single:
        return True
    if any(len(source) > layout.rank for source in shapes):
        return False
    return len(taken) <= layout.rank or _is_batch_of_one(layout, taken, shapes)


def _count_samples_of_layer(
    layout: InputLayout, taken: Sequence[TensorInfo], shapes: Collection[Shape], listed: int
) -> int | None:
    """Return the number of samples by the input of a layer; None if this was not made of the model's inputs."""
    shape = taken[0].shape
    if _is_batch_of_one(layout, shape, shapes):  # of each tensor of a list in turn, if the model takes one
        return listed if sum(len(source) == layout.rank for source in shapes) == listed else 1
    if _is_batch_of_list(layout, shape, shapes):
        return shape[0]
    if not _is_from_input(layout, taken, shapes):
        return None
    return 1 if len(shape) == layout.rank else shape[layout.batch]


def _is_from_input(layout: InputLayout, taken: Sequence[TensorInfo], shapes: Collection[Shape]) -> bool:
    """Return whether an input of the model has the dimensions of a layer's input, except for the features."""
    shape = taken[0].shape
    rank = len(shape)
    if not layout.is_sequence:
        return any(len(source) == rank and source[:1] == shape[:1] for source in shapes)
    is_packed = any(len(tensor.shape) == 1 for tensor in taken[1:])  # sequences of all samples in one row
    # Time and batch are dimensions of the input. The features are made in the model, and tokens have none.
    return not is_packed and any(
        len(source) in (rank, rank - 1) and source[: rank - 1] == shape[:-1] for source in shapes
    )


def _is_batch_of_one(layout: InputLayout, taken: Shape, shapes: Collection[Shape]) -> bool:
    """Return whether a layer takes a batch of one, which was made of an input that has fewer dimensions."""
    if len(taken) <= layout.rank or taken[layout.batch] != 1:
        return False
    return any(len(source) < len(taken) and _drop_ones(source) == _drop_ones(taken) for source in shapes)


def _drop_ones(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]


def _is_batch_of_list(layout: InputLayout, taken: Shape, shapes: Collection[Shape]) -> bool:
    """Return whether a convolution takes a batch with a place for each input that is one sample, of whatever size.

    For example, the images of a list, (3, 480, 640) and (3, 600, 600), are scaled and joined to (2, 3, 800, 800).
    """
    if layout.is_sequence or layout.only_single or len(taken) != layout.rank + 1:
        return False
    singles = [shape for shape in shapes if len(shape) == layout.rank]
    return len(singles) == taken[0] and all(shape[0] == taken[1] for shape in singles)
