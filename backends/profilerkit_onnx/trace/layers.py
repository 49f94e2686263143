"""The layers of a trace: their weights, and what goes into each of their calls and comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from profilerkit.trace.records import LayerCall, LayerRecord, TensorInfo, WeightRecord
from profilerkit.trace.rows import depth_of

from ..model.scopes import Scope, Scopes
from .values import Executed, Value

__all__ = ["layer_calls", "layer_records"]

Weights = Mapping[str, tuple[list[WeightRecord], list[WeightRecord]]]


def layer_records(
    scopes: Scopes, weights: Weights, calls: Mapping[str, Sequence[LayerCall]] | None = None
) -> tuple[LayerRecord, ...]:
    """Return every layer in the order of the graph, the model itself first."""
    records = []
    for path, kind in scopes.types.items():
        parameters, buffers = weights.get(path, ([], []))
        made = tuple((calls or {}).get(path, ()))
        records.append(LayerRecord(path, kind, depth_of(path), tuple(parameters), tuple(buffers), made))
    return tuple(records)


def layer_calls(
    scopes: Scopes, executed: Sequence[Executed], inputs: Iterable[Value], outputs: Sequence[Value]
) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer, in order.

    What goes into a call are the values that its nodes read and that come from outside of it, constants aside. What
    comes out are those that others read, or that the graph returns; where nobody reads any, the last that it makes.
    """
    callers = _callers(scopes)
    made_in: dict[int, tuple[Scope, ...]] = {}
    into: dict[Scope, dict[int, Value]] = {scope: {} for scope in callers}
    out: dict[Scope, dict[int, Value]] = {scope: {} for scope in callers}
    last: dict[Scope, Value] = {}
    for each in executed:
        chain = scopes.chains[each.node]
        for value in each.inputs:
            if not value.constant:
                _passed(value, made_in.get(value.number, ()), chain, into, out)
        for value in each.outputs:
            made_in.setdefault(value.number, chain)
            last.update(dict.fromkeys(chain, value))
    for value in outputs:
        for scope in made_in.get(value.number, ()):
            out[scope][value.number] = value
    root = Scope("")
    into[root] = {value.number: value for value in inputs}
    out[root] = dict(enumerate(outputs))
    calls: dict[str, list[LayerCall]] = {}
    for scope in sorted(callers, key=lambda scope: scope.call):
        returned = list(out[scope].values()) or [last[scope]] if scope in last or out[scope] else []
        call = LayerCall(_infos(into[scope].values()), _infos(returned), callers[scope])
        calls.setdefault(scope.path, []).append(call)
    return calls


def _passed(
    value: Value,
    source: Sequence[Scope],
    chain: Sequence[Scope],
    into: dict[Scope, dict[int, Value]],
    out: dict[Scope, dict[int, Value]],
) -> None:
    """Note a value that leaves the calls it was made in, and enters those it is read in."""
    for scope in chain:
        if scope not in source:
            into[scope][value.number] = value
    for scope in source:
        if scope not in chain:
            out[scope][value.number] = value


def _callers(scopes: Scopes) -> dict[Scope, tuple[str, int] | None]:
    """Return who made each call of a layer, by the call; None for the model itself."""
    callers: dict[Scope, tuple[str, int] | None] = {Scope(""): None}
    for chain in scopes.chains:
        for outer, inner in pairwise(chain):
            callers.setdefault(inner, (outer.path, outer.call))
    return callers


def _infos(values: Iterable[Value]) -> tuple[TensorInfo, ...]:
    return tuple(value.info for value in values)
