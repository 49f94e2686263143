"""Updates of weights by an optimizer in one operator: the rules of the operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from profilerkit.costs import optimizers

from .registry import Cost, OpCall, register_op_cost

#: The cost of an update: of the call, and the elements that are updated.
Rule = Callable[[OpCall, int], Cost]


class _Update(NamedTuple):
    """An update: the index of the gradient among its inputs, the rule, and in which variants TensorFlow has it."""

    gradient: int
    rule: Rule
    has_sparse: bool = True
    has_reference: bool = True


def _take_elements(rule: Callable[[int], Cost]) -> Rule:
    return lambda call, elements: rule(elements)


def _take_nesterov(rule: Callable[..., Cost]) -> Rule:
    return lambda call, elements: rule(elements, nesterov=bool(call.attribute("use_nesterov")))


def _take_slots(rule: Callable[..., Cost], **options: Any) -> Rule:
    return lambda call, elements: rule(elements, updates=call.attribute("update_slots") is not False, **options)


#: The updates, by the operator's name after "Apply".
_UPDATES: dict[str, _Update] = {
    "GradientDescent": _Update(2, _take_elements(optimizers.sgd), has_sparse=False),
    "ProximalGradientDescent": _Update(4, _take_elements(optimizers.proximal_sgd)),
    "Momentum": _Update(3, _take_nesterov(optimizers.momentum_with_rate_inside)),
    "KerasMomentum": _Update(3, _take_nesterov(optimizers.keras_momentum), has_reference=False),
    "Adam": _Update(9, _take_nesterov(optimizers.adam), has_sparse=False),
    "AdamWithAmsgrad": _Update(
        10, _take_elements(partial(optimizers.adam, amsgrad=True)), has_sparse=False, has_reference=False
    ),
    "AdaMax": _Update(8, _take_elements(optimizers.adamax), has_sparse=False),
    "Adagrad": _Update(3, _take_slots(optimizers.adagrad, by_rsqrt=True)),
    "AdagradV2": _Update(4, _take_slots(optimizers.adagrad)),
    "Adadelta": _Update(6, _take_elements(optimizers.adadelta)),
    "RMSProp": _Update(7, _take_elements(optimizers.rmsprop)),
    "CenteredRMSProp": _Update(8, _take_elements(partial(optimizers.rmsprop, centered=True))),
    "Ftrl": _Update(3, _take_elements(optimizers.ftrl)),
    "FtrlV2": _Update(3, _take_elements(partial(optimizers.ftrl, shrinkage=True))),
    "AddSign": _Update(6, _take_elements(optimizers.step_by_sign), has_sparse=False),
    "PowerSign": _Update(6, _take_elements(partial(optimizers.step_by_sign, power=True)), has_sparse=False),
}


def _register(name: str, update: _Update) -> None:
    @register_op_cost(name)
    def count(call: OpCall) -> Cost:
        """Return the cost of the rule for each element of the gradient; of a sparse one, of its rows."""
        return update.rule(call, call.inputs[update.gradient].numel)


for _name, _update in _UPDATES.items():
    for _prefix in ("Resource", "") if _update.has_reference else ("Resource",):
        _register(f"{_prefix}Apply{_name}", _update)
        if _update.has_sparse:
            _register(f"{_prefix}SparseApply{_name}", _update)
