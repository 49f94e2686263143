"""Updates of weights by an optimizer in one operator: which operator goes to which rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from profilerkit.costs import optimizers

from .registry import Cost, OpCall, register_op_cost

Rule = Callable[[OpCall, int], Cost]


def _plain(rule: Callable[[int], Cost]) -> Rule:
    return lambda call, elements: rule(elements)


def _nesterov(rule: Callable[..., Cost]) -> Rule:
    return lambda call, elements: rule(elements, nesterov=bool(call.attribute("use_nesterov")))


def _slots(rule: Callable[..., Cost], **options: Any) -> Rule:
    return lambda call, elements: rule(elements, updates=call.attribute("update_slots") is not False, **options)


#: The operator's name after "Apply", the index of the gradient among its inputs, and the rule.
_RULES: dict[str, tuple[int, Rule]] = {
    "GradientDescent": (2, _plain(optimizers.sgd)),
    "ProximalGradientDescent": (4, _plain(optimizers.proximal_sgd)),
    "Momentum": (3, _nesterov(optimizers.momentum_with_rate_inside)),
    "KerasMomentum": (3, _nesterov(optimizers.keras_momentum)),
    "Adam": (9, _nesterov(optimizers.adam)),
    "AdamWithAmsgrad": (10, _plain(partial(optimizers.adam, amsgrad=True))),
    "AdaMax": (8, _plain(optimizers.adamax)),
    "Adagrad": (3, _slots(optimizers.adagrad, by_rsqrt=True)),
    "AdagradV2": (4, _slots(optimizers.adagrad)),
    "Adadelta": (6, _plain(optimizers.adadelta)),
    "RMSProp": (7, _plain(optimizers.rmsprop)),
    "CenteredRMSProp": (8, _plain(partial(optimizers.rmsprop, centered=True))),
    "Ftrl": (3, _plain(optimizers.ftrl)),
    "FtrlV2": (3, _plain(partial(optimizers.ftrl, shrinkage=True))),
    "AddSign": (6, _plain(optimizers.step_by_sign)),
    "PowerSign": (6, _plain(partial(optimizers.step_by_sign, power=True))),
}
#: Rules that have no variant for sparse gradients.
_DENSE_ONLY = ("GradientDescent", "Adam", "AdamWithAmsgrad", "AdaMax", "AddSign", "PowerSign")
#: Rules that only variables which are resources have.
_RESOURCE_ONLY = ("AdamWithAmsgrad", "KerasMomentum")


def _register(name: str, gradient: int, rule: Rule) -> None:
    @register_op_cost(name)
    def update(call: OpCall) -> Cost:
        """Return the cost of the rule for each element of the gradient; of a sparse one, of its rows."""
        return rule(call, call.inputs[gradient].numel)


for _name, (_gradient, _rule) in _RULES.items():
    for _prefix in ("Resource",) if _name in _RESOURCE_ONLY else ("Resource", ""):
        _register(f"{_prefix}Apply{_name}", _gradient, _rule)
        if _name not in _DENSE_ONLY:
            _register(f"{_prefix}SparseApply{_name}", _gradient, _rule)
