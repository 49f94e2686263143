"""The layers of a trace: how often each is called, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.records import LayerCall

from ..model.subject import UNMET, Subject
from .frames import NAMED_SCOPE
from .values import Executed

__all__ = ["count_turns", "order_types"]


def count_turns(calls: Mapping[str, Sequence[LayerCall]], executed: Sequence[Executed]) -> dict[str, list[LayerCall]]:
    """Return the calls of layers, each with how often it is made: inside of a loop, once for each turn.

    Of the equations in a call, those outside of loops that the call itself runs are run as often as the call.
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
    """Return calls with how often each is made; once where no equation tells."""
    return [replace(call, times=turns[index] if index < len(turns) else 1) for index, call in enumerate(calls)]


def order_types(subject: Subject, called_types: Mapping[str, str], user_scopes: Iterable[str]) -> dict[str, str]:
    """Return the type of each layer by its path, the model first; every layer around a layer is among them.

    They stand in the order of their first calls, those that are not called last: Flax sorts attributes by name where it
    makes a module of shapes. Those of Keras stand in its own order, as on other frameworks.

    Args:
        subject: The model.
        called_types: The types of the layers that were called, in the order of their first calls.
        user_scopes: The paths of the scopes of the user's.
    """
    user_scopes = list(user_scopes)
    all_types = {**subject.types, **dict.fromkeys(user_scopes, NAMED_SCOPE), **called_types}
    keeps_own_order = subject.kind == "keras"
    first, then = (subject.types, called_types) if keeps_own_order else (called_types, subject.types)
    types = {"": subject.types[""]}
    for path in [*first, *then, *user_scopes]:
        for layer in _list_with_layers_around(path):
            types.setdefault(layer, all_types.get(layer, UNMET))
    return types


def _list_with_layers_around(path: str) -> Iterator[str]:
    """Yield the paths of the layers around a layer, the outermost first, and its own; none for the model."""
    parts = path.split(".") if path else []
    for depth in range(1, len(parts) + 1):
        yield ".".join(parts[:depth])
