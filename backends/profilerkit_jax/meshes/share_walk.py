"""The walk over the equations of a step as one device of a mesh runs them: all values have the shapes of its share.

It walks over the jaxpr of the whole step, whose equations have numbers. By these it finds in XLA's divided program the
part of each equation that one device computes, and the exchanges for it: of its inputs before it runs, or of its
outputs after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding

from profilerkit.backend_kit.program_parts import list_counted
from profilerkit.costs import matmul

from ..compat import open_jaxpr, parameters
from ..costs.communication import is_communication
from ..trace.frames import Context
from ..trace.origins import Loop
from ..trace.values import Executed, Value
from ..trace.walk import Walk
from .device_program import DeviceProgram
from .exchanges import RankExchange
from .numbered import Chain, find_by_chain, list_ends, read_number

__all__ = ["Exchanged", "ShareWalk", "Spot"]

_Shape = tuple[int, ...]


class Spot(NamedTuple):
    """The place of an equation.

    Attributes:
        context: The layer that it is in, the phase, and how often it runs.
        weights: The shapes of one device's shares of the weights that it reads.
        outputs: The shapes of its results on all devices together.
    """

    context: Context
    weights: tuple[_Shape, ...]
    outputs: tuple[_Shape, ...]


class Exchanged(NamedTuple):
    """An exchange, with the operator that the walk has noted for it, and the place of its equation in the jaxpr."""

    by: Executed
    exchange: RankExchange
    spot: Spot


@dataclass
class _Current:
    """The equation that the walk is in.

    Attributes:
        chain: Its numbers.
        own_shares: The shapes of shares by the shapes of whole arrays, as far as the equation tells them itself.
        has_body: Whether it has jaxprs inside: XLA's program has more arrays of it than the equation returns.
        unknown: The shapes of its arrays whose share nothing has told: they count as a whole.
    """

    chain: Chain = ()
    own_shares: Mapping[_Shape, _Shape] = field(default_factory=dict)
    has_body: bool = False
    unknown: set[_Shape] = field(default_factory=set)

    def find_share(self, shape: _Shape, program: DeviceProgram) -> _Shape:
        """Return the shape of a device's share of one of its arrays, or the whole shape if nothing tells the share.

        XLA's program tells it, or else the equation itself, which is asked first if it has a body.
        """
        told, divided = self.own_shares.get(shape), program.find_share(self.chain, shape)
        share = (told or divided) if self.has_body else (divided or told)
        if share is None:
            self.unknown.add(shape)
        return share or shape


@dataclass
class ShareWalk(Walk):
    """Walks over jaxprs whose equations have numbers.

    Attributes:
        program: XLA's program for one device.
        waiting: The exchanges for equations that the walk has not met yet, by their numbers.
        exchanged: The exchanges for equations that the walk has met.
        spots: The position of each equation, by its numbers, and by the innermost of them.
        unknown: The names of primitives whose share of work is unknown: they count as on a single device.
    """

    program: DeviceProgram = field(default_factory=DeviceProgram)
    waiting: dict[Chain, list[RankExchange]] = field(default_factory=dict)
    exchanged: list[Exchanged] = field(default_factory=list)
    spots: dict[Chain, Spot] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    _current: _Current = field(default_factory=_Current)

    def make_weight(self, aval: Any, value: Any) -> Value:
        return super().make_weight(value, value)

    def make_input(self, aval: Any, value: Any) -> Value:
        return super().make_input(value, None)

    def make_value(self, aval: Any, **facts: Any) -> Value:
        shape = tuple(getattr(aval, "shape", ()))
        return self._make_share(aval, self._current.find_share(shape, self.program) if shape else shape, **facts)

    def make_slice(self, aval: Any, stacked: Value, loop: Loop) -> Value:
        return self._make_share(aval, tuple(stacked.shape[1:]), constant=stacked.constant, scalar=stacked.scalar)

    def make_stack(self, aval: Any, piece: Value) -> Value:
        return self._make_share(aval, (aval.shape[0], *piece.shape))

    def _make_share(self, aval: Any, shape: _Shape, **facts: Any) -> Value:
        struct = jax.ShapeDtypeStruct(shape, aval.dtype) if hasattr(aval, "dtype") else aval
        return super().make_value(struct, **facts)

    def walk_equation(self, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        number, name = read_number(equation), equation.primitive.name
        chain = self._current.chain if number is None else (*self._current.chain, number)
        current = _Current(chain, _list_shares(equation, inputs), has_body=name in self.handlers)
        spot = _describe_spot(equation, inputs, context)
        exchanges = self._take_exchanges(chain, spot)
        if is_communication(name):  # it is the operator of its exchange itself
            outputs, ran = self._walk_inside(equation, inputs, context, current)
            self.exchanged.extend(Exchanged(ran[-1], exchange, spot) for exchange in exchanges)
            return outputs
        # The inputs of an equation are exchanged before it runs, and its results are reduced after it. All exchanges of
        # an equation with jaxprs inside count as exchanged after it.
        after = [exchange for exchange in exchanges if current.has_body or exchange.is_reduction]
        before = [exchange for exchange in exchanges if exchange not in after]
        for exchange in before:
            self._note_exchange(exchange, inputs, [], spot)
        outputs, _ = self._walk_inside(equation, inputs, context, current)
        for exchange in after:
            self._note_exchange(exchange, outputs, outputs, spot)
        return outputs

    def _take_exchanges(self, chain: Chain, spot: Spot) -> list[RankExchange]:
        """Return the waiting exchanges for an equation, which wait no more, and note the place of the equation."""
        for end in list_ends(chain):
            self.spots.setdefault(end, spot)
        return next((self.waiting.pop(end) for end in list_ends(chain) if end in self.waiting), [])

    def _walk_inside(
        self, equation: Any, inputs: Sequence[Value], context: Context, current: _Current
    ) -> tuple[list[Value], list[Executed]]:
        """Walk an equation; return its outputs, and the operators that it ran."""
        parts_before, outer = len(self.work.parts), self._current
        self._current = current
        try:
            outputs = super().walk_equation(equation, inputs, context)
        finally:
            self._current = outer
        ran = list_counted(self.work.parts[parts_before:])
        if ran:
            self._count_divided(ran[-1], equation, current, context)
        return outputs, ran

    def _count_divided(self, last: Executed, equation: Any, current: _Current, context: Context) -> None:
        """Count the products that XLA's program has of an equation, whose last operator gets them."""
        if self.program.shapes and last.flops and current.unknown:
            self.unknown.setdefault(equation.primitive.name)
        macs = find_by_chain(self.program.macs, current.chain)
        if macs and last.macs:
            last.macs, last.flops = matmul.product(macs).times(context.times)

    def _note_exchange(
        self, exchange: RankExchange, inputs: Sequence[Value], outputs: Sequence[Value], spot: Spot
    ) -> None:
        """Note an exchange as an operator: the sums of this rank, for all its runs."""
        times = spot.context.times
        if exchange.instruction.is_in_body:  # in a loop, and of none of the equations in its body
            loop = exchange.instruction.chain
            times = max(inside.context.times for chain, inside in self.spots.items() if chain[: len(loop)] == loop)
        where = replace(spot.context, times=times)
        noted = self.note(exchange.message.kind, inputs, outputs, where, exchange.cost.times(times))
        self.exchanged.append(Exchanged(noted, exchange, spot))


def _describe_spot(equation: Any, inputs: Sequence[Value], context: Context) -> Spot:
    weights = tuple(tuple(value.shape) for value in inputs if value.constant and value.scalar is None)
    whole_outputs = tuple(tuple(getattr(variable.aval, "shape", ())) for variable in equation.outvars)
    return Spot(context, weights, whole_outputs)


def _list_shares(equation: Any, inputs: Sequence[Value]) -> dict[_Shape, _Shape]:
    """Return the shape of a device's share by the shape of the whole, for the inputs of an equation.

    For a ``shard_map``, for its outputs, and for the shares that it goes over.
    """
    if equation.primitive.name != "shard_map":
        pairs = zip(equation.invars, inputs, strict=True)
        return {tuple(getattr(atom.aval, "shape", ())): tuple(value.shape) for atom, value in pairs}
    params = parameters(equation)
    shares = {tuple(variable.aval.shape): tuple(variable.aval.shape) for variable in open_jaxpr(params["jaxpr"]).invars}
    for variable, spec in zip(equation.outvars, params["out_specs"], strict=True):
        shares[tuple(variable.aval.shape)] = NamedSharding(params["mesh"], spec).shard_shape(variable.aval.shape)
    return shares
