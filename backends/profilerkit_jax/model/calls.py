"""A call of a model as a function of arrays alone: of its weights, and of the arrays among its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.python_state import note_python_state
from profilerkit.process.restoring import restored

from .arrays import ArrayTree, is_array, is_float, make_struct
from .subject import Leaf, Pass, Subject

__all__ = [
    "Function",
    "bind_call",
    "compile_function",
    "is_trained",
    "list_arrays",
    "make_forward",
    "make_step",
    "trace_anew",
]

#: A pass over a model: from the values of its weights and of the arrays among its inputs to its outputs, and to the
#: arrays that it has put in the places of others, in the model or in its inputs.
Function = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, list[Any]]]


def list_arrays(inputs: ModelInputs) -> list[Any]:
    """Return the arrays among the inputs of a call; other inputs, like ``train=True``, are part of the program."""
    return [leaf for leaf in jax.tree.leaves((inputs.args, dict(inputs.kwargs))) if is_array(leaf)]


def bind_call(subject: Subject, inputs: ModelInputs, how: Pass) -> Function:
    """Return a pass as a function of the weights and the arrays among its inputs; ``call=`` runs if it was given.

    The state of Python and numpy that the model's code changes is restored.
    """
    how = replace(how, function=inputs.function)
    received = ArrayTree((inputs.args, dict(inputs.kwargs)))

    def call(weights: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, list[Any]]:
        args, kwargs = received.replace_arrays(arrays)
        with restored(note_python_state(), in_child=False):
            outputs, state = subject.call(weights, args, kwargs, how)
        before = {id(array) for array in (*weights, *arrays)}
        after = filter(is_array, (*state, *jax.tree.leaves((args, kwargs))))
        return outputs, [array for array in after if id(array) not in before]

    return call


def compile_function(function: Callable[[Any, Any], Any], subject: Subject, inputs: ModelInputs) -> Any:
    """Return the program that XLA compiles of a function of weights and arrays, on shapes alone; raises like a run."""
    weights = [make_struct(value) for value in subject.values]
    arrays = [make_struct(array) for array in list_arrays(inputs)]
    try:
        return jax.jit(function).lower(weights, arrays).compile()
    except Exception as error:
        raise explain_failure(error, inputs, "jax", __package__ or "") from error


def make_forward(function: Function) -> Callable[[Any, Any], tuple[list[Any], list[Any]]]:
    """Return a pass that gives the arrays among its outputs, and the arrays of its state."""

    def forward(weights: Any, arrays: Any) -> tuple[list[Any], list[Any]]:
        outputs, state = function(weights, arrays)
        return [leaf for leaf in jax.tree.leaves(outputs) if is_array(leaf)], state

    return forward


#: The numbers of the blocks of `trace_anew`.
_numbers = count()


def trace_anew() -> AbstractContextManager[None]:
    """Return a block in which compiled functions are traced again, although JAX has them from an earlier trace."""
    # JAX keeps the jaxpr of a function by the metadata around the call, too.
    block: AbstractContextManager[None] = set_xla_metadata(profilerkit=str(next(_numbers)))
    return block


# One training step ----------------------------------------------------------------------------------------------------


def is_trained(leaf: Leaf) -> bool:
    """Return whether a step makes a gradient of an array of the model."""
    return leaf.is_parameter and leaf.trainable and is_float(leaf.value)


def make_step(subject: Subject, call: Function) -> Callable[[Any, Any], tuple[list[Any], Any]]:
    """Return a function that gives the outputs of a pass, and with them the changed state and the gradients.

    These are the gradients of the sum of the outputs: the incoming gradient of each output element is one.
    """
    trained = [index for index, leaf in enumerate(subject.leaves) if is_trained(leaf)]
    forward = make_forward(call)

    def step(weights: Sequence[Any], arrays: Any) -> tuple[list[Any], Any]:
        def run_forward(parameters: Sequence[Any]) -> tuple[list[Any], tuple[list[Any], list[Any]]]:
            merged = list(weights)
            for index, value in zip(trained, parameters, strict=True):
                merged[index] = value
            outputs, state = forward(merged, arrays)
            return [output for output in outputs if is_float(output)], (outputs, state)

        parameters = [weights[index] for index in trained]
        differentiated, backward, (outputs, state) = jax.vjp(run_forward, parameters, has_aux=True)
        gradients = backward([jax.numpy.ones_like(output) for output in differentiated])
        return outputs, (state, gradients)

    return step
