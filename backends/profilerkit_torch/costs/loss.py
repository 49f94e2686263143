"""Losses and their gradients: which operator goes to which formula."""

from __future__ import annotations

from functools import partial
from typing import Any

from profilerkit.costs import PerElement, loss

from .families import register_by_name, register_op_costs, register_per_element
from .registry import Cost, Shape, register_op_cost


def _price_elements(
    formula: PerElement[[bool]], x: Shape, target: Shape, reduction: int = 1, *_: Any, out: Shape
) -> Cost:
    """Return the cost for each element; reduction 0 is none."""
    return formula(x.numel, reduction != 0)


for _name, _formula in (
    ("mse_loss", loss.mean_squared_error),
    ("smooth_l1_loss", loss.smooth_l1),
    ("huber_loss", loss.huber),
    ("soft_margin_loss", loss.soft_margin),
):
    register_op_cost(f"aten::{_name}", partial(_price_elements, _formula))


@register_op_cost("aten::binary_cross_entropy")
def binary_cross_entropy(
    x: Shape, target: Shape, weight: Shape | None = None, reduction: int = 1, *, out: Shape
) -> Cost:
    """Return the cost for each element."""
    return loss.binary_cross_entropy(x.numel, weight is not None, reduction != 0)


@register_by_name("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    *, x: Shape, weight: Shape | None = None, pos_weight: Shape | None = None, reduction: int = 1, out: Shape, **_: Any
) -> Cost:
    """Return the cost for each element, and for each weight of positives."""
    positive = None if pos_weight is None else pos_weight.numel
    return loss.binary_cross_entropy_with_logits(x.numel, weight is not None, positive, reduction != 0)


# For each target.
register_per_element({"nll_loss_forward nll_loss2d_forward": loss.negative_log_likelihood}, argument=1)


@register_op_cost("aten::multi_margin_loss")
def multi_margin_loss(
    x: Shape, target: Shape, p: Any = 1, margin: Any = 1, weight: Shape | None = None, reduction: int = 1, *, out: Shape
) -> Cost:
    """Return the cost for each element."""
    return loss.multi_margin(x.numel, p == 2, weight is not None)


@register_op_costs("aten::_ctc_loss", "aten::_cudnn_ctc_loss", "aten::miopen_ctc_loss")
def ctc_loss(log_probs: Shape, targets: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost for each state and step; a target of S labels has 2 * S + 1 states."""
    batch = log_probs[1] if len(log_probs) == 3 else 1
    return loss.connectionist_temporal(log_probs[0], 2 * targets.numel + batch)


#: The formula of the gradient for each element of the input, by operator.
_GRADIENTS: dict[str, PerElement[[]]] = {
    "mse_loss_backward": loss.mean_squared_error_gradient,
    "smooth_l1_loss_backward": loss.smooth_l1_gradient,
    "huber_loss_backward": loss.huber_gradient,
    "soft_margin_loss_backward": loss.soft_margin_gradient,
}
register_per_element(_GRADIENTS, argument=1)


@register_op_cost("aten::binary_cross_entropy_backward")
def binary_cross_entropy_gradient(
    dy: Shape, x: Shape, target: Shape, weight: Shape | None = None, *_: Any, out: Any
) -> Cost:
    """Return the cost for each element."""
    return loss.binary_cross_entropy_gradient(x.numel, weight is not None)


# For each target; elsewhere the gradient is zero.
register_per_element({"nll_loss_backward nll_loss2d_backward": loss.negative_log_likelihood_gradient}, argument=2)


@register_op_cost("aten::multi_margin_loss_backward")
def multi_margin_gradient(
    dy: Shape, x: Shape, target: Shape, p: int, margin: Any, weight: Shape | None = None, *_: Any, out: Any
) -> Cost:
    """Return the cost for each element."""
    return loss.multi_margin_gradient(x.numel, p == 2, weight is not None)


@register_by_name("aten::_ctc_loss_backward")
def ctc_loss_gradient(*, log_probs: Shape, log_alpha: Shape, out: Shape, **_: Any) -> Cost:
    """Return the cost for each forward variable, and each probability."""
    return loss.connectionist_temporal_gradient(log_alpha.numel, log_probs.numel)
