"""The cost of layers that the convention counts as a whole, such as normalizations, from their equations in a walk."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.costs import Cost, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS

from ..costs.whole_layers import LayerCost, LayerRun, find_layer_cost
from ..model.scope_names import MarkedCall
from ..model.subject import Subject
from .values import Executed, give_to_last

__all__ = ["count_whole_layers"]


def count_whole_layers(
    executed: Sequence[Executed],
    subject: Subject,
    classes: Mapping[str, type],
    marked_by_scope: Mapping[Scope, MarkedCall],
    training: bool,
) -> None:
    """Count normalization layers by the formula of their kind.

    The last equation of such a call takes the cost of all, and the name of the layer. The backward pass is counted by
    its equations.

    Args:
        executed: All equations, also the equations of uncounted branches.
        subject: The model.
        classes: The classes of the layers that were called, by their paths.
        marked_by_scope: The calls that a mark has opened.
        training: Whether it is a training pass.
    """
    _count_keras_layers(executed, subject.layers, marked_by_scope, training)
    _count_library_layers(executed, subject.layers, classes)


def _count_keras_layers(
    executed: Sequence[Executed],
    layers: Mapping[str, Any],
    marked_by_scope: Mapping[Scope, MarkedCall],
    training: bool,
) -> None:
    """Count the layers that Keras ships, by the shapes of their calls."""
    named = {path: layer for path, layer in layers.items() if type(layer).__name__ in KERAS_LAYER_COSTS}
    shipped = {path: layer for path, layer in named.items() if is_shipped(layer)}
    for scope, equations in _group_by_layer(executed, shipped).items():
        call = marked_by_scope.get(scope)
        if call is None:  # it was not seen
            continue
        name = type(shipped[scope.path]).__name__
        inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
        cost = KERAS_LAYER_COSTS[name](shipped[scope.path], inputs, outputs, training)
        if cost is not None:
            give_to_last(equations, name, cost)


def _count_library_layers(executed: Sequence[Executed], layers: Mapping[str, Any], classes: Mapping[str, type]) -> None:
    """Count the layers of Flax and Equinox, by the inputs of their equations; linen's are not among ``layers``."""
    costs = {path: find_layer_cost(layer_class) for path, layer_class in classes.items()}
    formulas = {path: formula for path, formula in costs.items() if formula is not None}
    for scope, equations in _group_by_layer(executed, formulas).items():
        cost = _find_cost_of_equations(formulas[scope.path], layers.get(scope.path), equations)
        if cost is not None:
            give_to_last(equations, classes[scope.path].__name__, cost)


def _group_by_layer(executed: Sequence[Executed], paths: Container[str]) -> dict[Scope, list[Executed]]:
    """Return the equations of the forward pass in each call of these layers; of nested ones, in the outermost call."""
    groups: dict[Scope, list[Executed]] = {}
    for equation in executed:
        scope = next((scope for scope in equation.chain if scope.path in paths), None)
        if scope is not None and not equation.is_backward:
            groups.setdefault(scope, []).append(equation)
    return groups


def _find_cost_of_equations(formula: LayerCost, layer: object, equations: Sequence[Executed]) -> Cost | None:
    """Return the cost of a call by the inputs of its equations; None if they do more than normalize."""
    if any(equation.missing or equation.macs for equation in equations):
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
