"""Activations, softmax, dropout and their gradients: the cost of one element, as a sum of elementary functions.

A framework that composes an activation of elementary operators has the same cost. A gradient is the derivative times
the incoming gradient, ``dy``. A value that the forward pass has computed is not counted again, unless frameworks
compute it again on every device (SiLU, Mish, GELU).
"""

from __future__ import annotations

from collections.abc import Callable

from .cost import Cost, per_element
from .numbers import constants as c


@per_element
def relu() -> int:
    """``max(x, 0)``."""
    return c.COMPARE


@per_element
def sigmoid() -> int:
    """``1 / (1 + exp(-x))``: one elementary function."""
    return c.SIGMOID


@per_element
def tanh() -> int:
    """``tanh(x)``: one elementary function."""
    return c.TANH


@per_element
def tanh_with_scales() -> int:
    """``alpha * tanh(beta * x)``."""
    return 2 * c.MULTIPLY + c.TANH


@per_element
def clamp(bounds: int = 2) -> int:
    """``min(max(x, low), high)``: a comparison for each bound; so do ReLU6 and hardtanh."""
    return bounds * c.COMPARE


@per_element
def shrink(shifts: bool = True) -> int:
    """``x - bias if x > bound else x + bias if x < -bound else 0``; without a shift ``x if abs(x) > bound else 0``."""
    return c.SUBTRACT + c.ADD if shifts else c.ABSOLUTE


@per_element
def leaky_relu() -> int:
    """``x if x > 0 else slope * x``; so do PReLU, whose slope is a weight, and RReLU, whose slope is random."""
    return c.COMPARE + c.MULTIPLY


@per_element
def silu() -> int:
    """``x * sigmoid(x)``."""
    return c.MULTIPLY + c.SIGMOID


@per_element
def softplus() -> int:
    """``log(1 + exp(x))``."""
    return c.EXP + c.ADD + c.LOG


@per_element
def parametric_softplus() -> int:
    """``alpha * log(1 + exp(beta * x))``."""
    return 2 * c.MULTIPLY + softplus.operations()


@per_element
def log_sigmoid() -> int:
    """``-log(1 + exp(-x))``."""
    return c.NEGATE + softplus.operations() + c.NEGATE


@per_element
def softsign() -> int:
    """``x / (1 + abs(x))``."""
    return c.ABSOLUTE + c.ADD + c.DIVIDE


@per_element
def mish() -> int:
    """``x * tanh(softplus(x))``."""
    return softplus.operations() + c.TANH + c.MULTIPLY


@per_element
def hard_sigmoid() -> int:
    """``clamp(x + 3, 0, 6) / 6``."""
    return c.ADD + clamp.operations() + c.DIVIDE


@per_element
def hard_swish() -> int:
    """``x * hard_sigmoid(x)``."""
    return hard_sigmoid.operations() + c.MULTIPLY


@per_element
def elu() -> int:
    """``x if x > 0 else alpha * (exp(x) - 1)``; so do CELU and SELU."""
    return c.COMPARE + c.EXP + c.SUBTRACT + c.MULTIPLY


@per_element
def gelu(approximate: bool = False) -> int:
    """``0.5 * x * (1 + erf(x / sqrt(2)))``; approximate ``0.5 * x * (1 + tanh(k * (x + 0.044715 * x ** 3)))``."""
    if approximate:
        return 2 * c.MULTIPLY + c.ADD + c.TANH + (c.MULTIPLY + c.ADD + c.MULTIPLY + c.POWER)
    return 2 * c.MULTIPLY + c.ADD + c.ERF + c.DIVIDE


@per_element
def glu() -> int:
    """``a * sigmoid(b)``, for each output element."""
    return c.MULTIPLY + c.SIGMOID


@per_element
def dropout() -> int:
    """``x * mask * scale``, if dropout is on."""
    return 2 * c.MULTIPLY


@per_element
def softmax(log: bool = False) -> int:
    """``exp(x - max(x)) / sum(exp(x - max(x)))``; its logarithm ``x - max - log(sum(exp(x - max)))``."""
    return c.COMPARE + c.SUBTRACT + c.EXP + c.ADD + (c.SUBTRACT if log else c.DIVIDE)


@per_element
def logit(clamps: bool = False) -> int:
    """``log(x / (1 - x))``; of an x that is clamped first, two comparisons more."""
    return 2 * clamps * c.COMPARE + c.SUBTRACT + c.DIVIDE + c.LOG


# Gradients ------------------------------------------------------------------------------------------------------------


@per_element
def elementary_gradient() -> int:
    """``dy`` times the derivative of ReLU, sigmoid or tanh, or of a function with a constant slope."""
    return c.ELEMENTARY_GRADIENT


@per_element
def prelu_gradient() -> int:
    """``dy * weight`` by the input, ``dy * x`` by the weight."""
    return 2 * c.MULTIPLY


@per_element
def elu_gradient() -> int:
    """``dy * (y + alpha)``; so do CELU and SELU."""
    return c.ADD + c.MULTIPLY


@per_element
def softplus_gradient() -> int:
    """``dy * sigmoid(x)``."""
    return c.SIGMOID + c.MULTIPLY


@per_element
def softsign_gradient() -> int:
    """``dy / (1 + abs(x)) ** 2``."""
    return c.ABSOLUTE + c.ADD + c.POWER + c.DIVIDE


@per_element
def log_sigmoid_gradient() -> int:
    """``dy * sigmoid(-x)``."""
    return c.NEGATE + c.SIGMOID + c.MULTIPLY


@per_element
def hard_sigmoid_gradient() -> int:
    """``d(relu6)(x + 3) * dy / 6``."""
    return c.ELEMENTARY_GRADIENT + c.DIVIDE


@per_element
def hard_swish_gradient() -> int:
    """``dy * h + d(relu6)(x + 3) * dy * x / 6`` of the hard sigmoid ``h`` of the forward pass."""
    return c.MULTIPLY + (c.ELEMENTARY_GRADIENT + c.MULTIPLY + c.DIVIDE) + c.ADD


@per_element
def silu_gradient() -> int:
    """``dy * s * (1 + x * (1 - s))`` of ``s = sigmoid(x)``."""
    return c.SIGMOID + 3 * c.MULTIPLY + c.ADD + c.SUBTRACT


@per_element
def mish_gradient() -> int:
    """``dy * (t + x * sigmoid(x) * (1 - t * t))`` of ``t = tanh(softplus(x))``."""
    inner = c.MULTIPLY + c.SIGMOID + c.MULTIPLY + c.SUBTRACT + c.MULTIPLY
    return softplus.operations() + c.TANH + c.MULTIPLY + c.ADD + inner


@per_element
def gelu_gradient(approximate: bool = False) -> int:
    """``dy * (p + x * k * exp(-0.5 * x * x))``; approximate ``0.5 * dy * (1 + t) + du * (1 + 0.044715 * 3 * x ** 2)``.

    Here ``p = 0.5 * (1 + erf(x / sqrt(2)))``. ``t`` is the tanh of the forward pass, and ``du`` is ``k`` times the
    gradient of that tanh for ``dy * 0.5 * x``.
    """
    if approximate:
        by_factor = 2 * c.MULTIPLY  # 0.5 * dy * (1 + t), where 1 + t is the forward pass's too
        by_tanh = c.MULTIPLY + c.ELEMENTARY_GRADIENT + c.MULTIPLY  # of dy * (0.5 * x), times k
        by_cube = c.MULTIPLY + c.MULTIPLY + c.POWER + c.MULTIPLY  # times 0.044715, times 3, times x ** 2
        return by_factor + by_tanh + by_cube + 2 * c.ADD
    probability = c.DIVIDE + c.ERF + c.ADD + c.MULTIPLY
    density = c.POWER + c.MULTIPLY + c.EXP + c.MULTIPLY
    return probability + density + c.MULTIPLY + c.ADD + c.MULTIPLY


@per_element
def logit_gradient() -> int:
    """``dy / (x * (1 - x))``."""
    return c.SUBTRACT + c.MULTIPLY + c.DIVIDE


@per_element
def glu_gradient() -> int:
    """``dy * s`` by a, ``dy * a`` and the gradient of the sigmoid by b, for each element of ``dy``."""
    return 2 * c.MULTIPLY + c.ELEMENTARY_GRADIENT


@per_element
def softmax_gradient(log: bool = False) -> int:
    """``y * (dy - sum(dy * y))``; of its logarithm ``dy - exp(y) * sum(dy)``."""
    if log:
        return c.ADD + c.EXP + c.MULTIPLY + c.SUBTRACT
    return c.MULTIPLY + c.ADD + c.SUBTRACT + c.MULTIPLY


def add_activation(cost: Cost, elements: int, activation: str | None) -> Cost:
    """Return a cost plus the cost of an activation, by its name, for so many elements; None is no activation.

    Raises `KeyError` for a name that is not among `NAMED`.
    """
    return cost if activation is None else cost.plus(NAMED[activation](elements))


#: The activations that kernels fuse with the operator before them, by name.
NAMED: dict[str, Callable[[int], Cost]] = {
    "relu": relu,
    "relu6": clamp,
    "leaky_relu": leaky_relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "tanh_with_scales": tanh_with_scales,
    "silu": silu,
    "elu": elu,
    "gelu": gelu,
    "softplus": softplus,
    "parametric_softplus": parametric_softplus,
    "softsign": softsign,
    "mish": mish,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
}
