"""One eager forward pass, watched operator by operator: for models that cannot be traced.

Such a model decides by values what it does, so its costs are those of these inputs alone. The bytes alive are those of
eager execution: each tensor lives until the last Python reference to it is gone.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from profilerkit import ModelInputs
from profilerkit.costs import Shape
from profilerkit.process.locks import undone_in_child

from ..costs import OpCall, Shapes
from ..model.calls import outputs_of
from ..model.kinds import is_unbuilt, named_layers, own_variables
from .dilation import CONVOLUTIONS, TO_SPACE
from .layers import LayerCalls
from .live_bytes import tensor_bytes
from .pricing import layer_work, price
from .values import Executed, static_shape

__all__ = ["EagerRun"]

#: Operators whose output is their first input under another name or shape.
_VIEWS = ("Identity", "Reshape", "Squeeze", "ExpandDims", "ReadVariableOp", "StopGradient", "Bitcast", "EnsureShape")


class EagerRun:
    """Runs the model once, as it is, and keeps its operators, their layers, and the bytes alive at each."""

    def __init__(self, model: Any, inputs: ModelInputs) -> None:
        if is_unbuilt(model):
            inputs.run(model)
        self.layers = named_layers(model)
        self.calls = LayerCalls(self.layers, training=False)
        self.executed: list[Executed] = []
        self.live_bytes: list[int] = []
        self.uncounted: Counter[str] = Counter()
        self._prices: list[OpCall] = []
        #: The operator that made a tensor, by the id of the tensor while it is alive; uncropped shares of convolutions.
        self._makers: dict[int, Executed] = {}
        self._left: list[tuple[Executed, Fraction]] = []
        self._live = _LiveBytes()
        self._live.hold(leaf for leaf in inputs.leaves() if tf.is_tensor(leaf))
        self.input_bytes = self._live.total
        with _functions_run_eagerly(), _watched(self._seen), self.calls.following():
            outputs = outputs_of(model, inputs)
        leaves = tf.nest.flatten(outputs)
        self._returned_values = any(tf.is_tensor(leaf) and hasattr(leaf, "numpy") for leaf in leaves)
        self._price_all()

    @property
    def did_nothing(self) -> bool:
        """Whether no operator ran and no value came out, although the model has weights to work with."""
        weights = any(True for _, layer in self.layers for _ in own_variables(layer))
        return not self.executed and not self._returned_values and weights

    def _seen(
        self, op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        """Record one operator; TensorFlow calls this after it ran."""
        if graph is not None:  # a function of the model that is traced: it is recorded where it runs
            return
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        attributes = _attributes(attrs)
        ins, outs = list(inputs), list(outputs)
        self._live.note(kind, ins, outs)
        self.executed.append(
            Executed(
                type=kind,
                name=kind,
                inputs=tuple(map(id, ins)),
                outputs=tuple((id(tensor), static_shape(tensor), tensor.dtype.name) for tensor in outs),
                times=1,
                owner=self.calls.owner,
                input_bytes=sum(tensor_bytes(static_shape(tensor), tensor.dtype.name) for tensor in ins),
            )
        )
        self._note_makers(kind, ins, outs)
        small = [tensor.numpy() if _is_small(tensor) else None for tensor in ins]
        self._prices.append(
            OpCall(
                type=kind,
                inputs=Shapes([_known(tensor) for tensor in ins]),
                outputs=Shapes([_known(tensor) for tensor in outs]),
                input_dtypes=tuple(tensor.dtype.name for tensor in ins),
                output_dtypes=tuple(tensor.dtype.name for tensor in outs),
                attribute=attributes.get,
                value=small.__getitem__,
            )
        )
        self.live_bytes.append(self._live.total)

    def _note_makers(self, kind: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Record which operator made a tensor, and the uncropped share of a dilated convolution's output."""
        maker = self._makers.get(id(inputs[0])) if inputs else None
        if kind in TO_SPACE and maker is not None and maker.type in CONVOLUTIONS:
            whole, left = (tensor.shape.num_elements() for tensor in (inputs[0], outputs[0]))
            self._left.append((maker, Fraction(left, whole)))
        done = maker if kind in _VIEWS and maker is not None else self.executed[-1]
        self._makers.update((id(tensor), done) for tensor in outputs)

    def _price_all(self) -> None:
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
        self.executed = [done for done, _ in priced]
        self.live_bytes = [live for _, live in priced]


class _LiveBytes:
    """Counts the bytes of the tensors alive; views share their bytes with what they are views of."""

    def __init__(self) -> None:
        self.total = 0
        self._buffers: dict[int, list[int]] = {}  # by the id of a tensor: bytes, and how many tensors share them

    def hold(self, tensors: Iterator[Any]) -> None:
        """Count tensors that are alive from the start."""
        for tensor in tensors:
            self._add(tensor, [tensor_bytes(static_shape(tensor), tensor.dtype.name), 0])

    def note(self, kind: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Count what an operator made."""
        for tensor in outputs:
            shared = self._buffers.get(id(inputs[0])) if kind in _VIEWS and inputs else None
            is_weight = kind == "ReadVariableOp"
            size = 0 if is_weight else tensor_bytes(static_shape(tensor), tensor.dtype.name)
            self._add(tensor, shared if shared is not None else [size, 0])

    def _add(self, tensor: Any, buffer: list[int]) -> None:
        if id(tensor) in self._buffers:
            return
        if buffer[1] == 0:
            self.total += buffer[0]
        buffer[1] += 1
        key = id(tensor)
        self._buffers[key] = buffer
        weakref.finalize(tensor, self._gone, key)

    def _gone(self, key: int) -> None:
        buffer = self._buffers.pop(key)
        buffer[1] -= 1
        if buffer[1] == 0:
            self.total -= buffer[0]


@contextmanager
def _watched(callback: Any) -> Iterator[None]:
    op_callbacks.add_op_callback(callback)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(callback)


@contextmanager
def _functions_run_eagerly() -> Iterator[None]:
    """Have the model's own ``tf.function``s run operator by operator, so that these are seen."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        with undone_in_child(lambda: tf.config.run_functions_eagerly(before)):
            yield
    finally:
        tf.config.run_functions_eagerly(before)


def _attributes(flat: Any) -> dict[str, Any]:
    """Return an eager operator's attributes by name, text as ``str``."""
    named = dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in named.items()}


def _known(tensor: Any) -> Shape | None:
    shape = static_shape(tensor)
    return None if shape is None or None in shape else Shape(size for size in shape if size is not None)


def _is_small(tensor: Any) -> bool:
    return tensor.dtype not in (tf.resource, tf.variant, tf.string) and (tensor.shape.num_elements() or 0) <= 64
