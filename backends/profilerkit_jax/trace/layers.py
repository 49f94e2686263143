"""The layers of a trace: their calls, how often each is made, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from profilerkit.backend_kit.scoped_calls import Scope, layer_calls
from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import LayerCall

from ..model.scope_names import Marks
from ..model.subject import UNMET, Subject
from .frames import NAMED_SCOPE
from .values import Executed, Value

__all__ = ["list_calls", "order_types"]


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
    return {path: _set_times(calls[path], turns_by_path.get(path, ())) for path in calls}


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
