"""Products that TensorFlow runs as several operators, in an eager run: weighted rows, and dilated convolutions.

In a graph, `weighted_rows` and `dilation` find them by going from an operator back to its inputs' operators. An eager
tensor does not name its operator, so `EagerProducts` notes the operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from ..compat.eager_runs import identify_tensor
from .dilation import CONVOLUTIONS, SHAPE_OPERATORS, TO_SPACE
from .graph_access import HANDING_ON
from .values import Executed
from .weighted_rows import GATHERS, SUMS, count_as_product

__all__ = ["EagerCall", "EagerProducts"]

#: Operators whose output is their first input under another name or shape.
_VIEWS = (
    *HANDING_ON,
    *("Identity", "Reshape", "Squeeze", "ExpandDims", "ReadVariableOp", "StopGradient", "Bitcast", "EnsureShape"),
)


class EagerCall(NamedTuple):
    """An operator that has run, as TensorFlow's callback shows it.

    Attributes:
        kind: Its type.
        inputs: The tensors that it read.
        attributes: Its attributes: name, value, name, value.
        outputs: The tensors that it has made.
    """

    kind: str
    inputs: Sequence[Any]
    attributes: Sequence[Any]
    outputs: Sequence[Any]


class EagerProducts:
    """Notes each operator of an eager run by `note`; `apply` then corrects costs of operators that form a product."""

    def __init__(self) -> None:
        #: The operator that has made the numbers in a tensor, by the number of the tensor.
        self._makers: dict[int, Executed] = {}
        #: Multiplications of gathered rows with a weight each: with a sum over them they are products.
        self._weighted_rows: set[Executed] = set()
        #: How many operators have read the numbers that an operator has made, and how often they were returned.
        self._readers: Counter[Executed] = Counter()
        #: Functions that correct the costs of operators that form a product.
        self._corrections: list[Callable[[], None]] = []

    def note(self, latest: Executed, call: EagerCall) -> None:
        """Note an operator that has just run: as a part of a product, and as the maker of its outputs."""
        makers = [self._makers.get(identify_tensor(tensor)) for tensor in call.inputs]
        first = makers[0] if makers else None
        if latest.type not in (*_VIEWS, *SHAPE_OPERATORS):
            self._readers.update({maker for maker in makers if maker is not None})
        if latest.type == "Mul":
            self._note_multiplication(latest, makers)
        elif first is not None:
            self._note_pair(first, latest, call)
        maker = first if first is not None and latest.type in _VIEWS else latest
        self._makers.update((identify_tensor(tensor), maker) for tensor in call.outputs)

    def note_results(self, numbers: Iterable[int]) -> None:
        """Note the tensors that the model has returned, by their numbers: their elements are all needed."""
        self._readers.update(self._makers[number] for number in numbers if number in self._makers)

    def _note_multiplication(self, latest: Executed, makers: Iterable[Executed | None]) -> None:
        if any(maker is not None and maker.type in GATHERS for maker in makers):
            self._weighted_rows.add(latest)

    def _note_pair(self, first: Executed, latest: Executed, call: EagerCall) -> None:
        """Note an operator that forms a product with the operator that made its first input."""
        if latest.type in SUMS and first in self._weighted_rows:
            self._corrections.append(partial(count_as_product, first, latest))
        if latest.type in TO_SPACE and first.type in CONVOLUTIONS:
            padded, left = call.inputs[0].shape.num_elements(), call.outputs[0].shape.num_elements()
            if padded:
                self._corrections.append(partial(self._leave_out_cropped, first, Fraction(left, padded)))

    def _leave_out_cropped(self, convolution: Executed, share: Fraction) -> None:
        """Count the share of a convolution's output that is not cropped; all if anything else reads the output."""
        if self._readers[convolution] == 1:
            convolution.scale(share)

    def apply(self) -> None:
        """Count the found operators as the products that they stand for, after each operator has its own cost."""
        for correct in self._corrections:
            correct()
