"""Operators that TensorFlow runs one by one, as its callbacks show them: what they are called with, and their cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.costs import Cost, Shape
from profilerkit.process.restoring import restored

from ..compat.eager_runs import add_callback, remove_callback
from ..costs import OpCall, Shapes
from .eager_patterns import EagerPatterns
from .ownership import Owner
from .pricing import make_layer_operator, price
from .tensor_facts import Tensor, static_shape
from .values import Executed

__all__ = ["EagerOperators", "is_small", "watch_operators"]


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
        read = list(map(_describe, inputs))
        executed = Executed(
            type=kind,
            name=kind,
            inputs=tuple(tensor.number for tensor in read),
            outputs=tuple(map(_describe, outputs)),
            times=1,
            owner=owner,
            input_bytes=sum(tensor.bytes for tensor in read),
            input_dtypes=tuple(tensor.dtype for tensor in read[:2]),
        )
        self._ran.append(_Ran(executed, _make_call(kind, inputs, attributes, outputs), live_bytes))
        self._patterns.note(executed, inputs, outputs)

    def price_all(self) -> None:
        """Compute the cost of all operators, once it is known which layers have a formula.

        The formula of a layer stands for all operators inside the layer, which then count nothing themselves.
        """
        costs: dict[Owner, Cost | None] = {}
        for executed, call, live_bytes in self._ran:
            self._keep(executed, live_bytes)
            covering = executed.owner.cover
            if covering is not None and covering not in costs:
                costs[covering] = cost = None if covering.cost is None else covering.cost()
                if cost is not None:
                    self._keep(make_layer_operator(covering, cost, 1), live_bytes)
            if covering is None or costs[covering] is None:
                price(executed, call)
            if executed.missing:
                self.uncounted[executed.missing] += 1
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


def _describe(tensor: Any) -> Tensor:
    """Return number, shape and dtype of an eager tensor, which is known by its `id` while it is alive."""
    return Tensor(id(tensor), static_shape(tensor), tensor.dtype.name)


def _make_call(kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any]) -> OpCall:
    """Return a call as formulas get it; the numbers in small tensors are read now, as the tensors are not kept."""
    values = [tensor.numpy() if is_small(tensor) else None for tensor in inputs]
    return OpCall(
        type=kind,
        inputs=Shapes([_find_known_shape(tensor) for tensor in inputs]),
        outputs=Shapes([_find_known_shape(tensor) for tensor in outputs]),
        input_dtypes=tuple(tensor.dtype.name for tensor in inputs),
        output_dtypes=tuple(tensor.dtype.name for tensor in outputs),
        attribute=_name_attributes(attributes).get,
        value=values.__getitem__,
    )


def _name_attributes(flat: Any) -> dict[str, Any]:
    """Return an eager operator's attributes by name, text as ``str``."""
    named = dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in named.items()}


def _find_known_shape(tensor: Any) -> Shape | None:
    """Return the shape of a tensor; None where a size is not known."""
    shape = static_shape(tensor)
    return None if shape is None or None in shape else Shape(size for size in shape if size is not None)


def is_small(tensor: Any) -> bool:
    """Return whether the numbers in a tensor may be read at each operator."""
    return tensor.dtype not in (tf.resource, tf.variant, tf.string) and (tensor.shape.num_elements() or 0) <= 64
