"""One pass of a model on a device: compiled by ``jax.jit`` in the first call, without donated buffers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import jax

from profilerkit import InputError, ModelInputs, Run
from profilerkit.backend_kit.failures import explain_failure

from ..model.arrays import is_array
from ..model.calls import Function, bind_call, list_arrays, make_step
from ..model.subject import Pass, Subject
from .devices import devices_here, find_bound_devices

__all__ = ["CompiledCall", "prepare_run"]


class _ArrayPass:
    """A pass that returns only the arrays of the model's outputs: a compiled function can return nothing else.

    ``jax.jit`` calls `run` to trace it, in the first compiled call. `run` then keeps the structure of the outputs, and
    `restore` puts the arrays of each compiled call back into it.
    """

    def __init__(self, call: Function) -> None:
        self._call = call
        self._tree: Any = None
        #: The leaves of the outputs that are no arrays; None in the place of each array.
        self._others: list[Any] = []

    def run(self, weights: Any, arrays: Any) -> tuple[list[Any], list[Any]]:
        """Return the arrays among the outputs, in the order of the leaves, and the changed state.

        XLA would leave out the work on state that is not returned.
        """
        outputs, state = self._call(weights, arrays)
        leaves, self._tree = jax.tree.flatten(outputs)
        self._others = [None if is_array(leaf) else leaf for leaf in leaves]
        return [leaf for leaf in leaves if is_array(leaf)], state

    def restore(self, result: tuple[list[Any], list[Any]]) -> Any:
        """Return the model's outputs, with the arrays of this result and the other leaves."""
        remaining = iter(result[0])
        leaves = [next(remaining) if other is None else other for other in self._others]
        return jax.tree.unflatten(self._tree, leaves)


class CompiledCall:
    """A model compiled for one form of inputs; calls return the model's outputs, when the device is done.

    Args:
        subject: The model.
        inputs: The inputs of a call: all calls have inputs of their form.
        device: The short name of the device; None for the device on which JAX runs the model when the user calls it.
        training: Run training steps: the pass in training mode, and the gradients. A call then returns the outputs as a
            list of arrays.

    Raises `WithoutValuesError` for weights, and `InputError` for inputs, without values.
    """

    def __init__(self, subject: Subject, inputs: ModelInputs, device: str | None, training: bool = False) -> None:
        subject.require_values()
        arrays = list_arrays(inputs)
        if any(isinstance(array, jax.ShapeDtypeStruct) for array in arrays):
            raise InputError(
                "the inputs are jax.ShapeDtypeStruct, which have no values: the model is counted with them, not run; "
                "give arrays"
            )
        self._inputs = inputs
        self._device = _find_common_device(subject.values, arrays) if device is None else devices_here()[device]
        self._weights = jax.device_put(subject.values, self._device)
        self._arrays = jax.device_put(arrays, self._device)
        call = bind_call(subject, inputs, Pass(training))
        self._compiled: Any
        self._read_outputs: Callable[[Any], Any]
        if training:
            # A step returns the outputs, and with them state and gradients.
            self._compiled, self._read_outputs = jax.jit(make_step(subject, call)), itemgetter(0)
        else:
            array_pass = _ArrayPass(call)
            self._compiled, self._read_outputs = jax.jit(array_pass.run), array_pass.restore

    def __call__(self) -> Any:
        """Run one pass; raises `ModelFailedError` if the model does."""
        return self._run(self._arrays)

    def run_on(self, inputs: ModelInputs) -> Any:
        """Run one pass on other inputs of the same structure; raises as a call does."""
        return self._run(jax.device_put(list_arrays(inputs), self._device))

    def _run(self, arrays: Any) -> Any:
        try:
            result = jax.block_until_ready(self._compiled(self._weights, arrays))
        except Exception as error:
            raise explain_failure(error, self._inputs, "jax", __package__ or "") from error
        return self._read_outputs(result)


def _find_common_device(weights: Sequence[Any], inputs: Sequence[Any]) -> Any:
    """Return the one device of the weights, or of the inputs if weights have none; None for several devices or none.

    An array that is put on None stays where it is. An array that is spread over devices stays so, and ``jax.jit`` moves
    an array that is bound to no device to the devices of the model, for example of a ``shard_map`` in the model.
    """
    for arrays in (weights, inputs):
        bound = find_bound_devices(arrays)
        if bound:
            return bound.pop() if len(bound) == 1 else None
    return None


@contextmanager
def prepare_run(subject: Subject, inputs: ModelInputs, device: str | None, training: bool = False) -> Iterator[Run]:
    """Yield the run of a model; the first call is tracing, compilation and one pass."""
    call = CompiledCall(subject, inputs, device, training)
    start = time.perf_counter()
    call()
    yield Run(call, time.perf_counter() - start)
