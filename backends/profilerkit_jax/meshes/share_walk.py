"""The walk over the equations of a step as one device of a mesh runs them: each value has the shape of its share.

The walk goes over the jaxpr of the whole step, whose equations have numbers. XLA keeps the numbers in the program that
it divides for the devices. By them the walk finds there, for each equation:

- the shapes of one device's shares of its results: `ShareWalk.make_value` asks for them;
- the multiply-accumulates of its products, in place of those that a formula would count;
- its exchanges with other devices, each of which becomes an operator before or after the equation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding

from profilerkit.backend_kit.running_order import Body
from profilerkit.costs import matmul

from ..compat import open_jaxpr, parameters
from ..costs.communication import is_communication
from ..trace.frames import Context
from ..trace.origins import Loop
from ..trace.values import Executed, Value, Work
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
    """The equation that the walk is in, and what the walk has met inside.

    Attributes:
        spot: Its place.
        chain: Its numbers: (12, 15) for the equation 15 in the jaxpr of the equation 12.
        own_shares: The shapes of shares that it tells itself, by the shapes of the whole arrays.
        has_body: Whether it has jaxprs inside, as calls, loops and branches have.
        body_times: How often the last jaxpr inside runs, which is the body of a loop.
        lacks_share: Whether an array was met whose share is unknown.
    """

    spot: Spot = field(default_factory=lambda: Spot(Context(), (), ()))
    chain: Chain = ()
    own_shares: Mapping[_Shape, _Shape] = field(default_factory=dict)
    has_body: bool = False
    body_times: int = 1
    lacks_share: bool = False


@dataclass
class ShareWalk(Walk):
    """Walks over jaxprs whose equations have numbers.

    Attributes:
        program: XLA's program for one device.
        waiting: The exchanges for equations that the walk has not met yet, by their numbers.
        exchanged: The exchanges for equations that the walk has met.
        unknown: The names of primitives whose share of work is unknown: they count as on a single device.
    """

    program: DeviceProgram = field(default_factory=DeviceProgram)
    waiting: dict[Chain, list[RankExchange]] = field(default_factory=dict)
    exchanged: list[Exchanged] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    _current: _Current = field(default_factory=_Current)

    # Shares -----------------------------------------------------------------------------------------------------------

    def make_weight(self, aval: Any, value: Any) -> Value:
        """Return the value of a weight: ``value`` has the shape of the device's share, ``aval`` of the whole."""
        return super().make_value(value, constant=True)

    def make_input(self, aval: Any, value: Any) -> Value:
        """Return the value of an input: ``value`` has the shape of the device's share, ``aval`` of the whole."""
        return super().make_value(value)

    def make_value(self, aval: Any, **facts: Any) -> Value:
        """Return the device's share of an array of the equation that the walk is in."""
        return self._make_share(aval, self._find_share(tuple(getattr(aval, "shape", ()))), **facts)

    def make_results(self, equation: Any) -> list[Value]:
        """Return the device's shares of the outputs of an equation; a ``shard_map`` has a spec for each of its own."""
        if equation.primitive.name != "shard_map":
            return super().make_results(equation)
        params = parameters(equation)
        shardings = [NamedSharding(params["mesh"], spec) for spec in params["out_specs"]]
        return [
            self._make_share(variable.aval, sharding.shard_shape(_read_shape(variable)))
            for variable, sharding in zip(equation.outvars, shardings, strict=True)
        ]

    def make_slice(self, aval: Any, stacked: Value, loop: Loop) -> Value:
        """Return the slice that a turn of a loop gets: it is divided as the stacked value is."""
        return self._make_share(aval, tuple(stacked.shape[1:]), constant=stacked.constant, scalar=stacked.scalar)

    def make_stack(self, aval: Any, piece: Value) -> Value:
        """Return the stacked value of all turns of a loop: it is divided as the slice of a turn is."""
        return self._make_share(aval, (aval.shape[0], *piece.shape))

    def _make_share(self, aval: Any, shape: _Shape, **facts: Any) -> Value:
        struct = jax.ShapeDtypeStruct(shape, aval.dtype) if hasattr(aval, "dtype") else aval
        return super().make_value(struct, **facts)

    def _find_share(self, shape: _Shape) -> _Shape:
        """Return the shape of the share of an array, or its own shape if nothing tells the share.

        XLA's program tells it, or else the equation itself. An equation with jaxprs inside is asked first: it has more
        arrays in XLA's program than its results, and another one of this shape may be divided differently.
        """
        if shape == ():
            return shape
        current = self._current
        share = current.own_shares.get(shape)
        if share is None or not current.has_body:
            share = self.program.find_share(current.chain, shape) or share
        current.lacks_share |= share is None
        return share or shape

    # Equations --------------------------------------------------------------------------------------------------------

    def walk_equation(self, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Go over one equation and its exchanges; return the device's shares of its outputs."""
        outer = self._current
        self._current = current = self._describe(equation, inputs, context)
        exchanges = self._take_exchanges(current.chain)
        if is_communication(equation.primitive.name):  # it is the operator of its exchange itself
            outputs, ran = self._walk_share(equation, inputs, context)
            self.exchanged += [Exchanged(ran[-1], exchange, current.spot) for exchange in exchanges]
        else:
            # A reduction adds up the results of the equation, and any other exchange brings its inputs. All exchanges
            # of an equation with jaxprs inside count as exchanged after it.
            after = [exchange for exchange in exchanges if current.has_body or exchange.is_reduction]
            self._note_exchanges([exchange for exchange in exchanges if exchange not in after], inputs, [])
            outputs, _ = self._walk_share(equation, inputs, context)
            self._note_exchanges(after, outputs, outputs)
        self._current = outer
        return outputs

    def _describe(self, equation: Any, inputs: Sequence[Value], context: Context) -> _Current:
        """Return an equation as the walk begins it."""
        weights = tuple(tuple(value.shape) for value in inputs if value.constant and value.scalar is None)
        number = read_number(equation)
        return _Current(
            Spot(context, weights, tuple(map(_read_shape, equation.outvars))),
            self._current.chain if number is None else (*self._current.chain, number),
            _list_shares(equation, inputs),
            has_body=equation.primitive.name in self.handlers,
            body_times=context.times,
        )

    def walk_apart(self, jaxpr: Any, inputs: Sequence[Value], context: Context) -> Body[Work, Value]:
        """Go over a jaxpr inside the equation that the walk is in: of a ``while`` loop the condition, then the body."""
        self._current.body_times = context.times
        return super().walk_apart(jaxpr, inputs, context)

    def _walk_share(
        self, equation: Any, inputs: Sequence[Value], context: Context
    ) -> tuple[list[Value], list[Executed]]:
        """Go over the equation that the walk is in; return its outputs, and the operators that it ran.

        XLA's products of the equation go to its last operator: an equation without jaxprs inside has no other, and the
        equations inside have products of their own.
        """
        start = len(self.work.operators)
        outputs = super().walk_equation(equation, inputs, context)
        ran = self.work.operators[start:]
        if ran and ran[-1].flops and self._current.lacks_share and self.program.shapes:
            self.unknown.setdefault(equation.primitive.name)
        macs = find_by_chain(self.program.macs, self._current.chain)
        if ran and ran[-1].macs and macs:
            ran[-1].macs, ran[-1].flops = matmul.product(macs).times(context.times)
        return outputs, ran

    # Exchanges --------------------------------------------------------------------------------------------------------

    def _take_exchanges(self, chain: Chain) -> list[RankExchange]:
        """Return the exchanges that wait for an equation with these numbers; they wait no more."""
        return next((self.waiting.pop(end) for end in list_ends(chain) if end in self.waiting), [])

    def _note_exchanges(
        self, exchanges: Sequence[RankExchange], inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> None:
        """Note exchanges for the equation that the walk is in, each as an operator with the sums of this rank."""
        spot = self._current.spot
        for exchange in exchanges:
            is_in_body = exchange.instruction.is_in_body  # for a loop: it runs in each turn
            times = self._current.body_times if is_in_body else spot.context.times
            context, cost = replace(spot.context, times=times), exchange.cost.times(times)
            noted = self.note(exchange.message.kind, inputs, outputs, context, cost)
            self.exchanged.append(Exchanged(noted, exchange, spot))


def _list_shares(equation: Any, inputs: Sequence[Value]) -> dict[_Shape, _Shape]:
    """Return the shapes of a device's shares by the shapes of the whole arrays, as far as an equation tells them.

    The inputs of an equation tell them; the jaxpr of a ``shard_map`` takes shares. A shape is left out if arrays of
    this shape are divided differently.
    """
    if equation.primitive.name == "shard_map":
        pairs = {(share, share) for share in map(_read_shape, open_jaxpr(parameters(equation)["jaxpr"]).invars)}
    else:
        pairs = {(_read_shape(atom), tuple(value.shape)) for atom, value in zip(equation.invars, inputs, strict=True)}
    wholes = Counter(whole for whole, _ in pairs)
    return {whole: share for whole, share in pairs if wholes[whole] == 1}


def _read_shape(atom: Any) -> _Shape:
    """Return the shape of a variable or number of a jaxpr on all devices together; a token has none."""
    return tuple(getattr(atom.aval, "shape", ()))
