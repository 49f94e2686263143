"""Updates of weights by an optimizer in one operator: which operator goes to which rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profilerkit.costs import constants, optimizers

from .families import register_op_costs
from .registry import Cost, Shape, register_op_cost


def _update(weights: tuple[Shape, ...], rule: Callable[[int], Cost], decay: float) -> Cost:
    elements = sum(weight.numel for weight in weights)
    return rule(elements).plus(optimizers.decay(elements if decay else 0))


@register_op_costs("aten::_fused_adam", "aten::_fused_adamw")
def adam(
    weights: tuple[Shape, ...], *_: Any, weight_decay: float = 0, amsgrad: bool = False, out: Any, **__: Any
) -> Cost:
    """Return the cost for each element of the weights."""
    return _update(weights, lambda elements: optimizers.adam(elements, bool(amsgrad)), weight_decay)


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
    """Return the cost for each element of the weights."""
    if not momentum:
        return _update(weights, optimizers.sgd, weight_decay)
    return _update(weights, lambda elements: optimizers.momentum(elements, bool(nesterov)), weight_decay)


@register_op_cost("aten::_fused_adagrad")
def adagrad(weights: tuple[Shape, ...], *_: Any, weight_decay: float = 0, out: Any, **__: Any) -> Cost:
    """Return the cost for each element of the weights."""
    return _update(weights, optimizers.adagrad, weight_decay)


@register_op_cost("aten::_amp_foreach_non_finite_check_and_unscale")
def unscale(gradients: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
    """One product for each element."""
    return Cost(0, sum(shape.numel for shape in gradients) * constants.MULTIPLY)
