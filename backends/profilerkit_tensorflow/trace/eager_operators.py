"""Operators that TensorFlow runs one by one, as its callbacks show them: their layers, their cost, the bytes alive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from profilerkit.process.restoring import restored

from ..compat.eager_runs import add_callback, remove_callback
from ..costs import OpCall
from .eager_calls import describe_tensor, make_call
from .eager_patterns import EagerPatterns
from .ownership import Owner
from .pricing import make_layer_operator, price
from .values import Executed

__all__ = ["EagerOperators", "watch_operators"]


class _Ran(NamedTuple):
    """One operator that ran, how its formula sees that call, and the bytes alive after it."""

    executed: Executed
    call: OpCall
    live_bytes: int


class EagerOperators:
    """Keeps the operators of a pass: `record` takes each after it ran, `price_all` computes at the end what they cost.

    Attributes:
        executed: The operators in the order in which they ran, and one for each call of a layer that has a formula;
            from `price_all`.
        live_bytes: The bytes alive after each of them; from `price_all`.
        uncounted: The operators without a known cost, with the number of their calls.
    """

    def __init__(self) -> None:
        self.executed: list[Executed] = []
        self.live_bytes: list[int] = []
        self.uncounted: Counter[str] = Counter()
        self._ran: list[_Ran] = []
        self._patterns = EagerPatterns()

    def record(
        self,
        kind: str,
        inputs: Sequence[Any],
        attributes: Any,
        outputs: Sequence[Any],
        owner: Owner,
        live_bytes: int = 0,
    ) -> None:
        """Keep one operator, which has run in a layer's call.

        Args:
            kind: The type of the operator.
            inputs: The tensors that it was called with.
            attributes: Its attributes as TensorFlow gives them: name, value, name, value.
            outputs: The tensors that it has made.
            owner: The call of the layer.
            live_bytes: The bytes alive after it.
        """
        read = list(map(describe_tensor, inputs))
        executed = Executed(
            type=kind,
            name=kind,
            inputs=tuple(tensor.number for tensor in read),
            outputs=tuple(map(describe_tensor, outputs)),
            times=1,
            owner=owner,
            input_bytes=sum(tensor.bytes for tensor in read),
            input_dtypes=tuple(tensor.dtype for tensor in read[:2]),
        )
        self._ran.append(_Ran(executed, make_call(kind, inputs, attributes, outputs), live_bytes))
        self._patterns.note(executed, inputs, outputs)

    def price_all(self) -> None:
        """Compute the cost of all operators, once it is known which layers have a formula.

        The formula of a layer stands for all operators inside the layer, which then count nothing themselves.
        """
        counted: set[Owner] = set()
        for ran in self._ran:
            self._keep(ran.executed, ran.live_bytes)
            layer_cost = ran.executed.owner.find_layer_cost()
            if layer_cost is None:
                price(ran.executed, ran.call)
            elif layer_cost.call not in counted:
                counted.add(layer_cost.call)
                self._keep(make_layer_operator(layer_cost, times=1), ran.live_bytes)
            if ran.executed.missing:
                self.uncounted[ran.executed.missing] += 1
        self._patterns.apply()

    def _keep(self, executed: Executed, live_bytes: int) -> None:
        self.executed.append(executed)
        self.live_bytes.append(live_bytes)


@contextmanager
def watch_operators(callback: Any) -> Iterator[None]:
    """Have TensorFlow call a function after each operator that this thread runs."""
    with restored(partial(remove_callback, callback), in_child=False):
        add_callback(callback)
        yield
