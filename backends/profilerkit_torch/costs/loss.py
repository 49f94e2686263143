"""Losses: what their definition is made of, for each element, and an addition where they are summed or averaged."""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost, register_op_costs


@register_op_cost("aten::mse_loss")
def mse_loss(x: Shape, target: Shape, reduction: int = 1, *, out: Shape) -> Cost:
    """``(x - t) ** 2``: subtract, square; two operations for each element."""
    return _loss(x, 2, reduction)


@register_op_cost("aten::smooth_l1_loss")
def smooth_l1_loss(x: Shape, target: Shape, reduction: int = 1, *_: Any, out: Shape) -> Cost:
    """``0.5 * d * d / beta`` of ``d = abs(x - t)`` where it is below beta: subtract, abs, compare, and three."""
    return _loss(x, 6, reduction)


@register_op_cost("aten::huber_loss")
def huber_loss(x: Shape, target: Shape, reduction: int = 1, *_: Any, out: Shape) -> Cost:
    """``0.5 * d * d`` of ``d = abs(x - t)`` where it is below delta: subtract, abs, compare, two products."""
    return _loss(x, 5, reduction)


@register_op_cost("aten::binary_cross_entropy")
def binary_cross_entropy(
    x: Shape, target: Shape, weight: Shape | None = None, reduction: int = 1, *, out: Shape
) -> Cost:
    """``-(t * log(x) + (1 - t) * log(1 - x))``: 8 for each element, and one for the weight."""
    return _loss(x, 8 + (weight is not None), reduction)


@register_op_cost("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    x: Shape,
    target: Shape,
    weight: Shape | None = None,
    pos_weight: Shape | None = None,
    reduction: int = 1,
    *,
    out: Shape,
) -> Cost:
    """``(1 - t) * x - p * log_sigmoid(x)``: 6 for each element, one for the weight.

    With a weight of positives ``p = 1 + (pos_weight - 1) * t``: two more for each element and the product with it, and
    a subtraction for each of its own.
    """
    extra = 0 if pos_weight is None else pos_weight.numel
    loss = _loss(x, 6 + (weight is not None) + 3 * (pos_weight is not None), reduction)
    return Cost(0, loss.flops + extra)


@register_op_cost("aten::nll_loss_forward")
@register_op_cost("aten::nll_loss2d_forward")
def nll_loss(x: Shape, target: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each target."""
    return Cost(0, target.numel)


@register_op_cost("aten::soft_margin_loss")
def soft_margin_loss(x: Shape, target: Shape, reduction: int = 1, *, out: Shape) -> Cost:
    """``log(1 + exp(-t * x))``: negate, multiply, exp, add, log; five operations for each element."""
    return _loss(x, 5, reduction)


@register_op_cost("aten::multi_margin_loss")
def multi_margin_loss(
    x: Shape, target: Shape, p: Any = 1, margin: Any = 1, weight: Shape | None = None, reduction: int = 1, *, out: Shape
) -> Cost:
    """``sum(max(0, margin - x[t] + x) ** p) / n``: subtract, add, compare, sum; a square, a product with the weight."""
    return _loss(x, 4 + (p == 2) + (weight is not None), 0)


@register_op_costs("aten::_ctc_loss", "aten::_cudnn_ctc_loss", "aten::miopen_ctc_loss")
def ctc_loss(log_probs: Shape, targets: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Add up the probabilities of all alignments (Graves and others 2006): 13 operations for each state and step.

    A target of S labels has 2 * S + 1 states, blanks between them. Each is the logarithm of a sum of three: two
    comparisons, three subtractions, three exponentials, two additions, a logarithm, and two additions of the maximum
    and of the label's probability. Steps and labels count as padded to the longest.
    """
    steps, batch = log_probs[0], (log_probs[1] if len(log_probs) == 3 else 1)
    states = 2 * targets.numel + batch
    return Cost(0, 13 * steps * states)


def _loss(x: Shape, operations: int, reduction: int) -> Cost:
    return Cost(0, x.numel * (operations + (reduction != 0)))
