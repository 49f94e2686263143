"""One call of an operator, as a cost formula of a backend gets it, and the error of a formula with unknown facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..costs import Numbers, Shape

__all__ = [
    "OperatorCall",
    "Shapes",
    "UnknownCostError",
    "UnknownShapeError",
    "read_equation",
]


class UnknownShapeError(Exception):
    """A formula read a shape that is not known before the model runs."""


class UnknownCostError(Exception):
    """A formula does not know the cost of this variant of its operator: the call is reported as not counted."""


class Shapes(Sequence[Shape]):
    """The shapes of several tensors; reading one that is not known raises `UnknownShapeError`.

    Args:
        shapes: The shapes in order; None for one that is not known.

    >>> shapes = Shapes([None, Shape((2, 3))])
    >>> len(shapes), shapes[1].numel
    (2, 6)
    """

    def __init__(self, shapes: Sequence[Shape | None]) -> None:
        self._shapes = tuple(shapes)

    def __getitem__(self, index: Any) -> Any:
        shape = self._shapes[index]
        if shape is None or (isinstance(index, slice) and None in shape):
            raise UnknownShapeError
        return shape

    def __len__(self) -> int:
        return len(self._shapes)

    def __repr__(self) -> str:
        return repr(self._shapes)


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator: the argument of a formula.

    A subclass in a backend adds the further facts that determine the cost: the attributes of a node, or the parameters
    of a primitive.

    Attributes:
        type: The operator, as the framework spells it: ``"Conv"``.
        inputs: Shapes of its inputs; a call whose formula reads an unknown shape is reported as not counted.
        outputs: Shapes of its outputs.
        input_dtypes: Names of the inputs' dtypes, as numpy spells them: ``"float32"``; empty for an optional input
            that is left out.
        output_dtypes: Names of the outputs' dtypes.
        value: Returns the value of an input by its index, as a numpy array, if it is known before the model runs, else
            None.
    """

    type: str
    inputs: Shapes
    outputs: Shapes
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    value: Callable[[int], Any] = field(default=lambda index: None, compare=False, kw_only=True)

    @property
    def has_floats(self) -> bool:
        """Whether it takes or returns a floating-point or complex tensor; operations on integers are no FLOPs."""
        return self.numbers is not Numbers.INTEGER

    @property
    def numbers(self) -> Numbers:
        """The numbers that it works on: complex numbers if one of its inputs is complex."""
        return Numbers.of(self.input_dtypes, self.output_dtypes)

    def has_input(self, index: int) -> bool:
        """Return whether an optional input is there."""
        return index < len(self.input_dtypes) and bool(self.input_dtypes[index])

    def read(self, index: int) -> Any:
        """Return the values of an input; raise `UnknownCostError` if they are not known before the model runs."""
        value = self.value(index) if self.has_input(index) else None
        if value is None:
            raise UnknownCostError
        return value

    def is_constant(self, index: int, number: float) -> bool:
        """Return whether an input is known to be that single number; larger constants are not read."""
        try:
            single = self.inputs[index].numel == 1
        except UnknownShapeError:
            return False
        value = self.value(index) if single else None
        return value is not None and bool((value == number).all())


# Einsums --------------------------------------------------------------------------------------------------------------


def read_equation(
    equation: str, inputs: Sequence[Sequence[int]], output: Sequence[int]
) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Return the sizes of the labels of each operand of an einsum, and of its result.

    Dimensions under an ellipsis are labels too, numbered from the right. Without an arrow the result has the labels
    that occur once.

    >>> read_equation("b...k,k", [(2, 5, 3, 4), (4,)], (2, 5, 3))
    ([{'b': 2, '...2': 5, '...1': 3, 'k': 4}, {'k': 4}], {'b': 2, '...2': 5, '...1': 3})
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    terms = [_read_sizes(term, shape) for term, shape in zip(operands.split(","), inputs, strict=True)]
    if arrow:
        return terms, _read_sizes(result, output)
    sizes = {label: size for term in terms for label, size in term.items()}
    return terms, {label: sizes[label] for label in sizes if label.startswith("...") or operands.count(label) == 1}


def _read_sizes(term: str, shape: Sequence[int]) -> dict[str, int]:
    before, ellipsis, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after) if ellipsis else 0
    labels = [*before, *(f"...{position}" for position in range(hidden, 0, -1)), *after]
    return dict(zip(labels, shape, strict=True))
