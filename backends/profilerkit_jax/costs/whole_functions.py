"""Functions of JAX that count as a whole: JAX composes them, with ``where`` or with guards against overflow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from profilerkit.costs import activation, elementwise
from profilerkit.costs.numbers import is_float

from .registry import Cost, Shape

__all__ = ["find_function_cost", "is_whole_function"]


class _Function(NamedTuple):
    """A function of JAX.

    Attributes:
        file: The file of JAX that has it; a function of this name in another file is the user's.
        formula: Its cost for a number of elements.
        inputs: The most arrays that it takes; JAX's version of it for a gradient takes more arrays, or booleans.
    """

    file: str
    formula: Callable[[int], Cost]
    inputs: int


def _describe(function: Any, formula: Callable[[int], Cost], inputs: int) -> tuple[str, _Function]:
    return function.__name__, _Function(inspect.getsourcefile(inspect.unwrap(function)) or "-", formula, inputs)


#: All other functions cost the sum of their equations.
_FUNCTIONS: Mapping[str, _Function] = dict(
    [
        _describe(jax.nn.celu, activation.elu, inputs=2),
        _describe(jax.nn.elu, activation.elu, inputs=2),
        _describe(jax.nn.hard_tanh, activation.clamp, inputs=1),
        _describe(jax.nn.leaky_relu, activation.leaky_relu, inputs=2),
        _describe(jax.nn.log_softmax, lambda elements: activation.softmax(elements, log=True), inputs=1),
        _describe(jax.nn.mish, activation.mish, inputs=1),
        _describe(jax.nn.selu, activation.elu, inputs=1),
        _describe(jax.nn.softplus, activation.softplus, inputs=1),
        _describe(jnp.fmax, elementwise.elementary("COMPARE"), inputs=2),
        _describe(jnp.fmin, elementwise.elementary("COMPARE"), inputs=2),
        _describe(jnp.heaviside, elementwise.elementary("COMPARE"), inputs=2),
        _describe(jnp.floor_divide, elementwise.elementary("ROUND"), inputs=2),
        _describe(jnp.remainder, elementwise.elementary("ROUND"), inputs=2),
        _describe(jnp.trunc, elementwise.elementary("ROUND"), inputs=1),
        _describe(jnp.copysign, elementwise.elementary("SPECIAL"), inputs=2),
        _describe(jnp.hypot, elementwise.elementary("SPECIAL"), inputs=2),
        _describe(jnp.sinc, elementwise.elementary("SPECIAL"), inputs=1),
    ]
)


def find_function_cost(name: str, source: str, input_dtypes: Sequence[str], output: Shape) -> Cost | None:
    """Return the cost of a function that JAX compiles apart, if the function counts as a whole; otherwise None.

    ``source`` says in which file the function is written, and ``output`` is the shape of its first result.
    """
    function = _FUNCTIONS.get(name)
    if function is None or function.file not in source:
        return None
    has_arguments = len(input_dtypes) <= function.inputs and "bool" not in input_dtypes
    return function.formula(output.numel) if has_arguments and any(map(is_float, input_dtypes)) else None


def is_whole_function(name: str) -> bool:
    """Return whether a function of JAX's of such a name counts as a whole."""
    return name in _FUNCTIONS
