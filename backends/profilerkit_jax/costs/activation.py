"""Activation functions of ``jax.nn``, counted as a whole: JAX spells them out, and guards them against overflow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import jax

from profilerkit.costs import activation

from .registry import Cost, Shape

__all__ = ["activation_cost", "is_activation"]

#: Where JAX has its own activation functions; another function of such a name is the user's.
_FILE = inspect.getsourcefile(inspect.unwrap(jax.nn.elu)) or "-"
#: What each costs for a number of elements. All others cost what their equations do.
_FORMULAS: Mapping[str, Callable[[int], Cost]] = {
    "celu": activation.elu,
    "elu": activation.elu,
    "hard_tanh": activation.clamp,
    "leaky_relu": activation.leaky_relu,
    "log_softmax": lambda elements: activation.softmax(elements, log=True),
    "mish": activation.mish,
    "selu": activation.elu,
    "softplus": activation.softplus,
}


def activation_cost(name: str, source: str, inputs: list[Shape], outputs: list[Shape]) -> Cost | None:
    """Return the cost of a function that JAX compiles apart, if it is one of its activation functions; else None.

    ``source`` says in which file the function is written. Numbers beside the array, as the slope of a ``leaky_relu``,
    have no dimensions. Functions of several arrays, such as the gradients that JAX makes of one, count by their
    equations.
    """
    formula = _FORMULAS.get(name)
    arrays = [shape for shape in inputs if shape] or inputs[:1]
    if formula is None or _FILE not in source or arrays != outputs:
        return None
    return formula(outputs[0].numel)


def is_activation(name: str) -> bool:
    """Return whether a function of JAX's of such a name is counted as a whole."""
    return name in _FORMULAS
