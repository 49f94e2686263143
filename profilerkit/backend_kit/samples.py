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
    calls = (
        _Call(layouts[path], tensors, shapes) for path, tensors in _list_calls(trace) if path in layouts and tensors
    )
    call = next((call for call in calls if call.is_evidence), None)
    if call is None:
        return None
    rank, shape = call.layout.rank, call.shape
    if call.takes_batch_of_one:
        # The model makes it of each tensor of a list in turn, if it takes a list of single samples.
        singles = sum(len(source) == rank for source in shapes)
        return listed if singles == listed else 1
    if call.takes_batch_of_list:
        return shape[0]
    if not call.takes_input:
        return None
    return 1 if len(shape) == rank else shape[call.layout.batch]


def _list_calls(trace: ModelTrace) -> Iterator[tuple[str, Sequence[TensorInfo]]]:
    """Yield the path and the inputs of a layer for each call that has operators of its own, in the order of calls."""
    inputs = {(layer.path, index): call.inputs for layer in trace.layers for index, call in enumerate(layer.calls)}
    for key in dict.fromkeys((operator.layer, operator.call) for operator in trace.operators):
        if key in inputs:
            yield key[0], inputs[key]


class _Call(NamedTuple):
    """A call of a layer.

    Attributes:
        layout: The input layout of the layer.
        inputs: The tensors that it takes.
        sources: The shapes of the inputs of the model.
    """

    layout: InputLayout
    inputs: Sequence[TensorInfo]
    sources: Collection[Shape]

    @property
    def shape(self) -> Shape:
        """The shape of the first tensor that it takes."""
        return self.inputs[0].shape

    @property
    def is_evidence(self) -> bool:
        """Whether it says what the inputs of the model are.

        A layer that shows only single samples says nothing if an input has more dimensions than its sample: its vector
        may be shared by all samples of that input, such as the time step of a denoiser.
        """
        if not self.layout.only_single:
            return True
        if any(len(source) > self.layout.rank for source in self.sources):
            return False
        return len(self.shape) <= self.layout.rank or self.takes_batch_of_one

    @property
    def takes_batch_of_one(self) -> bool:
        """Whether it takes a batch of one, which was made of an input that has fewer dimensions."""
        if len(self.shape) <= self.layout.rank or self.shape[self.layout.batch] != 1:
            return False
        sizes = _drop_ones(self.shape)
        return any(len(source) < len(self.shape) and _drop_ones(source) == sizes for source in self.sources)

    @property
    def takes_batch_of_list(self) -> bool:
        """Whether a convolution takes a batch with a place for each input that is one sample, of whatever size.

        For example, the images of a list, (3, 480, 640) and (3, 600, 600), are scaled and joined to (2, 3, 800, 800).
        """
        rank = self.layout.rank
        if self.layout.is_sequence or self.layout.only_single or len(self.shape) != rank + 1:
            return False
        number, channels = self.shape[:2]
        singles = [source for source in self.sources if len(source) == rank]
        return len(singles) == number and all(source[0] == channels for source in singles)

    @property
    def takes_input(self) -> bool:
        """Whether an input of the model has the dimensions of the layer's input, except for the features."""
        rank = len(self.shape)
        if not self.layout.is_sequence:
            return any(len(source) == rank and source[:1] == self.shape[:1] for source in self.sources)
        if any(len(tensor.shape) == 1 for tensor in self.inputs[1:]):  # sequences of all samples in one row
            return False
        # Time and batch are dimensions of the input. The features are made in the model, and tokens have none.
        around = self.shape[:-1]
        return any(len(source) in (rank, rank - 1) and source[: rank - 1] == around for source in self.sources)


def _drop_ones(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]
