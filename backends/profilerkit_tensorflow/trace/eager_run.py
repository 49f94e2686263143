"""One eager forward pass, watched operator by operator: for models that cannot be traced.

The operators of such a model depend on values, so its costs are valid only for these inputs.
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
from ..model.kinds import is_unbuilt, list_layers, name_own_weights
from .building import call_to_build
from .eager_operators import EagerCall, EagerOperators, list_parts
from .layers import LayerCalls
from .tensor_facts import Tensor
from .values import LOOKUPS

__all__ = ["EagerRun", "run_eagerly"]


def run_eagerly(
    model: Any, inputs: ModelInputs, followed: list[LayerCalls] | None = None, *, is_traceable: bool = False
) -> EagerRun:
    """Run the model once, as it is, and return the recorded operators; an unbuilt model is built by a call before.

    Args:
        model: The model.
        inputs: Its inputs.
        followed: Gets the calls of layers, also the calls before an error.
        is_traceable: Whether a graph of the model exists. Such a model hands no values to numpy: a tensor that no
            operator has made is a constant.

    Raises `NotOfferedError` if TensorFlow does not show the operators; errors of the model pass through.
    """
    if not shows_operators():
        raise NotOfferedError("this release of TensorFlow does not show the operators of an eager run")
    if is_unbuilt(model):
        call_to_build(model, inputs)
    run = EagerRun(model, inputs, is_traceable)
    if followed is not None:
        followed.append(run.calls)
    run.run()
    run.price_all()
    return run


class EagerRun(EagerOperators):
    """An eager pass of a model that is built: its operators, and their layers.

    Attributes:
        layers: The layers by their paths.
        calls: The calls of the layers.
        read_handles: The handles of the variables that were read, by ``id``.
        inputs: The tensors among the inputs; of sparse and ragged ones the parts.
        results: The tensors that the model returned, likewise.
    """

    def __init__(self, model: Any, inputs: ModelInputs, is_traceable: bool) -> None:
        super().__init__()
        self._model = model
        self._inputs = inputs
        self._is_traceable = is_traceable
        self.layers: list[tuple[str, Any]] = list_layers(model)
        self.calls: LayerCalls = LayerCalls(self.layers, training=False)
        self.read_handles: dict[int, Any] = {}
        self.inputs: list[Tensor] = list_parts(list(inputs.leaves()))
        self.results: list[Tensor] = []
        #: TensorFlow numbers tensors as it makes them: the number of the last tensor before the run.
        self._last_before = read_number(tf.constant(0))
        self._made_by_operators: set[int] = set()

    def run(self) -> None:
        """Run the model; work without operators that show it is uncounted."""
        with _functions_run_eagerly(), self.watch(), self.calls.follow():
            outputs = compute_outputs(self._model, self._inputs)
        if not self._is_traceable:
            self._departures.check_results(outputs, self._is_known)
        self.uncounted.update(self._departures.missing)
        self.results = list_parts(outputs)
        self.note_results(outputs)

    @property
    def did_nothing(self) -> bool:
        """Whether no operator ran and no value came out, although the model has weights to work with."""
        has_weights = any([*name_own_weights(layer)] for _, layer in self.layers)
        return has_weights and not self.executed and not self.results

    def see(self, call: EagerCall) -> None:
        """Record an operator in the layer that is running."""
        if call.kind == "ReadVariableOp" or call.kind in LOOKUPS:
            handle = call.inputs[0]
            self.read_handles[id(handle)] = handle
        if not self._is_traceable:
            self._departures.check_operands(call.kind, call.inputs, self._is_known)
        self._made_by_operators.update(map(read_number, call.outputs))
        self.record(call, self.calls.owner, list(map(self._is_known, call.inputs)))

    def _is_known(self, tensor: Any) -> bool:
        """Return whether a tensor was there before the run, or an operator that was seen has made it."""
        number = read_number(tensor)
        return number <= self._last_before or number in self._made_by_operators


@contextmanager
def _functions_run_eagerly() -> Iterator[None]:
    """Have the model's own ``tf.function``s run operator by operator, so that these are seen."""
    with restored(partial(tf.config.run_functions_eagerly, tf.config.functions_run_eagerly())):
        tf.config.run_functions_eagerly(True)
        yield
