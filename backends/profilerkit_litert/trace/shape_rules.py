"""The rules for the shapes of results: which function is the rule of which operator, and what several rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..costs import LiteRTCall
from .values import Array

__all__ = ["RULES", "Rule", "are_integers", "list_arrays", "move", "register"]

#: Returns the result of an operator: its values or only their shape, in a list if there are several results.
Rule = Callable[[LiteRTCall], Any]
RULES: dict[str, Rule] = {}


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
