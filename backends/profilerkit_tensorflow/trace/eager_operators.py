"""Operators that TensorFlow runs one by one, as its callbacks show them: what they are called with, and their cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit.costs import Shape
from profilerkit.process.restoring import restored

from ..compat import add_callback, remove_callback
from ..costs import OpCall, Shapes
from .dilation import CONVOLUTIONS, TO_SPACE
from .live_bytes import tensor_bytes
from .ownership import Owner
from .pricing import layer_work, price
from .sparse_products import GATHERS, HANDING_ON, SUMS, as_product
from .values import Executed, static_shape

__all__ = ["VIEWS", "EagerOperators", "is_small", "watch_operators"]

#: Operators whose output is their first input under another name or shape.
VIEWS = ("Identity", "Reshape", "Squeeze", "ExpandDims", "ReadVariableOp", "StopGradient", "Bitcast", "EnsureShape")


class EagerOperators:
    """Keeps the operators of a pass in the order in which they ran; `price_all` computes what they cost."""

    def __init__(self) -> None:
        self.executed: list[Executed] = []
        self.live_bytes: list[int] = []
        self.uncounted: Counter[str] = Counter()
        self._prices: list[OpCall] = []
        #: The operator that made a tensor, by the id of the tensor while it is alive; uncropped shares of convolutions.
        self._makers: dict[int, Executed] = {}
        self._left: list[tuple[Executed, Fraction]] = []
        #: Multiplications of gathered rows, and with which sums over them they are products.
        self._weighted: set[int] = set()
        self._products: list[tuple[Executed, Executed]] = []

    def ran(self, kind: str, ins: Sequence[Any], attrs: Any, outs: Sequence[Any], owner: Owner, alive: int = 0) -> None:
        """Keep one operator, which has run in a layer's call; ``alive`` are the bytes alive after it."""
        self.executed.append(
            Executed(
                type=kind,
                name=kind,
                inputs=tuple(map(id, ins)),
                outputs=tuple((id(tensor), static_shape(tensor), tensor.dtype.name) for tensor in outs),
                times=1,
                owner=owner,
                input_bytes=sum(tensor_bytes(static_shape(tensor), tensor.dtype.name) for tensor in ins),
                input_dtypes=tuple(tensor.dtype.name for tensor in ins[:2]),
            )
        )
        self._note_makers(kind, ins, outs)
        self._prices.append(_make_call(kind, ins, attrs, outs))
        self.live_bytes.append(alive)

    def _note_makers(self, kind: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note which operator made a tensor, and the uncropped share of a dilated convolution's output."""
        maker = self._makers.get(id(inputs[0])) if inputs else None
        if kind in TO_SPACE and maker is not None and maker.type in CONVOLUTIONS:
            whole, left = (tensor.shape.num_elements() for tensor in (inputs[0], outputs[0]))
            self._left.append((maker, Fraction(left, whole)))
        latest = self.executed[-1]
        makers = [self._makers.get(id(tensor)) for tensor in inputs]
        if kind == "Mul" and any(one_maker is not None and one_maker.type in GATHERS for one_maker in makers):
            self._weighted.add(id(latest))
        elif kind in SUMS and maker is not None and id(maker) in self._weighted:
            self._products.append((maker, latest))
        done = maker if kind in (*VIEWS, *HANDING_ON) and maker is not None else latest
        self._makers.update((id(tensor), done) for tensor in outputs)

    def price_all(self) -> None:
        """Compute the cost of all operators, once it is known which layers have a formula."""
        priced: list[tuple[Executed, int]] = []
        used: set[int] = set()
        for done, call, live in zip(self.executed, self._prices, self.live_bytes, strict=True):
            priced.append((done, live))
            covering = done.owner.covered_by
            cost = covering.cost() if covering is not None and covering.cost is not None else None
            if covering is None or cost is None:
                price(done, call, self.uncounted)
            elif id(covering) not in used:
                used.add(id(covering))
                priced.append((layer_work(covering, cost, 1), live))
        for convolution, share in self._left:
            convolution.scale(share)
        for multiplied, summed in self._products:
            as_product(multiplied, summed)
        self.executed = [done for done, _ in priced]
        self.live_bytes = [live for _, live in priced]


@contextmanager
def watch_operators(callback: Any) -> Iterator[None]:
    """Have TensorFlow call a function after each operator that this thread runs."""
    with restored(partial(remove_callback, callback), in_child=False):
        add_callback(callback)
        yield


def _make_call(kind: str, ins: Sequence[Any], attrs: Any, outs: Sequence[Any]) -> OpCall:
    small = [tensor.numpy() if is_small(tensor) else None for tensor in ins]
    return OpCall(
        type=kind,
        inputs=Shapes([_static_shape(tensor) for tensor in ins]),
        outputs=Shapes([_static_shape(tensor) for tensor in outs]),
        input_dtypes=tuple(tensor.dtype.name for tensor in ins),
        output_dtypes=tuple(tensor.dtype.name for tensor in outs),
        attribute=_attributes(attrs).get,
        value=small.__getitem__,
    )


def _attributes(flat: Any) -> dict[str, Any]:
    """Return an eager operator's attributes by name, text as ``str``."""
    named = dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in named.items()}


def _static_shape(tensor: Any) -> Shape | None:
    shape = static_shape(tensor)
    return None if shape is None or None in shape else Shape(size for size in shape if size is not None)


def is_small(tensor: Any) -> bool:
    """Return whether the numbers in a tensor may be read at each operator."""
    return tensor.dtype not in (tf.resource, tf.variant, tf.string) and (tensor.shape.num_elements() or 0) <= 64
