"""Operators that TensorFlow runs one by one, as its callbacks show them: their layers and their cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.process.restoring import restored

from ..compat.eager_runs import add_callback, identify_tensor, remove_callback
from ..compat.graphs import read_held_tensor
from ..costs import OpCall, Shapes
from .departures import Departures
from .folding import small_value
from .ownership import Owner
from .pricing import make_layer_operator, price
from .products import Products
from .tensor_facts import Tensor, static_shape
from .values import LOOKUPS, Executed

__all__ = ["MOST_READ", "EagerCall", "EagerOperators", "list_parts"]

#: Tensors with more elements are not read: they may have to be copied from a device.
MOST_READ = 64


class EagerCall(NamedTuple):
    """An operator that has run, as TensorFlow's callback shows it.

    Attributes:
        kind: Its type.
        inputs: The tensors that it read.
        attributes: Its attributes: name, value, name, value.
        outputs: The tensors that it has made.
    """

    kind: str
    inputs: Sequence[Any]
    attributes: Sequence[Any]
    outputs: Sequence[Any]


class _Ran(NamedTuple):
    """One operator that ran, and how its formula sees that call."""

    executed: Executed
    call: OpCall


class EagerOperators(ABC):
    """Sees the operators of a pass inside of `watch`; `price_all` computes their costs at the end.

    Attributes:
        executed: The operators in the order in which they ran, and one for each call of a layer that has a formula;
            from `price_all`.
        uncounted: The operators without a known cost, with the number of their calls.
    """

    def __init__(self) -> None:
        self.executed: list[Executed] = []
        self.uncounted: Counter[str] = Counter()
        self._ran: list[_Ran] = []
        self._products = Products()
        self._departures = Departures(self._note_reader)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """See the operators that this thread runs inside, and the work that TensorFlow does not show."""
        with self._departures.watch(), _watch_operators(self.see):
            yield

    @abstractmethod
    def see(self, call: EagerCall) -> None:
        """Take an operator that has run in this thread."""

    def note_results(self, outputs: Any) -> None:
        """Note the outputs of the model, whose elements are all needed."""
        self._products.note_readers(tensor.number for tensor in list_parts(outputs))

    def _note_reader(self, tensor: Any) -> None:
        """Note a tensor whose values leave TensorFlow."""
        self._products.note_readers([identify_tensor(tensor)])

    def record(self, call: EagerCall, owner: Owner, are_given: Sequence[bool] = ()) -> None:
        """Keep one operator, which has run in a call of a layer.

        ``are_given`` says which of its inputs are no constants in the model's code; by default all are constants.
        """
        read, made = list(map(_describe, call.inputs)), list(map(_describe, call.outputs))
        for_formula = _write_for_formula(call, read, made, are_given)
        if call.kind in LOOKUPS:  # it reads the variable behind the handle
            read[0] = Tensor(read[0].number, *read_held_tensor(call.inputs[0]))
        executed = Executed(call.kind, read, made, 1, owner, equation=for_formula.attribute("equation") or "")
        self._ran.append(_Ran(executed, for_formula))
        self._products.note(executed)

    def price_all(self) -> None:
        """Compute the cost of all operators, once it is known which layers have a formula.

        The formula of a layer stands for all operators inside the layer, which then count nothing themselves.
        """
        counted: set[Owner] = set()
        for ran in self._ran:
            self.executed.append(ran.executed)
            layer_cost = ran.executed.owner.find_layer_cost()
            if layer_cost is None:
                price(ran.executed, ran.call)
            elif layer_cost.call not in counted:
                counted.add(layer_cost.call)
                self.executed.append(make_layer_operator(layer_cost, times=1))
        self.uncounted.update(executed.missing for executed in self.executed if executed.missing)
        self._products.apply()


@contextmanager
def _watch_operators(record: Callable[[EagerCall], None]) -> Iterator[None]:
    """Have a function called after each operator that this thread runs.

    An operator that is added to a graph, and does not run now, is left out.
    """

    def callback(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        if graph is None:
            record(EagerCall(_read_text(op_type), list(inputs), attrs or (), list(outputs)))

    with restored(partial(remove_callback, callback), in_child=False):
        add_callback(callback)
        yield


# An operator that has run, as cost formulas get it --------------------------------------------------------------------


def list_parts(structure: Any) -> list[Tensor]:
    """Return the eager tensors in a structure; of sparse and ragged ones the parts."""
    parts = tf.nest.flatten(structure, expand_composites=True)
    return [_describe(part) for part in parts if tf.is_tensor(part) and hasattr(part, "numpy")]


def _describe(tensor: Any) -> Tensor:
    """Return number, shape and dtype of an eager tensor."""
    return Tensor(identify_tensor(tensor), static_shape(tensor), tensor.dtype.name)


def _write_for_formula(
    call: EagerCall, read: Sequence[Tensor], made: Sequence[Tensor], are_given: Sequence[bool]
) -> OpCall:
    """Return a call as formulas get it; the numbers in small tensors are read now, as the tensors are not kept."""
    values = [small_value(tensor, MOST_READ) for tensor in call.inputs]
    attributes = zip(call.attributes[::2], map(_read_text, call.attributes[1::2]), strict=True)
    return OpCall(
        type=call.kind,
        inputs=Shapes([tensor.known_shape for tensor in read]),
        outputs=Shapes([tensor.known_shape for tensor in made]),
        input_dtypes=tuple(tensor.dtype for tensor in read),
        output_dtypes=tuple(tensor.dtype for tensor in made),
        attribute=dict(attributes).get,
        value=values.__getitem__,
        is_given=lambda index: bool(are_given) and are_given[index],
    )


def _read_text(value: Any) -> Any:
    """Return bytes as text, and any other value as it is."""
    return value.decode() if isinstance(value, bytes) else value
