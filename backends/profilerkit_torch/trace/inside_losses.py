"""The bytes inside losses (``Loss.cpp``) of tensors of one shape and dtype.

Of others `find_unknown_inside` says that more is made.
"""

from __future__ import annotations

from collections.abc import Callable

from ..model.storages import count_stored_bytes
from .inside_operation import Operation, count_copy, count_copy_on_cpu

__all__ = ["RULES"]


def _count_in_loss(loss: Operation) -> int:
    """Return the bytes of the loss of each element, of which the sum or mean is the result."""
    return count_stored_bytes(loss.x) if loss.get("reduction", 1) else 0


def _count_in_loss_of_logits(loss: Operation) -> int:
    """Return the bytes of the factor of the input, of the logarithm of its sigmoid, and of ``pos_weight - 1``.

    The factor becomes the loss of each element: without a reduction it is the result, and not counted here.
    """
    weight = loss.get("pos_weight")
    less_one = 0 if weight is None else count_stored_bytes(weight)
    copied = count_copy_on_cpu(count_copy, "x", loss)  # for the sigmoid, when that factor is there
    return count_stored_bytes(loss.x) + _count_in_loss(loss) + max(less_one, copied)


def _count_in_likelihood_loss(loss: Operation) -> int:
    """Return the bytes of the CPU's copy of an input with gaps, of which it adds the chosen numbers up."""
    return count_copy_on_cpu(count_copy, "x", loss) if loss.get("reduction", 1) else 0


def _count_in_ctc_gradient(gradient: Operation) -> int:
    """Return the bytes of the probabilities of the rest of each target, as many as those of its begin."""
    return count_stored_bytes(gradient.arguments["log_alpha"])


def _count_in_margin_gradient(gradient: Operation) -> int:
    """Return the bytes of the products before the exponential of the same size."""
    return 2 * count_stored_bytes(gradient.x)


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_loss: "huber_loss.default mse_loss.default smooth_l1_loss.default",
    _count_in_likelihood_loss: "nll_loss_forward.default nll_loss2d_forward.default",
    _count_in_loss_of_logits: "binary_cross_entropy_with_logits.default",
    _count_in_ctc_gradient: "_ctc_loss_backward.default _ctc_loss_backward.Tensor",
    _count_in_margin_gradient: "soft_margin_loss_backward.default",
}
