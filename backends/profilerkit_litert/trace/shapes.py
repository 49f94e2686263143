"""The shapes of an operator's results, as the kernels of LiteRT find them, and their values if they are known.

A file declares the shapes for the inputs that it was converted with; if inputs have open sizes, most other shapes
follow from operators alone. numpy moves the data: the values or, if they are not known, an array of the same shape
without memory. An operator without a rule has the shape that the file declares, if no size is open.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from profilerkit.backend_kit.operator_calls import UnknownCostError, UnknownShapeError

from ..costs import LiteRTCall
from . import computed_shapes, moved_shapes
from .values import Array

__all__ = ["Result", "infer"]

#: The result of an operator: its values, or only their shape.
Result: TypeAlias = Array | tuple[int, ...]
#: The rule of each operator: it returns the result, or a list of several results.
_RULES = {**computed_shapes.RULES, **moved_shapes.RULES}


def infer(call: LiteRTCall) -> list[Result] | None:
    """Return the results of an operator: an array for each output if it is known, or its shape.

    None if no rule knows it. Raises numpy's errors for shapes that do not fit.
    """
    rule = _RULES.get(call.type)
    if rule is None:
        return None
    try:
        made = rule(call)
    except (UnknownCostError, UnknownShapeError):
        return None
    results = made if isinstance(made, list) else [made]
    return [tuple(result) if isinstance(result, tuple) else np.asarray(result) for result in results]
