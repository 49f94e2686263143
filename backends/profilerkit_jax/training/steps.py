"""One training step as a function: the outputs, and the gradients of their sum by the parameters that are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ..model.arrays import is_float
from ..model.calls import Function, make_forward
from ..model.subject import Leaf, Subject

__all__ = ["is_trained", "make_step"]


def is_trained(leaf: Leaf) -> bool:
    """Return whether a step makes a gradient of an array of the model."""
    return leaf.is_parameter and leaf.trainable and is_float(leaf.value)


def make_step(subject: Subject, call: Function) -> Callable[[Any, Any], tuple[list[Any], Any]]:
    """Return a function that gives the outputs of a pass, and with them the changed state and the gradients.

    The gradients of the sum of the outputs are those for a gradient of one at each output element.
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
