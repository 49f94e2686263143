"""The cost of layers that the convention counts as a whole, such as normalizations, from their equations in a walk."""

from __future__ import annotations

from collections.abc import Sequence

from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.costs import Cost, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS
from profilerkit.trace.records import LayerCall

from ..costs.whole_layers import LayerCost, LayerRun, find_layer_cost
from ..model.scope_names import Marks
from ..model.subject import Subject
from .values import Executed, Value, give_to_last

__all__ = ["count_whole_layers"]


def count_whole_layers(executed: Sequence[Executed], subject: Subject, marks: Marks, training: bool) -> None:
    """Count normalization layers by the formula of their kind.

    The last equation of such a call takes the cost of all, and the name of the layer. The backward pass is counted by
    its equations.

    Args:
        executed: All equations, also the equations of uncounted branches.
        subject: The model.
        marks: The layers that were called.
        training: Whether it is a training pass.
    """
    for scope, equations in _group_by_layer(executed, subject, marks).items():
        layer, layer_class = subject.layers.get(scope.path), marks.classes[scope.path]
        if subject.kind == "keras":
            cost = _find_keras_cost(layer, marks.calls.get(scope.path, ()), scope.call, training)
        else:
            cost = _find_cost_of_equations(find_layer_cost(layer_class), layer, equations)
        if cost is not None:
            give_to_last(equations, layer_class.__name__, cost)


def _group_by_layer(executed: Sequence[Executed], subject: Subject, marks: Marks) -> dict[Scope, list[Executed]]:
    """Return the equations of the forward pass in each call of a layer that has a formula."""
    groups: dict[Scope, list[Executed]] = {}
    for equation in executed:
        if equation.is_backward:
            continue
        for scope in equation.chain:  # the outermost first: equations inside are part of its call
            if scope.path in marks.classes and _has_formula(subject, marks.classes[scope.path], scope.path):
                groups.setdefault(scope, []).append(equation)
                break
    return groups


def _has_formula(subject: Subject, layer_class: type, path: str) -> bool:
    if subject.kind == "keras":
        return layer_class.__name__ in KERAS_LAYER_COSTS and is_shipped(subject.layers.get(path))
    return find_layer_cost(layer_class) is not None


def _find_keras_cost(layer: object, calls: Sequence[LayerCall], number: int, training: bool) -> Cost | None:
    """Return the cost of a call of a layer that Keras ships, by its number; None if no call was seen."""
    if not calls:
        return None
    call = calls[min(number, len(calls) - 1)]
    inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
    return KERAS_LAYER_COSTS[type(layer).__name__](layer, inputs, outputs, training)


def _find_cost_of_equations(formula: LayerCost | None, layer: object, equations: Sequence[Executed]) -> Cost | None:
    """Return the cost of a call by the inputs of its equations; None if they do more than normalize."""
    if formula is None or any(equation.missing or equation.macs for equation in equations):
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
    """Return whether a value is a weight; a number of the program, like an epsilon, is a constant too."""
    return value.constant and value.scalar is None
