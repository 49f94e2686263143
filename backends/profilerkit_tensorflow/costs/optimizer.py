"""Updates of weights by an optimiser in one operator: what its published rule takes for each element of the gradient.

What is computed once for all elements (``lr * (1 - beta)``, say) is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from .registry import Cost, OpCall, register_op_cost

Count = Callable[[OpCall], int]


def _constant(operations: int) -> Count:
    return lambda call: operations


def _nesterov(plain: int, nesterov: int) -> Count:
    return lambda call: nesterov if call.attribute("use_nesterov") else plain


def _slots(with_updates: int, without: int) -> Count:
    return lambda call: without if call.attribute("update_slots") is False else with_updates


def _ftrl(shrinkage: int) -> Count:
    # accum += g * g: 2; linear += g - (accum ** p - old ** p) / lr * var: 7; accum ** p / lr + 2 * l2: 4;
    # (sign(linear) * l1 - linear) / quadratic where abs(linear) > l1: 5
    return _constant(2 + 7 + 4 + 5 + shrinkage)


#: The operator's name after "Apply", the place of the gradient among its inputs, and operations for each element.
_RULES: dict[str, tuple[int, Count]] = {
    # var -= lr * g
    "GradientDescent": (2, _constant(2)),
    # sign(v) / (1 + lr * l2) * max(abs(v) - lr * l1, 0) of v = var - lr * g
    "ProximalGradientDescent": (4, _constant(2 + 6)),
    # accum = accum * momentum + g; var -= lr * accum, or var -= g * lr + accum * momentum * lr
    "Momentum": (3, _nesterov(2 + 2, 2 + 5)),
    # accum = accum * momentum - lr * g; var += accum, or var += accum * momentum - lr * g
    "KerasMomentum": (3, _nesterov(3 + 1, 3 + 4)),
    # m and v: 3 + 4; var -= lr * m / (sqrt(v) + epsilon): 5; Nesterov takes m * beta1 + (1 - beta1) * g for m: 3
    "Adam": (9, _nesterov(3 + 4 + 5, 3 + 4 + 5 + 3)),
    "AdamWithAmsgrad": (10, _constant(3 + 4 + 5 + 1)),
    # m: 3; v = max(beta2 * v, abs(g)): 3; var -= lr * m / (v + epsilon): 4
    "AdaMax": (8, _constant(3 + 3 + 4)),
    # accum += g * g: 2; var -= lr * g * rsqrt(accum): 4
    "Adagrad": (3, _slots(2 + 4, 4)),
    # ... / (sqrt(accum) + epsilon): 5
    "AdagradV2": (4, _slots(2 + 5, 5)),
    # two moving averages of squares: 4 + 4; update = sqrt(b + epsilon) * rsqrt(a + epsilon) * g: 6; var -= lr * it: 2
    "Adadelta": (6, _constant(4 + 6 + 4 + 2)),
    # ms += (g * g - ms) * (1 - rho): 4; mom = mom * momentum + lr * g * rsqrt(ms + epsilon): 6; var -= mom: 1
    "RMSProp": (7, _constant(4 + 6 + 1)),
    # mg += (g - mg) * (1 - rho): 3; ms - mg * mg: 2
    "CenteredRMSProp": (8, _constant(4 + 6 + 1 + 3 + 2)),
    "Ftrl": (3, _ftrl(0)),
    # g + 2 * l2_shrinkage * var
    "FtrlV2": (3, _ftrl(2)),
    # m: 3; (alpha + decay * sign(g) * sign(m)) * g: 6; var -= lr * it: 2
    "AddSign": (6, _constant(3 + 6 + 2)),
    # exp(logbase * decay * sign(g) * sign(m)) * g: 6
    "PowerSign": (6, _constant(3 + 6 + 2)),
}
#: Rules that have no variant for sparse gradients.
_DENSE_ONLY = ("GradientDescent", "Adam", "AdamWithAmsgrad", "AdaMax", "AddSign", "PowerSign")
#: Rules that only variables which are resources have.
_RESOURCE_ONLY = ("AdamWithAmsgrad", "KerasMomentum")


def _register(name: str, gradient: int, count: Count) -> None:
    @register_op_cost(name)
    def update(call: OpCall) -> Cost:
        """Return the operations of the rule for each element of the gradient, of rows that it names if sparse."""
        return Cost(0, count(call) * call.inputs[gradient].numel)


for _rule, (_gradient, _count) in _RULES.items():
    for _prefix in ("Resource",) if _rule in _RESOURCE_ONLY else ("Resource", ""):
        _register(f"{_prefix}Apply{_rule}", _gradient, _count)
        if _rule not in _DENSE_ONLY:
            _register(f"{_prefix}SparseApply{_rule}", _gradient, _count)
