"""Updates of weights by an optimiser in one operator: what its published rule takes for each element.

What is computed once for all elements (``lr * (1 - beta)``, say) is left out.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost, register_op_costs


def _elements(weights: tuple[Shape, ...], operations: int, decay: float) -> Cost:
    """Return the cost of an update; a decay of the weights takes two operations more for each element."""
    return Cost(0, (operations + 2 * bool(decay)) * sum(weight.numel for weight in weights))


@register_op_costs("aten::_fused_adam", "aten::_fused_adamw")
def adam(
    weights: tuple[Shape, ...], *_: Any, weight_decay: float = 0, amsgrad: bool = False, out: Any, **__: Any
) -> Cost:
    """Two moving averages (3 + 4), and ``w -= lr * m / (sqrt(v) + epsilon)`` (5); AMSGrad takes a maximum more."""
    return _elements(weights, 3 + 4 + 5 + amsgrad, weight_decay)


@register_op_cost("aten::_fused_sgd")
def sgd(
    weights: tuple[Shape, ...],
    *_: Any,
    weight_decay: float = 0,
    momentum: float = 0,
    nesterov: bool = False,
    out: Any,
    **__: Any,
) -> Cost:
    """``w -= lr * g``: 2; a momentum ``m = momentum * m + g``: 2 more; Nesterov's ``g + momentum * m``: 2 again."""
    return _elements(weights, 2 + 2 * bool(momentum) + 2 * nesterov, weight_decay)


@register_op_cost("aten::_fused_adagrad")
def adagrad(weights: tuple[Shape, ...], *_: Any, weight_decay: float = 0, out: Any, **__: Any) -> Cost:
    """``s += g * g`` (2), and ``w -= lr * g / (sqrt(s) + epsilon)`` (5)."""
    return _elements(weights, 2 + 5, weight_decay)


@register_op_cost("aten::_amp_foreach_non_finite_check_and_unscale")
def unscale(gradients: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
    """One product for each element."""
    return _elements(gradients, 1, 0)
