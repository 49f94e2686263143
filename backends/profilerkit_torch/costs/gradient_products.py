"""Gradients of products with vectors, which torch spells with a multiplication.

As matrices they are products of which one element is summed over: ``outer(dy, x)`` for ``a @ x``. Counted as such, the
gradient by each factor of a product takes as many multiply-accumulates as the product, with vectors as with matrices.
"""

from __future__ import annotations

from typing import Any

import torch

from profilerkit.costs import Cost, apply_formula, matmul

from ..compat.operators import find_operator
from .shapes import count_stored_elements, find_numbers

__all__ = ["is_gradient_product", "price_gradient_product"]

#: Nodes of the autograd graph whose gradients are products of a vector with a vector, or with a number.
_NODES_OF_VECTORS = {"AddmvBackward0", "DotBackward0", "MvBackward0", "VdotBackward0"}
_MULTIPLY = find_operator("aten.mul.Tensor")


def is_gradient_product(func: Any, args: Any, node: Any) -> bool:
    """Return whether an operator of an autograd node is one of the products that are the gradient of a product."""
    return func is _MULTIPLY and all(map(torch.is_tensor, args)) and node.name() in _NODES_OF_VECTORS


def price_gradient_product(args: Any, result: Any) -> Cost:
    """Return the cost of such a product: a multiply-accumulate for each element of its result."""
    return apply_formula(matmul.product, find_numbers(args, {}, result), count_stored_elements(result))
