"""Products that TensorFlow runs as several operators, found while these run one by one.

In a graph, `dilation` and `sparse_products` find them by going from an operator back to those that it reads. A tensor
of an eager run does not tell what has made it, so that this is noted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from .pricing import CONVOLUTIONS, GATHERS, HANDING_ON, SUMS, TO_SPACE, count_as_product
from .values import Executed

__all__ = ["VIEWS", "EagerPatterns"]

#: Operators whose output is their first input under another name or shape.
VIEWS = ("Identity", "Reshape", "Squeeze", "ExpandDims", "ReadVariableOp", "StopGradient", "Bitcast", "EnsureShape")


class EagerPatterns:
    """Notes each operator of an eager run by `note`; `apply` then changes the costs of those that belong together."""

    def __init__(self) -> None:
        #: The operator that has made the numbers in a tensor, by the id of the tensor while it is alive.
        self._makers: dict[int, Executed] = {}
        #: Multiplications of gathered rows with a weight each: with a sum over them they are products.
        self._weighted_rows: set[Executed] = set()
        #: What changes the costs of operators that belong together.
        self._corrections: list[Callable[[], None]] = []

    def note(self, latest: Executed, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note what an operator that has just run does with the outputs of those before it."""
        makers = [self._makers.get(id(tensor)) for tensor in inputs]
        first = makers[0] if makers else None
        if latest.type == "Mul" and any(maker is not None and maker.type in GATHERS for maker in makers):
            self._weighted_rows.add(latest)
        if first is not None:
            self._note_pair(first, latest, inputs, outputs)
        is_view = latest.type in VIEWS or latest.type in HANDING_ON
        maker = first if first is not None and is_view else latest
        self._makers.update((id(tensor), maker) for tensor in outputs)

    def _note_pair(self, first: Executed, latest: Executed, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note an operator that belongs together with the one that made its first input."""
        if latest.type in SUMS and first in self._weighted_rows:
            self._corrections.append(partial(count_as_product, first, latest))
        if latest.type in TO_SPACE and first.type in CONVOLUTIONS:
            padded, left = inputs[0].shape.num_elements(), outputs[0].shape.num_elements()
            if padded:  # the convolution counts in the share of its output that is not cropped
                self._corrections.append(partial(first.scale, Fraction(left, padded)))

    def apply(self) -> None:
        """Count what was found as the products that it stands for, once each operator has its own cost."""
        for correct in self._corrections:
            correct()
