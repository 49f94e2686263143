"""The bytes that torch's operators allocate and free inside, by the source of each, in ``aten/src/ATen/native``.

Each file ``inside_...`` has the rules of a family of operators, and a table of the operators of each rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compat.operators import find_operator
from . import (
    inside_convolutions,
    inside_images,
    inside_indices,
    inside_losses,
    inside_norms,
    inside_products,
    inside_recurrent_layers,
    inside_reductions,
    inside_softmax,
    inside_transforms,
)
from .inside_indices import is_mask
from .inside_operation import Operation

__all__ = ["RULES", "Operation", "is_mask"]

_FAMILIES = (
    inside_convolutions,
    inside_images,
    inside_indices,
    inside_losses,
    inside_norms,
    inside_products,
    inside_recurrent_layers,
    inside_reductions,
    inside_softmax,
    inside_transforms,
)
#: The rule of each operator; no operator has two.
RULES: dict[Any, Callable[[Operation], int]] = {
    find_operator(f"aten.{name}"): rule
    for family in _FAMILIES
    for rule, names in family.RULES.items()
    for name in names.split()
}
