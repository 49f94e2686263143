"""The walk over the equations of a step as one device of a mesh runs them.

It goes over the jaxpr of the whole step like any walk, with these differences:

- Each value has the shape of the device's share. The weights and inputs are given so. The shares of results are told by
  the program that XLA has divided for the devices: it keeps the numbers of the equations that its arrays are made of.
- If XLA's program does not tell a share, an input of the same shape does. Otherwise the array counts as a whole, and
  its primitive is named.
- A ``shard_map`` has the function of one device inside, and tells the shares of its results itself.
- XLA's program also tells the multiply-accumulates of an equation, in place of a formula.
- The exchanges with other devices become operators: one that brings the inputs of an equation comes before it, one that
  adds up its results after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding

from profilerkit.costs import matmul

from ..compat import open_jaxpr, parameters
from ..costs.communication import is_communication
from ..trace.frames import Context
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


class _Equation(NamedTuple):
    """An equation of the jaxpr.

    Attributes:
        spot: Its place.
        chain: Its numbers: (12, 15) for the equation 15 in the jaxpr of the equation 12.
        told: The shapes of shares that its inputs tell, by the shapes of the whole arrays.
        has_body: Whether it has jaxprs inside, as calls, loops and branches have.
    """

    spot: Spot
    chain: Chain = ()
    told: Mapping[_Shape, _Shape] = {}
    has_body: bool = False


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
    #: The equation that the walk is in; the step itself before the first.
    _here: _Equation = field(default_factory=lambda: _Equation(Spot(Context(), (), ())))

    # The shape of a device's share of each value --------------------------------------------------------------------

    def make_weight(self, aval: Any, value: Any) -> Value:
        """Return the value of a weight; ``value`` has the shape of the device's share."""
        return super().make_value(value, constant=True)

    def make_input(self, aval: Any, value: Any) -> Value:
        """Return the value of an input; ``value`` has the shape of the device's share."""
        return super().make_value(value)

    def make_value(self, aval: Any, **facts: Any) -> Value:
        """Return the device's share of an array of the equation that the walk is in, or the whole if it is unknown."""
        whole = tuple(getattr(aval, "shape", ()))
        return self._make_share(aval, self._find_share(whole) or whole, **facts)

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

    def make_slice(self, aval: Any, stacked: Value) -> Value:
        """Return the slice that a turn of a loop gets: it is divided as the stacked value is."""
        return self._make_share(aval, tuple(stacked.shape[1:]), constant=stacked.constant, scalar=stacked.scalar)

    def make_stack(self, aval: Any, piece: Value) -> Value:
        """Return the stacked value of all turns of a loop: it is divided as the slice of a turn is."""
        return self._make_share(aval, (aval.shape[0], *piece.shape))

    def _make_share(self, aval: Any, shape: _Shape, **facts: Any) -> Value:
        struct = jax.ShapeDtypeStruct(shape, aval.dtype) if hasattr(aval, "dtype") else aval
        return super().make_value(struct, **facts)

    def _find_share(self, whole: _Shape) -> _Shape | None:
        """Return the shape of the share of an array of the equation that the walk is in; None if nothing tells it.

        XLA's arrays with the number of an equation are its results, except where the equation has jaxprs inside: then
        arrays of these may be among them, divided differently, so the inputs of the equation are asked first.
        """
        told = self._here.told.get(whole)
        if told is not None and self._here.has_body:
            return told
        return self.program.find_share(self._here.chain, whole) or told

    # The work of a device on each equation --------------------------------------------------------------------------

    def walk_equation(self, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Go over one equation and its exchanges; return the device's shares of its outputs."""
        outer, self._here = self._here, self._describe(equation, inputs, context)
        exchanges = self._take_exchanges()
        is_exchange = is_communication(equation.primitive.name)  # it is the operator of its exchanges itself
        before = [one for one in exchanges if not (is_exchange or one.is_reduction or self._here.has_body)]
        self._note_exchanges(before, inputs, [], context.times)
        start = len(self.work.operators)
        outputs = super().walk_equation(equation, inputs, context)
        ran = self.work.operators[start:]
        self._correct(equation, ran)
        if is_exchange:
            self.exchanged += [Exchanged(ran[-1], one, self._here.spot) for one in exchanges]
        else:
            # The operators of the body of a loop run in each turn; the last one stands behind the loop.
            turns = min((operator.times for operator in ran[:-1]), default=context.times)
            self._note_exchanges([one for one in exchanges if one not in before], outputs, outputs, turns)
        self._here = outer
        return outputs

    def _describe(self, equation: Any, inputs: Sequence[Value], context: Context) -> _Equation:
        """Return an equation inside the one that the walk is in."""
        weights = tuple(tuple(value.shape) for value in inputs if value.constant and value.scalar is None)
        spot = Spot(context, weights, tuple(map(_read_shape, equation.outvars)))
        number, chain = read_number(equation), self._here.chain
        numbers = chain if number is None else (*chain, number)
        return _Equation(spot, numbers, _list_shares(equation, inputs), equation.primitive.name in self.handlers)

    def _correct(self, equation: Any, ran: Sequence[Executed]) -> None:
        """Give the operator of an equation XLA's products, and name it if its share of work is unknown.

        It is the last one that ran; the equations in the jaxprs of an equation have products of their own.
        """
        if not ran:
            return
        macs = find_by_chain(self.program.macs, self._here.chain)
        if ran[-1].macs and macs:
            ran[-1].macs, ran[-1].flops = matmul.product(macs).times(self._here.spot.context.times)
        is_its_own = ran[-1].operator == equation.primitive.name
        if is_its_own and ran[-1].flops and self.program.shapes and not all(map(self._knows, self._here.spot.outputs)):
            self.unknown.setdefault(equation.primitive.name)

    def _knows(self, whole: _Shape) -> bool:
        """Return whether the share of an array is known; a single number has no other share than itself."""
        return whole == () or self._find_share(whole) is not None

    # Exchanges --------------------------------------------------------------------------------------------------------

    def _take_exchanges(self) -> list[RankExchange]:
        """Return the exchanges that wait for the equation that the walk is in; they wait no more."""
        ends = list_ends(self._here.chain)
        return next((self.waiting.pop(end) for end in ends if end in self.waiting), [])

    def _note_exchanges(
        self, exchanges: Sequence[RankExchange], inputs: Sequence[Value], outputs: Sequence[Value], turns: int
    ) -> None:
        """Note exchanges for the equation that the walk is in, each as an operator with the sums of this rank.

        If it is a loop, its body runs ``turns`` times, and the exchanges there with it.
        """
        spot = self._here.spot
        for exchange in exchanges:
            times = turns if exchange.instruction.is_in_body else spot.context.times
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
