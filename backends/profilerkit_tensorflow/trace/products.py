"""Operators that together are one product: dilated convolutions, and rows that are weighted and summed up.

TensorFlow writes a dilated convolution as a dense one. ``SpaceToBatchND`` pads the input until the block divides it,
and ``BatchToSpaceND`` crops the results from the padding. Neither is part of the convolution: only the elements that
are left count. A kernel of 3 that is dilated by 2, without padding of its own, makes 7 elements of 11::

    x               (1, 11, c)
    SpaceToBatchND  (2, 6, c)   padded to 12: the elements at even positions, and the elements at odd positions
    Conv2D          (2, 4, f)   dense: 8 elements are computed
    BatchToSpaceND  (1, 7, f)   one of them is cropped: 7/8 of the convolution count

The gradients, and transposed convolutions, take such elements as their third input: ``SpaceToBatchND`` makes (2, 4, f)
of (1, 7, f), and 7/8 of them count.

``tf.nn.embedding_lookup_sparse`` gathers rows from a table, multiplies each by a weight, and sums them up: a product
with a sparse matrix, which costs a multiply-accumulate for each number of the rows, as ``SparseTensorDenseMatMul``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial

from .tensor_facts import Tensor
from .values import Executed

__all__ = ["Products"]

#: Operators whose output has the elements of their first input.
_VIEWS = (
    *("Bitcast", "Cast", "EnsureShape", "ExpandDims", "Identity", "ReadVariableOp"),
    *("Reshape", "Squeeze", "StopGradient", "Transpose"),
)
#: Operators that read the shape of a tensor, and none of its elements.
_SHAPES = ("Shape", "ShapeN", "Size", "Rank")
_READING_NOTHING = frozenset((*_VIEWS, *_SHAPES))

_TO_BATCH = ("SpaceToBatchND", "SpaceToBatch")
_TO_SPACE = ("BatchToSpaceND", "BatchToSpace")
#: Convolutions whose cost is by the element of their output.
_CONVOLUTIONS = ("Conv", "Conv2D", "Conv3D", "DepthwiseConv2dNative")
#: Gradients, and thus transposed convolutions, whose cost is by the element of their third input: that same output.
_GRADIENTS = tuple(
    f"{name}Backprop{side}{version}"
    for name in ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
    for side in ("Input", "Filter")
    for version in ("", "V2")
)

_GATHERS = ("Gather", "GatherV2", "ResourceGather")
_SUMS = ("SegmentSum", "SegmentSumV2", "UnsortedSegmentSum")


class Products:
    """Notes each operator of a body, in the order of their running; `apply` then corrects the costs of products."""

    def __init__(self) -> None:
        #: The operator that has made the elements of a value, by the number of the value.
        self._makers: dict[int, Executed] = {}
        #: How many readers the elements that an operator has made have.
        self._readers: Counter[Executed] = Counter()
        #: The share of the padded elements that are no padding, by the operator that has padded them.
        self._shares: dict[Executed, Fraction] = {}
        #: Multiplications of gathered rows with a weight each.
        self._weighted: set[Executed] = set()
        self._corrections: list[Callable[[], None]] = []

    def note(self, latest: Executed) -> None:
        """Note an operator that has just run."""
        inputs, kind = latest.inputs, latest.operator
        makers = [self._makers.get(tensor.number) for tensor in inputs]
        first = makers[0] if makers else None
        if kind not in _READING_NOTHING:
            self._readers.update({maker for maker in makers if maker is not None})
        if kind in _TO_BATCH:
            self._note_share(latest, inputs[0], latest.outputs[0])
        elif kind in _TO_SPACE and first is not None and first.operator in _CONVOLUTIONS:
            self._note_share(latest, latest.outputs[0], inputs[0])
            self._corrections.append(partial(self._leave_out_cropped, first, latest))
        elif kind in _GRADIENTS and makers[2] in self._shares:
            self._corrections.append(partial(latest.scale, self._shares[makers[2]]))
        elif kind == "Mul" and any(maker is not None and maker.operator in _GATHERS for maker in makers):
            self._weighted.add(latest)
        elif kind in _SUMS and first in self._weighted:
            self._corrections.append(partial(_count_as_product, first, latest))
        maker = first if first is not None and kind in _VIEWS else latest
        self._makers.update((tensor.number, maker) for tensor in latest.outputs)

    def note_readers(self, numbers: Iterable[int]) -> None:
        """Note that something beside the operators reads these values: the caller, for one, takes the results."""
        self._readers.update(self._makers[number] for number in numbers if number in self._makers)

    def apply(self) -> None:
        """Count the found operators as the products that they stand for, after each operator has its own cost."""
        for correct in self._corrections:
            correct()

    def _note_share(self, operator: Executed, kept: Tensor, padded: Tensor) -> None:
        """Note the share of padded elements that are kept, if the sizes are known."""
        if kept.known_shape is not None and padded.known_shape is not None and padded.known_shape.numel:
            self._shares[operator] = Fraction(kept.known_shape.numel, padded.known_shape.numel)

    def _leave_out_cropped(self, convolution: Executed, cropping: Executed) -> None:
        """Count the share of a convolution's output that is not cropped; all if anything else reads the output."""
        if self._readers[convolution] == 1 and cropping in self._shares:
            convolution.scale(self._shares[cropping])


def _count_as_product(multiplied: Executed, summed: Executed) -> None:
    """Make a multiplication and the sum over it one product, which has the operations of both."""
    multiplied.flops += summed.flops
    multiplied.macs = multiplied.flops // 2
    summed.flops = 0
