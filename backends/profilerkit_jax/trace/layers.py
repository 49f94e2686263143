"""The layers of a trace: their calls, how often each is made, and their order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec.structs import replace

from profilerkit.backend_kit.scoped_calls import ROOT, Scope, layer_calls
from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import LayerCall

from ..model.scope_names import MarkedCall
from ..model.subject import UNMET, Subject
from .frames import NAMED_SCOPE
from .values import Executed, Value

__all__ = ["list_calls", "number_calls", "order_types"]


def number_calls(executed: Sequence[Executed], uncounted: Sequence[Executed]) -> dict[Scope, Scope]:
    """Number the calls of each layer anew: first the calls with equations that run, then those of other branches.

    A call in which everything is known before the program runs, such as the making of an initial state, has none.
    Returns the new number of each call that has equations.
    """
    numbers: Counter[str] = Counter()
    renumbered: dict[Scope, Scope] = {}
    for equations in (executed, uncounted):
        scopes = {scope for equation in equations for scope in equation.chain} - renumbered.keys()
        for scope in sorted(scopes, key=attrgetter("call")):
            renumbered[scope] = Scope(scope.path, numbers[scope.path])
            numbers[scope.path] += 1
    for equation in (*executed, *uncounted):
        equation.chain = tuple(renumbered[scope] for scope in equation.chain)
    return renumbered


def list_calls(
    executed: Sequence[Executed],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    marked_calls: Collection[MarkedCall],
    marked_by_scope: Mapping[Scope, MarkedCall],
) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer: as its equations tell them; of a layer without any, as the marks have them.

    Args:
        executed: The equations that run, whose calls have the numbers of `number_calls`.
        inputs: The inputs of the model.
        outputs: Its outputs.
        marked_calls: The calls that a mark has opened, in the order in which they began; not those in branches that do
            not run.
        marked_by_scope: Those of them that have equations, by the numbers of `number_calls`.
    """
    turns = _count_turns(executed)
    calls = {
        path: [replace(call, times=turns.get(Scope(path, number), 1)) for number, call in enumerate(of_layer)]
        for path, of_layer in layer_calls(executed, [op.chain for op in executed], inputs, outputs).items()
    }
    _add_calls_without_equations(calls, turns, marked_calls, marked_by_scope)
    return calls


def _count_turns(executed: Sequence[Executed]) -> dict[Scope, int]:
    """Return how often each call of a layer is made: inside of a loop, once for each turn.

    Equations in a call run as often as the call, if they are outside of the call's own loops.
    """
    turns: dict[Scope, int] = {}
    for equation in executed:
        for scope in equation.chain:
            turns[scope] = min(equation.times, turns.get(scope, equation.times))
    return turns


def _add_calls_without_equations(
    calls: dict[str, list[LayerCall]],
    turns: dict[Scope, int],
    marked_calls: Iterable[MarkedCall],
    marked_by_scope: Mapping[Scope, MarkedCall],
) -> None:
    """Add a call of each layer without equations for each call of the layer around it, as often as that is made."""
    with_equations = set(calls)
    # A function that is traced once may be called several times: then a marked call stands for several.
    scopes: defaultdict[MarkedCall, list[Scope]] = defaultdict(list)
    for scope, marked in marked_by_scope.items():
        scopes[marked].append(scope)
    for marked in marked_calls:  # a call comes after the one around it
        if not marked.path:
            scopes[marked] = [ROOT]
        if marked.path in with_equations:
            continue
        for around in [None] if marked.around is None else scopes[marked.around]:
            own_calls = calls.setdefault(marked.path, [])
            scope = Scope(marked.path, len(own_calls))
            scopes[marked].append(scope)
            turns[scope] = 1 if around is None else turns.get(around, 1)
            caller = None if around is None else (around.path, around.call)
            own_calls.append(LayerCall(marked.inputs, marked.outputs, caller, turns[scope]))


def order_types(subject: Subject, called_types: Mapping[str, str], user_scopes: Iterable[str]) -> dict[str, str]:
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
