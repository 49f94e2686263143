"""The walk over the equations of a step as one device of a mesh runs them: all values have the shapes of its share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding

from profilerkit.costs import matmul

from ..compat import open_jaxpr, parameters
from ..costs.communication import is_communication
from ..trace.frames import Context, Frame
from ..trace.origins import Loop
from ..trace.values import Value
from ..trace.walk import Walk
from ..trace.work import Executed
from .device_program import DeviceProgram
from .exchanges import RankExchange
from .numbered import Chain, find_by_chain, list_ends, read_number

__all__ = ["Exchanged", "ShareWalk", "Spot"]

_Shape = tuple[int, ...]


class Spot(NamedTuple):
    """Where an equation stands.

    Attributes:
        frame: The layer that it is in, and the phase.
        times: How often it runs.
        weights: The shapes of one device's shares of the weights that it reads.
        outputs: The shapes of what it makes on all devices together.
    """

    frame: Frame
    times: int
    weights: tuple[_Shape, ...]
    outputs: tuple[_Shape, ...]


class Exchanged(NamedTuple):
    """What was exchanged: by which of the equations that the walk noted, and for which equation of the jaxpr."""

    by: Executed
    exchange: RankExchange
    spot: Spot


class _EquationExchanges(NamedTuple):
    """What is exchanged for an equation, before it runs and after."""

    before: Sequence[RankExchange]
    after: Sequence[RankExchange]


@dataclass
class _Equation:
    """The equation that is gone over.

    Attributes:
        chain: Its numbers.
        shares: The shapes of shares by those of whole arrays, as far as it tells them itself.
        has_body: Whether it has jaxprs inside: XLA's program has more arrays of it than the equation returns.
        is_told: Whether the shapes of all that it makes are known.
    """

    chain: Chain = ()
    shares: Mapping[_Shape, _Shape] = field(default_factory=dict)
    has_body: bool = False
    is_told: bool = True


@dataclass
class ShareWalk(Walk):
    """Goes over jaxprs whose equations have numbers.

    Attributes:
        program: What XLA made of them for one device.
        waiting: What is exchanged for equations that the walk has not met yet, by their numbers.
        exchanged: What is exchanged for those that it has met.
        spots: Where each equation stands, by its numbers, and by the innermost of them.
        unknown: The names of primitives with work whose share nothing tells: they count as on one device alone.
    """

    program: DeviceProgram = field(default_factory=DeviceProgram)
    waiting: dict[Chain, list[RankExchange]] = field(default_factory=dict)
    exchanged: list[Exchanged] = field(default_factory=list)
    spots: dict[Chain, Spot] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    _equation: _Equation = field(default_factory=_Equation)

    def make_weight(self, aval: Any, value: Any) -> Value:
        return super().make_weight(value, value)

    def make_input(self, aval: Any, value: Any) -> Value:
        return super().make_input(value, None)

    def make_value(self, aval: Any, **facts: Any) -> Value:
        shape = tuple(getattr(aval, "shape", ()))
        return self._make_share(aval, self._find_share(shape) if shape else shape, **facts)

    def make_slice(self, aval: Any, stacked: Value, loop: Loop) -> Value:
        return self._make_share(aval, tuple(stacked.shape[1:]), constant=stacked.constant, scalar=stacked.scalar)

    def make_stack(self, aval: Any, piece: Value) -> Value:
        return self._make_share(aval, (aval.shape[0], *piece.shape))

    def _make_share(self, aval: Any, shape: _Shape, **facts: Any) -> Value:
        struct = jax.ShapeDtypeStruct(shape, aval.dtype) if hasattr(aval, "dtype") else aval
        return super().make_value(struct, **facts)

    def _find_share(self, shape: _Shape) -> _Shape:
        """Return the shape of a device's share of an array of the equation that is gone over.

        XLA's program tells it; of an equation with a body rather the equation itself, as far as it does. Where neither
        tells, the whole array counts.
        """
        equation = self._equation
        share = equation.shares.get(shape)
        if share is None or not equation.has_body:
            share = self.program.find_share(equation.chain, shape) or share
        if share is None:
            equation.is_told = False
            return shape
        return share

    def walk_equation(self, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        around = self._equation
        entered = self._equation = self._enter(equation, inputs)
        spot = _describe_spot(equation, inputs, context)
        for end in list_ends(entered.chain):
            self.spots.setdefault(end, spot)
        is_exchange = is_communication(equation.primitive.name)
        exchanges = self._take_exchanges(entered, is_exchange)
        for exchange in exchanges.before:
            self._note_exchange(exchange, inputs, [], context, spot)
        operators_before = len(self.work.executed)
        try:
            outputs = super().walk_equation(equation, inputs, context)
        finally:
            self._equation = around
        if len(self.work.executed) > operators_before:
            self._count_divided(equation, entered, context)
        for exchange in exchanges.after:
            if is_exchange:  # it is the operator of its exchange itself
                self.exchanged.append(Exchanged(self.work.executed[-1], exchange, spot))
            else:
                self._note_exchange(exchange, outputs, outputs, context, spot)
        return outputs

    def _enter(self, equation: Any, inputs: Sequence[Value]) -> _Equation:
        """Return an equation that is gone over inside of the present one."""
        number = read_number(equation)
        chain = self._equation.chain if number is None else (*self._equation.chain, number)
        return _Equation(chain, _list_shares(equation, inputs), equation.primitive.name in self.handlers)

    def _take_exchanges(self, entered: _Equation, is_exchange: bool) -> _EquationExchanges:
        """Take what is exchanged for an equation out of what is waiting.

        What it reads is exchanged before it runs, and what it made is reduced after that. Of an equation that exchanges
        something itself, and of one with jaxprs inside, all counts as exchanged after it.
        """
        exchanges = next((self.waiting.pop(end) for end in list_ends(entered.chain) if end in self.waiting), [])
        if is_exchange or entered.has_body:
            return _EquationExchanges([], exchanges)
        return _EquationExchanges(
            before=[exchange for exchange in exchanges if not exchange.is_reduction],
            after=[exchange for exchange in exchanges if exchange.is_reduction],
        )

    def _count_divided(self, equation: Any, entered: _Equation, context: Context) -> None:
        """Count the products that XLA's program has of an equation."""
        last = self.work.executed[-1]
        if self.program.shapes and last.flops and not entered.is_told:
            self.unknown.setdefault(equation.primitive.name)
        macs = find_by_chain(self.program.macs, entered.chain)
        if macs and last.macs:
            last.macs, last.flops = matmul.product(macs).times(context.times)

    def _note_exchange(
        self,
        exchange: RankExchange,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        context: Context,
        spot: Spot,
    ) -> None:
        """Note an exchange as an operator: what the rank adds up, as often as it runs."""
        times = context.times
        if exchange.instruction.is_in_body:  # in a loop, and of none of the equations in its body
            around = exchange.instruction.chain
            times = max(inside.times for chain, inside in self.spots.items() if chain[: len(around)] == around)
        where = replace(context, times=times)
        self.note(exchange.message.kind, inputs, outputs, where, exchange.cost.times(times))
        self.exchanged.append(Exchanged(self.work.executed[-1], exchange, spot))


def _describe_spot(equation: Any, inputs: Sequence[Value], context: Context) -> Spot:
    weights = tuple(tuple(value.shape) for value in inputs if value.constant and value.scalar is None)
    whole_outputs = tuple(tuple(getattr(variable.aval, "shape", ())) for variable in equation.outvars)
    return Spot(context.frame, context.times, weights, whole_outputs)


def _list_shares(equation: Any, inputs: Sequence[Value]) -> dict[_Shape, _Shape]:
    """Return the shape of a device's share by that of the whole, for the inputs of an equation.

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
