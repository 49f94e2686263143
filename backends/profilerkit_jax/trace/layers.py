"""The layers of a trace: their calls with numbers, their order, and layers whose work counts as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.scoped_calls import Scope, layer_calls
from profilerkit.costs import Cost, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS
from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import LayerCall

from ..costs.whole_layers import LayerCost, LayerRun, find_layer_cost
from ..model.scope_names import Marks
from ..model.subject import UNMET, Subject
from .frames import NAMED_SCOPE
from .values import Executed, Value, give_to_last

__all__ = ["count_whole_layers", "list_calls", "order_types"]


def list_calls(
    executed: Sequence[Executed], inputs: Sequence[Value], outputs: Sequence[Value], marks: Marks
) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer: as its equations tell them; of a layer without any, as the marks have them."""
    calls = _count_turns(layer_calls(executed, [equation.chain for equation in executed], inputs, outputs), executed)
    without_equations = {path: marked for path, marked in marks.calls.items() if path not in calls}
    for path, marked in without_equations.items():
        calls[path] = [_complete(call, calls, without_equations) for call in marked]
    return calls


def _complete(
    call: LayerCall, calls: Mapping[str, Sequence[LayerCall]], without_equations: Mapping[str, object]
) -> LayerCall:
    """Return a call without equations: with its caller, if that is a layer, and as often as that is called."""
    if call.caller is None:
        return call
    path = call.caller[0]
    around = calls.get(path)
    if around:
        return replace(call, times=around[0].times)
    return call if path in without_equations else replace(call, caller=None)


def _count_turns(calls: Mapping[str, Sequence[LayerCall]], executed: Sequence[Executed]) -> dict[str, list[LayerCall]]:
    """Return the calls of layers, each with how often it is made: inside of a loop, once for each turn.

    Equations in a call run as often as the call, if they are outside of the call's own loops.
    """
    turns: dict[Scope, int] = {}
    for equation in executed:
        for scope in equation.chain:
            turns[scope] = min(equation.times, turns.get(scope, equation.times))
    turns_by_path: dict[str, list[int]] = {}
    for scope in sorted(turns, key=lambda scope: scope.call):
        turns_by_path.setdefault(scope.path, []).append(turns[scope])
    return {path: _set_times(layer_calls, turns_by_path.get(path, ())) for path, layer_calls in calls.items()}


def _set_times(calls: Sequence[LayerCall], turns: Sequence[int]) -> list[LayerCall]:
    """Return calls with how often each is made; once if no equation tells."""
    return [replace(call, times=turns[index] if index < len(turns) else 1) for index, call in enumerate(calls)]


def order_types(subject: Subject, called_types: Mapping[str, str], user_scopes: Sequence[str]) -> dict[str, str]:
    """Return the type of each layer by its path, the model first; every layer around a layer is among them.

    They are in the order of their first calls, then the layers that are not called: Flax sorts attributes by name when
    it makes a module of shapes. Layers of Keras are in Keras' own order, as on other frameworks.

    Args:
        subject: The model.
        called_types: The types of the layers that were called, in the order of their first calls.
        user_scopes: The paths of the user's scopes.
    """
    all_types = {**subject.types, **dict.fromkeys(user_scopes, NAMED_SCOPE), **called_types}
    keeps_own_order = subject.kind == "keras"
    first, then = (subject.types, called_types) if keeps_own_order else (called_types, subject.types)
    types = {"": subject.types[""]}
    for path in [*first, *then, *user_scopes]:
        for layer in reversed(list(walk_outwards(path))):
            types.setdefault(layer, all_types.get(layer, UNMET))
    return types


# Layers whose work the convention counts as a whole -------------------------------------------------------------------


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
