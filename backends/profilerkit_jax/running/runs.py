"""One pass of a model on a device: compiled by ``jax.jit`` in the first call, without donated buffers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from profilerkit import InputError, ModelInputs, Run
from profilerkit.backend_kit.failures import explain_failure

from ..model.arrays import is_array
from ..model.calls import bind_call, list_arrays
from ..model.subject import Pass, Subject
from ..training.steps import make_step
from .devices import device_named

__all__ = ["CompiledCall", "prepare_run"]


class CompiledCall:
    """A model compiled for one form of inputs; calls return the model's outputs, when the device is done.

    Args:
        subject: The model.
        inputs: The inputs of a call: their form is that of all calls.
        device: The short name of the device.
        training: Run training steps: the pass in training mode, and the gradients.

    Raises `WithoutValuesError` for weights, and `InputError` for inputs, without values.
    """

    def __init__(self, subject: Subject, inputs: ModelInputs, device: str, training: bool = False) -> None:
        subject.require_values()
        arrays = list_arrays(inputs)
        if any(isinstance(array, jax.ShapeDtypeStruct) for array in arrays):
            raise InputError(
                "the inputs are jax.ShapeDtypeStruct, which have no values: the model is counted with them, not run; "
                "give arrays"
            )
        self._inputs, self._trees = inputs, list[Any]()
        self._device = device_named(device)
        self._weights = jax.device_put(subject.values, self._device)
        self._arrays = jax.device_put(arrays, self._device)
        call = bind_call(subject, inputs, Pass(training))
        self.jitted: Any = jax.jit(make_step(subject, call) if training else self._make_outputs(call))
        self._training = training

    def _make_outputs(self, call: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[Any, Any], list[Any]]:
        def outputs(weights: Any, arrays: Any) -> list[Any]:
            leaves, tree = jax.tree.flatten(call(weights, arrays)[0])
            self._trees[:] = [(tree, [None if is_array(leaf) else leaf for leaf in leaves])]
            return [leaf for leaf in leaves if is_array(leaf)]

        return outputs

    def __call__(self) -> Any:
        """Run one pass; raises `ModelFailedError` if the model does."""
        return self._run(self._arrays)

    def run_on(self, inputs: ModelInputs) -> Any:
        """Run one pass on other inputs of the same structure; raises as a call does."""
        return self._run(jax.device_put(list_arrays(inputs), self._device))

    def _run(self, arrays: Any) -> Any:
        try:
            result = jax.block_until_ready(self.jitted(self._weights, arrays))
        except Exception as error:
            raise explain_failure(error, self._inputs, "jax", __package__ or "") from error
        if self._training:
            return result[0]
        tree, leaves = self._trees[0]
        arrays = iter(result)
        return jax.tree.unflatten(tree, [next(arrays) if leaf is None else leaf for leaf in leaves])


@contextmanager
def prepare_run(subject: Subject, inputs: ModelInputs, device: str, training: bool = False) -> Iterator[Run]:
    """Yield the run of a model; the first call is tracing, compilation and one pass."""
    call = CompiledCall(subject, inputs, device, training)
    start = time.perf_counter()
    call()
    yield Run(call, time.perf_counter() - start)
