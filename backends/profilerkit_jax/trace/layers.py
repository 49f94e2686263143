"""The layers of a trace: their order, and the layers whose work the convention counts as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple

from profilerkit.backend_kit.keras_layers import is_shipped
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.costs import Cost, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS
from profilerkit.trace.records import LayerCall

from ..costs.whole_layers import LayerCost, layer_cost
from ..model.subject import UNMET, Subject
from .frames import NAMED_SCOPE
from .values import Executed, Value

__all__ = ["Calls", "count_whole_layers", "order_types", "with_turns"]


class Calls(NamedTuple):
    """The calls of layers as they were seen while the model was traced, and whether that was in training mode."""

    of_layers: Mapping[str, Sequence[LayerCall]]
    training: bool


def with_turns(calls: Mapping[str, Sequence[LayerCall]], executed: Sequence[Executed]) -> dict[str, list[LayerCall]]:
    """Return the calls of layers, each with how often it is made: inside of a loop, once for each turn.

    Of the equations in a call, those outside of loops that the call itself runs are run as often as the call.
    """
    turns: dict[Scope, int] = {}
    for op in executed:
        for scope in op.chain:
            turns[scope] = min(op.times, turns.get(scope, op.times))
    of_path: dict[str, list[int]] = {}
    for scope in sorted(turns, key=lambda scope: scope.call):
        of_path.setdefault(scope.path, []).append(turns[scope])
    return {path: _each_with(made, of_path.get(path, ())) for path, made in calls.items()}


def _each_with(made: Sequence[LayerCall], turns: Sequence[int]) -> list[LayerCall]:
    """Return calls with how often each is made; once where no equation tells."""
    return [replace(call, times=times) for call, times in zip(made, chain(turns, repeat(1)), strict=False)]


def order_types(subject: Subject, met: Mapping[str, str], named: Mapping[str, None]) -> dict[str, str]:
    """Return the type of each layer by its path, the model first; every layer around a layer is among them.

    They stand in the order of their first calls, those that are not called last: Flax sorts attributes by name where it
    makes a module of shapes. Those of Keras stand in its own order, as on other frameworks.

    Args:
        subject: The model.
        met: The types of the layers that were called, in the order of their first calls.
        named: The paths of the scopes of the user's.
    """
    types = {"": subject.types[""]}
    all_types = {**subject.types, **dict.fromkeys(named, NAMED_SCOPE), **met}
    first, then = (subject.types, met) if subject.kind == "keras" else (met, subject.types)
    for path in [*first, *then, *named]:
        for around in accumulate(path.split("."), lambda outer, inner: f"{outer}.{inner}") if path else ():
            types.setdefault(around, all_types.get(around, UNMET))
    return types


def count_whole_layers(executed: Sequence[Executed], subject: Subject, types: Mapping[str, str], seen: Calls) -> None:
    """Count normalization layers by the formula of their kind: JAX spells them out in more than one way.

    The last equation of such a call takes the cost of all, and the name of the layer. The backward pass is counted by
    its equations.

    Args:
        executed: All equations, those of branches that are not counted too.
        subject: The model.
        types: The type of each layer by its path.
        seen: What went into the calls of each layer and came out, and whether the pass is one of training.
    """
    calls: dict[Scope, list[Executed]] = {}
    for op in executed:
        scope = next((scope for scope in op.chain if scope.path in types and _is_whole(subject, types, scope)), None)
        if scope is not None and not op.is_backward:
            calls.setdefault(scope, []).append(op)
    for scope, equations in calls.items():
        if subject.kind == "keras":
            cost = _keras_cost(subject.layers[scope.path], scope, seen)
        else:
            formula = layer_cost(subject.kind, types[scope.path])
            cost = None if formula is None else _cost(formula, subject.layers.get(scope.path), equations)
        if cost is None:
            continue
        times = max(equation.times for equation in equations)
        for equation in equations:
            equation.leave_work()
        last = equations[-1]
        last.operator, last.macs, last.flops, last.times = types[scope.path], cost.macs, cost.flops, times


def _is_whole(subject: Subject, types: Mapping[str, str], scope: Scope) -> bool:
    if subject.kind == "keras":
        return types[scope.path] in KERAS_LAYER_COSTS and is_shipped(subject.layers.get(scope.path))
    return layer_cost(subject.kind, types[scope.path]) is not None


def _keras_cost(layer: Any, scope: Scope, seen: Calls) -> Cost | None:
    """Return the cost of a call of a layer that Keras ships; None where its equations are to be counted."""
    made = seen.of_layers.get(scope.path, ())
    if not made:
        return None
    call = made[min(scope.call, len(made) - 1)]
    inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
    return KERAS_LAYER_COSTS[type(layer).__name__](layer, inputs, outputs, seen.training)


def _cost(formula: LayerCost, layer: object, equations: Sequence[Executed]) -> Cost | None:
    """Return the cost of a call of a layer; None where its equations hold more than a normalization."""
    if any(equation.missing or equation.macs for equation in equations):
        return None
    made = {value.number for equation in equations for value in equation.outputs}
    read = [
        value for equation in equations for value in equation.inputs if value.number not in made and not value.constant
    ]
    if not read:
        return None
    elements = max(value.shape.numel for value in read)
    names = [equation.operator for equation in equations]
    weights = {
        value.number
        for equation in equations
        for value in equation.inputs
        if _is_weight(value) and value.number not in made
    }
    return formula(layer, elements, names, len(weights))


def _is_weight(value: Value) -> bool:
    return value.constant and value.shape.numel > 1
