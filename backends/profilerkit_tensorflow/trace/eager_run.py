"""One eager forward pass, watched operator by operator: for models that cannot be traced.

Such a model decides by values what it does, so its costs are those of these inputs alone. The bytes alive are those of
eager execution: each tensor lives until the last Python reference to it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.process.restoring import restored

from ..compat.eager_runs import read_number, shows_operators
from ..model.calls import compute_outputs
from ..model.kinds import is_unbuilt, list_layers, own_variables
from .departures import Departures
from .eager_live_bytes import EagerLiveBytes
from .eager_operators import EagerOperators, watch_operators
from .first_call import as_before_the_call
from .layers import LayerCalls

__all__ = ["EagerRun"]


class EagerRun(EagerOperators):
    """Runs the model once, as it is, and keeps its operators, their layers, and the bytes alive at each.

    ``followed`` gets the calls of layers, also those before an error. A model that ``is_traceable`` hands no values to
    numpy: what no operator has made is a constant.
    """

    def __init__(
        self, model: Any, inputs: ModelInputs, followed: list[LayerCalls] | None = None, is_traceable: bool = False
    ) -> None:
        super().__init__()
        if not shows_operators():
            raise NotOfferedError("this release of TensorFlow does not show the operators of an eager run")
        if is_unbuilt(model):
            with as_before_the_call(model):
                inputs.run(model)
        self.layers: list[tuple[str, Any]] = list_layers(model)
        self.calls: LayerCalls = LayerCalls(self.layers, training=False)
        if followed is not None:
            followed.append(self.calls)
        #: The handles of the variables that were read.
        self.handles: dict[int, Any] = {}
        self._live = EagerLiveBytes()
        self._live.hold(leaf for leaf in inputs.leaves() if tf.is_tensor(leaf))
        self.input_bytes: int = self._live.total
        #: The number of the last tensor before the run, and those of what operators have made since.
        self._first = read_number(tf.constant(0))
        self._made: set[int] = set()
        self._departures = Departures(lambda: self.calls.owner.path)
        self._is_traceable = is_traceable
        outputs = self._run(model, inputs)
        leaves = tf.nest.flatten(outputs)
        self._returned_values = any(tf.is_tensor(leaf) and hasattr(leaf, "numpy") for leaf in leaves)
        self.price_all()

    def _run(self, model: Any, inputs: ModelInputs) -> Any:
        """Run the model and return its outputs; what its operators did not show is uncounted."""
        with (
            _functions_run_eagerly(),
            self._departures.watch(),
            watch_operators(self._record_operator),
            self.calls.follow(),
        ):
            outputs = compute_outputs(model, inputs)
        if not self._is_traceable:
            self._departures.check_results(outputs, self._is_of_operator)
        self.uncounted.update(self._departures.missing)
        return outputs

    @property
    def did_nothing(self) -> bool:
        """Whether no operator ran and no value came out, although the model has weights to work with."""
        weights = any(True for _, layer in self.layers for _ in own_variables(layer))
        return not self.executed and not self._returned_values and weights

    def _is_of_operator(self, tensor: Any) -> bool:
        """Return whether a tensor was there before the run, or an operator that was seen has made it."""
        number = read_number(tensor)
        return number <= self._first or number in self._made

    def _record_operator(
        self, op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        """Record one operator; TensorFlow calls this after it ran."""
        if graph is not None:  # a function of the model that is traced: it is recorded where it runs
            return
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        ins, outs = list(inputs), list(outputs)
        if kind in ("ReadVariableOp", "ResourceGather"):
            self.handles[id(ins[0])] = ins[0]
        self._live.note(kind, ins, outs)
        if not self._is_traceable:
            self._departures.check_operands(kind, ins, self._is_of_operator)
        self._made.update(map(read_number, outs))
        self.record(kind, ins, attrs, outs, self.calls.owner, self._live.total)


@contextmanager
def _functions_run_eagerly() -> Iterator[None]:
    """Have the model's own ``tf.function``s run operator by operator, so that these are seen."""
    with restored(partial(tf.config.run_functions_eagerly, tf.config.functions_run_eagerly())):
        tf.config.run_functions_eagerly(True)
        yield
