"""The calls of layers in a program whose operators know their layers: what goes into each call, and what comes out.

A graph of operators, such as that of an exporter or a compiler, has no calls: each operator names the calls of layers
that it is in. What crosses the border of a call is found from the values that its operators read and make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from ..trace.records import LayerCall, LayerRecord, TensorInfo, WeightRecord
from ..trace.rows import count_depth

__all__ = ["PlacedOperator", "Scope", "ScopedValue", "Weights", "layer_calls", "layer_records"]

#: The parameters and buffers of each layer, by its path.
Weights = Mapping[str, tuple[Sequence[WeightRecord], Sequence[WeightRecord]]]


class Scope(NamedTuple):
    """A call of a layer: its path, and which call of that layer it is."""

    path: str
    call: int = 0


class ScopedValue(Protocol):
    """A value of a program: values of equal number are one, and a constant is no input of a layer."""

    @property
    def number(self) -> int:
        """The number that the value is known by."""

    @property
    def constant(self) -> bool:
        """Whether it is a weight, or another value that no caller gives."""

    @property
    def info(self) -> TensorInfo:
        """Its shape and dtype."""


class PlacedOperator(Protocol):
    """An operator with what it reads and makes, and the calls of layers that it is in, the model's own first."""

    @property
    def inputs(self) -> Sequence[ScopedValue]:
        """The values that it reads."""

    @property
    def outputs(self) -> Sequence[ScopedValue]:
        """The values that it makes."""

    @property
    def chain(self) -> Sequence[Scope]:
        """The calls that it is in."""


def layer_records(
    types: Mapping[str, str], weights: Weights, calls: Mapping[str, Sequence[LayerCall]] | None = None
) -> tuple[LayerRecord, ...]:
    """Return every layer, in the order of ``types``: the type of each by its path, the model itself first."""
    records = []
    for path, kind in types.items():
        parameters, buffers = weights.get(path, ((), ()))
        made = tuple((calls or {}).get(path, ()))
        records.append(LayerRecord(path, kind, count_depth(path), tuple(parameters), tuple(buffers), made))
    return tuple(records)


def layer_calls(
    operators: Iterable[PlacedOperator],
    inputs: Iterable[ScopedValue],
    outputs: Sequence[ScopedValue],
    silent: Iterable[Sequence[Scope]] = (),
) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer, in order; ``silent`` are those in which no operator may run.

    What goes into a call are the values that its operators read and that come from outside of it, constants aside. What
    comes out are those that others read, or that the program returns; where nobody reads any, the last that it makes.
    """
    root = Scope("")
    callers: dict[Scope, tuple[str, int] | None] = {root: None}
    made_in: dict[int, Sequence[Scope]] = {}
    into: dict[Scope, dict[int, ScopedValue]] = {root: {}}
    out: dict[Scope, dict[int, ScopedValue]] = {root: {}}
    last: dict[Scope, ScopedValue] = {}
    operators = tuple(operators)
    for chain in (*silent, *(op.chain for op in operators)):
        for outer, inner in pairwise(chain):
            callers.setdefault(inner, (outer.path, outer.call))
            into.setdefault(inner, {})
            out.setdefault(inner, {})
    for op in operators:
        for value in op.inputs:
            if not value.constant:
                _pass(value, made_in.get(value.number, ()), op.chain, into, out)
        for value in op.outputs:
            made_in.setdefault(value.number, op.chain)
            last.update(dict.fromkeys(op.chain, value))
    for value in outputs:
        for scope in made_in.get(value.number, ()):
            out[scope][value.number] = value
    into[root] = {value.number: value for value in inputs}
    out[root] = dict(enumerate(outputs))
    calls: dict[str, list[LayerCall]] = {}
    for scope in sorted(callers, key=lambda scope: scope.call):
        returned = list(out[scope].values()) or [last[scope]] if scope in last or out[scope] else []
        call = LayerCall(_infos(into[scope].values()), _infos(returned), callers[scope])
        calls.setdefault(scope.path, []).append(call)
    return calls


def _pass(
    value: ScopedValue,
    source: Sequence[Scope],
    chain: Sequence[Scope],
    into: dict[Scope, dict[int, ScopedValue]],
    out: dict[Scope, dict[int, ScopedValue]],
) -> None:
    """Note a value that leaves the calls it was made in, and enters those it is read in."""
    for scope in chain:
        if scope not in source:
            into[scope][value.number] = value
    for scope in source:
        if scope not in chain:
            out[scope][value.number] = value


def _infos(values: Iterable[ScopedValue]) -> tuple[TensorInfo, ...]:
    return tuple(value.info for value in values)
