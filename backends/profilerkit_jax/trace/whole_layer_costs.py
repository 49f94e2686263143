"""The cost of layers that the convention counts as a whole, such as normalizations, from their equations in a walk."""

from __future__ import annotations

from collections.abc import Container, Sequence

from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.costs import Cost, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS

from ..costs.whole_layers import LayerCost, LayerRun, find_layer_cost
from ..model.scope_names import MarkedCall, Marks
from ..model.subject import Subject
from .frames import Frames
from .values import Executed, give_to_last

__all__ = ["count_whole_layers"]


def count_whole_layers(
    executed: Sequence[Executed], subject: Subject, marks: Marks, frames: Frames, training: bool
) -> None:
    """Count normalization layers by the formula of their kind.

    The last equation of such a call takes the cost of all, and the name of the layer. The backward pass is counted by
    its equations.

    Args:
        executed: All equations, also the equations of uncounted branches.
        subject: The model.
        marks: The layers that were called.
        frames: The calls of layers that the equations are in.
        training: Whether it is a training pass.
    """
    is_keras = subject.kind == "keras"
    if is_keras:
        named = {path for path, layer_class in marks.classes.items() if layer_class.__name__ in KERAS_LAYER_COSTS}
        paths = {path for path in named if is_shipped(subject.layers.get(path))}
    else:
        paths = {path for path, layer_class in marks.classes.items() if find_layer_cost(layer_class) is not None}
    for scope, equations in _group_by_layer(executed, paths).items():
        layer, layer_class = subject.layers.get(scope.path), marks.classes[scope.path]
        if is_keras:
            cost = _find_keras_cost(layer, marks.calls.get(frames.marks.get(scope, "")), training)
        else:
            cost = _find_cost_of_equations(find_layer_cost(layer_class), layer, equations)
        if cost is not None:
            give_to_last(equations, layer_class.__name__, cost)


def _group_by_layer(executed: Sequence[Executed], paths: Container[str]) -> dict[Scope, list[Executed]]:
    """Return the equations of the forward pass in each call of these layers; of nested ones, in the outermost call."""
    groups: dict[Scope, list[Executed]] = {}
    for equation in executed:
        scope = next((scope for scope in equation.chain if scope.path in paths), None)
        if scope is not None and not equation.is_backward:
            groups.setdefault(scope, []).append(equation)
    return groups


def _find_keras_cost(layer: object, call: MarkedCall | None, training: bool) -> Cost | None:
    """Return the cost of a call of a layer that Keras ships; None if the call was not seen."""
    if call is None:
        return None
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
    # A number of the program, like an epsilon, is a constant too.
    weights = {value.number for value in from_outside if value.constant and value.scalar is None}
    return formula(LayerRun(layer, elements, [equation.operator for equation in equations], len(weights)))
