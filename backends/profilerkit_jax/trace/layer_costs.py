"""The layers whose work the convention counts as a whole: JAX spells normalization out in more than one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.costs import Cost, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS
from profilerkit.trace.records import LayerCall

from ..costs.whole_layers import LayerCost, LayerRun, find_layer_cost
from ..model.subject import Subject
from .values import Value
from .work import Executed

__all__ = ["Calls", "count_whole_layers"]


class Calls(NamedTuple):
    """The calls of layers as they were seen while the model was traced, and whether that was in training mode."""

    by_path: Mapping[str, Sequence[LayerCall]]
    training: bool


def count_whole_layers(executed: Sequence[Executed], subject: Subject, types: Mapping[str, str], calls: Calls) -> None:
    """Count normalization layers by the formula of their kind.

    The last equation of such a call takes the cost of all, and the name of the layer. The backward pass is counted by
    its equations.

    Args:
        executed: All equations, those of branches that are not counted too.
        subject: The model.
        types: The type of each layer by its path.
        calls: What went into the calls of each layer and came out, and whether the pass is one of training.
    """
    for scope, equations in _group_by_layer(executed, subject, types).items():
        cost = _find_cost(subject, types, scope, equations, calls)
        if cost is not None:
            _give_to_last(equations, types[scope.path], cost)


def _group_by_layer(
    executed: Sequence[Executed], subject: Subject, types: Mapping[str, str]
) -> dict[Scope, list[Executed]]:
    """Return the equations of the forward pass in each call of a layer that has a formula."""
    groups: dict[Scope, list[Executed]] = {}
    for equation in executed:
        if equation.is_backward:
            continue
        for scope in equation.chain:  # the outermost first: what is inside of it is part of it
            if scope.path in types and _has_formula(subject, types, scope):
                groups.setdefault(scope, []).append(equation)
                break
    return groups


def _has_formula(subject: Subject, types: Mapping[str, str], scope: Scope) -> bool:
    if subject.kind == "keras":
        return types[scope.path] in KERAS_LAYER_COSTS and is_shipped(subject.layers.get(scope.path))
    return find_layer_cost(subject.kind, types[scope.path]) is not None


def _find_cost(
    subject: Subject, types: Mapping[str, str], scope: Scope, equations: Sequence[Executed], calls: Calls
) -> Cost | None:
    """Return the cost of a call of a layer; None where its equations are to be counted."""
    layer = subject.layers.get(scope.path)
    if subject.kind == "keras":
        return _find_keras_cost(layer, scope, calls)
    formula = find_layer_cost(subject.kind, types[scope.path])
    return None if formula is None else _find_cost_of_equations(formula, layer, equations)


def _find_keras_cost(layer: object, scope: Scope, calls: Calls) -> Cost | None:
    """Return the cost of a call of a layer that Keras ships; None where no call was seen."""
    layer_calls = calls.by_path.get(scope.path, ())
    if not layer_calls:
        return None
    call = layer_calls[min(scope.call, len(layer_calls) - 1)]
    inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
    return KERAS_LAYER_COSTS[type(layer).__name__](layer, inputs, outputs, calls.training)


def _find_cost_of_equations(formula: LayerCost, layer: object, equations: Sequence[Executed]) -> Cost | None:
    """Return the cost of a call by what its equations read; None where they hold more than a normalization."""
    if any(equation.missing or equation.macs for equation in equations):
        return None
    made_inside = {value.number for equation in equations for value in equation.outputs}
    inputs = [value for equation in equations for value in equation.inputs]
    from_outside = [value for value in inputs if value.number not in made_inside]
    activations = [value for value in from_outside if not value.constant]
    if not activations:
        return None
    elements = max(value.shape.numel for value in activations)
    weights = {value.number for value in from_outside if _is_weight(value)}
    return formula(LayerRun(layer, elements, [equation.operator for equation in equations], len(weights)))


def _is_weight(value: Value) -> bool:
    """Return whether a value is a weight; a single number, such as an epsilon, is a constant too."""
    return value.constant and value.shape.numel > 1


def _give_to_last(equations: Sequence[Executed], name: str, cost: Cost) -> None:
    """Give the last equation of a call the layer's name and the cost of each run, and the others nothing."""
    times = max(equation.times for equation in equations)
    for equation in equations:
        equation.leave_work()
    last = equations[-1]
    last.operator = name
    last.macs, last.flops = cost.times(times)
    last.times = times
