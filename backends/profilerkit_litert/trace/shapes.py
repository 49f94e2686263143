"""The shapes of an operator's results, as the kernels of LiteRT find them, and their values if they are known.

A file declares the shapes for the inputs that it was converted with; if inputs have open sizes, most other shapes
follow from operators alone. numpy moves the data: the values or, if they are not known, an array of the same shape
without memory. An operator without a rule has the shape that the file declares, if no size is open.

The rules are in `computed_shapes` and `moved_shapes`; here is what they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from profilerkit.backend_kit.operator_calls import UnknownCostError, UnknownShapeError

from ..costs import LiteRTCall
from .values import Array

__all__ = ["RULES", "Result", "Rule", "are_integers", "infer", "list_arrays", "move", "register"]

#: The result of an operator: its values, or only their shape.
Result = Array | tuple[int, ...]
#: Returns the result of an operator: its values or only their shape, in a list if there are several results.
Rule = Callable[[LiteRTCall], Any]
RULES: dict[str, Rule] = {}


def infer(call: LiteRTCall) -> list[Result] | None:
    """Return the results of an operator: an array for each output if it is known, or its shape.

    None if no rule knows it. Raises numpy's errors for shapes that do not fit.
    """
    rule = RULES.get(call.type)
    if rule is None:
        return None
    try:
        made = rule(call)
    except (UnknownCostError, UnknownShapeError):
        return None
    results = made if isinstance(made, list) else [made]
    return [tuple(result) if isinstance(result, tuple) else np.asarray(result) for result in results]


def register(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator: a function is the rule of these operators; a text may have several names."""

    def add(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(" ".join(names).split(), rule))
        return rule

    return add


def list_arrays(call: LiteRTCall) -> list[Array] | None:
    """Return the values of all inputs; None if the values of an input are not known."""
    return [call.array(index) for index in range(len(call.inputs))] if call.is_known() else None


def are_integers(*arrays: Array) -> bool:
    """Return whether arrays hold integers or truth values."""
    return all(array.dtype.kind in "iub" for array in arrays)


def move(call: LiteRTCall, function: Callable[[Array], Array]) -> Any:
    """Return the first input, moved by a function of numpy's: its values, or the shape of the result."""
    moved = function(call.array())
    return moved if call.is_known(0) else np.shape(moved)
