"""A call of a model as a function of arrays alone: of its weights, and of the arrays among its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import explain_failure

from .array_trees import ArrayTree
from .arrays import is_array, make_struct
from .subject import Pass, Subject

__all__ = ["Function", "bind_call", "compile_function", "list_arrays", "make_forward"]

#: A pass over a model: from the values of its weights and of the arrays among its inputs to outputs and state.
Function = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]]


def list_arrays(inputs: ModelInputs) -> list[Any]:
    """Return the arrays among the inputs of a call; all else, such as ``train=True``, is part of the program."""
    return [leaf for leaf in jax.tree.leaves((inputs.args, dict(inputs.kwargs))) if is_array(leaf)]


def bind_call(subject: Subject, inputs: ModelInputs, how: Pass) -> Function:
    """Return a pass as a function of the weights and the arrays among its inputs; ``call=`` runs if it was given."""
    how = replace(how, function=inputs.function)
    received = ArrayTree((inputs.args, dict(inputs.kwargs)))

    def call(weights: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, Any]:
        args, kwargs = received.replace_arrays(arrays)
        return subject.call(weights, args, kwargs, how)

    return call


def compile_function(function: Callable[[Any, Any], Any], subject: Subject, inputs: ModelInputs) -> Any:
    """Return what XLA compiles of a function of weights and arrays, on shapes alone; raises as a run does."""
    weights = [make_struct(value) for value in subject.values]
    arrays = [make_struct(array) for array in list_arrays(inputs)]
    try:
        return jax.jit(function).lower(weights, arrays).compile()
    except Exception as error:
        raise explain_failure(error, inputs, "jax", __package__ or "") from error


def make_forward(function: Function) -> Callable[[Any, Any], tuple[list[Any], list[Any]]]:
    """Return a pass that gives the arrays among its outputs, and those of its state."""

    def forward(weights: Any, arrays: Any) -> tuple[list[Any], list[Any]]:
        outputs, state = function(weights, arrays)
        return [leaf for leaf in jax.tree.leaves(outputs) if is_array(leaf)], list(state)

    return forward
