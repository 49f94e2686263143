"""The calls of layers in a program whose operators name their layers: the inputs and outputs of each call.

In a graph of operators, such as that of an exporter or a compiler, each operator names the calls of layers around it.
The inputs and outputs of a call are found from the values that its operators read and make.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple, Protocol

from ..trace.layer_paths import count_depth
from ..trace.records import LayerCall, LayerRecord, TensorInfo, WeightRecord

__all__ = [
    "ROOT",
    "PlacedWeight",
    "Scope",
    "ScopedOperator",
    "ScopedValue",
    "count_weight_bytes",
    "layer_calls",
    "layer_records",
    "read_info",
]


class PlacedWeight(NamedTuple):
    """A weight, and the path of a layer that uses it."""

    path: str
    record: WeightRecord
    is_parameter: bool


class Scope(NamedTuple):
    """A call of a layer: its path, and which call of that layer it is."""

    path: str
    call: int = 0


#: The only call of the model itself.
ROOT = Scope("")


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


class ScopedOperator(Protocol):
    """An operator with the values that it reads and makes."""

    @property
    def inputs(self) -> Sequence[ScopedValue]:
        """The values that it reads."""

    @property
    def outputs(self) -> Sequence[ScopedValue]:
        """The values that it makes."""


def layer_records(
    types: Mapping[str, str],
    weights: Iterable[PlacedWeight],
    calls: Mapping[str, Sequence[LayerCall]] | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[LayerRecord, ...]:
    """Return every layer, in the order of ``types``: the type of each by its path, the model itself first.

    ``settings`` say how layers were created, as `LayerRecord.configuration` has it.
    """
    parameters, buffers = defaultdict[str, list[WeightRecord]](list), defaultdict[str, list[WeightRecord]](list)
    for weight in weights:
        (parameters if weight.is_parameter else buffers)[weight.path].append(weight.record)
    records = []
    for path, kind in types.items():
        record = LayerRecord(
            path=path,
            type=kind,
            depth=count_depth(path),
            parameters=tuple(parameters[path]),
            buffers=tuple(buffers[path]),
            calls=tuple(calls.get(path, ())) if calls else (),
            configuration=settings.get(path, "") if settings else "",
        )
        records.append(record)
    return tuple(records)


def count_weight_bytes(layers: Iterable[LayerRecord]) -> int:
    """Return the bytes of all parameters and buffers; of those that several layers use once."""
    sizes = {weight.identity: weight.bytes for layer in layers for weight in (*layer.parameters, *layer.buffers)}
    return sum(sizes.values())


def layer_calls(
    operators: Sequence[ScopedOperator],
    chains: Sequence[Sequence[Scope]],
    inputs: Iterable[ScopedValue],
    outputs: Sequence[ScopedValue],
    silent: Iterable[Sequence[Scope]] = (),
) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer, in order; ``silent`` are calls in which no operator may run.

    ``chains`` has for each operator the calls around it, the model's own first.

    The inputs of a call are the values from outside that its operators read, without constants. Its outputs are the
    values that other operators read or that the program returns; if there are none, the last value that it makes.
    """
    borders = _make_borders([*silent, *chains])
    made_in: dict[int, Sequence[Scope]] = {}
    for op, chain in zip(operators, chains, strict=True):
        for value in op.inputs:
            if not value.constant:
                _pass_value(value, made_in.get(value.number, ()), chain, borders)
        for value in op.outputs:
            made_in.setdefault(value.number, chain)
            for scope in chain:
                borders[scope].last = value
    for value in outputs:
        for scope in made_in.get(value.number, ()):
            borders[scope].outputs[value.number] = value
    # The model has all of its inputs and outputs, also inputs that are not read, and outputs that are one value.
    root = borders[ROOT]
    root.inputs = {value.number: value for value in inputs}
    root.outputs = dict(enumerate(outputs))
    calls: dict[str, list[LayerCall]] = {}
    for scope in sorted(borders, key=attrgetter("call")):
        calls.setdefault(scope.path, []).append(borders[scope].make_call())
    return calls


@dataclass
class _Border:
    """The values that cross the border of a call, by their numbers, and the last value that is made inside of it.

    ``caller`` is the path of the layer that made the call, and the index of that layer's call; None for the root.
    """

    caller: tuple[str, int] | None = None
    inputs: dict[int, ScopedValue] = field(default_factory=dict)
    outputs: dict[int, ScopedValue] = field(default_factory=dict)
    last: ScopedValue | None = None

    def make_call(self) -> LayerCall:
        """Return the call with its tensors."""
        outputs = self.outputs.values() or ([] if self.last is None else [self.last])
        return LayerCall(tuple(map(read_info, self.inputs.values())), tuple(map(read_info, outputs)), self.caller)


read_info: Callable[[ScopedValue], TensorInfo] = attrgetter("info")


def _make_borders(chains: Iterable[Sequence[Scope]]) -> dict[Scope, _Border]:
    """Return the borders of all calls, which no value has crossed yet."""
    borders = {ROOT: _Border()}
    for chain in chains:
        for outer, inner in pairwise(chain):
            if inner not in borders:
                borders[inner] = _Border((outer.path, outer.call))
    return borders


def _pass_value(
    value: ScopedValue, source: Sequence[Scope], chain: Sequence[Scope], borders: Mapping[Scope, _Border]
) -> None:
    """Note a value that leaves the calls in which it was made, and enters the calls in which it is read."""
    for scope in chain:
        if scope not in source:
            borders[scope].inputs[value.number] = value
    for scope in source:
        if scope not in chain:
            borders[scope].outputs[value.number] = value
