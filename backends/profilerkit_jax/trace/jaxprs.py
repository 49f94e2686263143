"""The jaxpr of one pass over a model, made on shapes alone: neither weights nor activations are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from profilerkit import ModelInputs

from ..compat import find_needed_part
from ..data import is_made_up
from ..model.arrays import make_struct
from ..model.calls import Function, bind_call, list_arrays
from ..model.scope_names import Marks
from ..model.subject import Pass, Subject

__all__ = ["MakePass", "Traced", "trace_pass"]

#: Makes the function that is traced of a model and a call of it: the pass itself, or a training step with it.
MakePass: TypeAlias = Callable[[Subject, Function], Callable[[Any, Any], Any]]


@dataclass
class Traced:
    """The jaxpr of a pass.

    Attributes:
        jaxpr: Its equations, without those that no output needs.
        weights: How many of its inputs are weights, which come first.
        inputs: The values of the other inputs; None for those of which only the shape was given.
        outputs: How many of its outputs the caller gets, which come first; the others are changed state, or gradients.
        marks: The layers that were called.
        unmarked: Why layers could not be told apart; empty if they were.
        has_all: Whether it also has the equations that no output needs, as this release of JAX does not tell them.
    """

    jaxpr: Any
    weights: int
    inputs: list[Any]
    outputs: int
    marks: Marks
    unmarked: str = ""
    has_all: bool = False


def trace_pass(subject: Subject, inputs: ModelInputs, make_pass: MakePass, training: bool = False) -> Traced:
    """Return the jaxpr of a pass.

    If layers cannot be marked, as where a model compares the classes of its layers, the model is traced without marks.
    """
    try:
        return _trace(subject, inputs, make_pass, Pass(training, Marks()))
    except MemoryError:
        raise
    except Exception as error:
        return _trace_unmarked(subject, inputs, make_pass, Pass(training), error)


def _trace_unmarked(subject: Subject, inputs: ModelInputs, make_pass: MakePass, how: Pass, error: Exception) -> Traced:
    """Return the jaxpr of a pass without marks; ``error``, which was raised with them, is raised if this fails too."""
    try:
        traced = _trace(subject, inputs, make_pass, how)
    except MemoryError:
        raise
    except Exception:
        raise error from None
    name = type(error).__name__
    traced.unmarked = f"the layers could not be told apart: with marked layers, {name} was raised"
    return traced


def _trace(subject: Subject, inputs: ModelInputs, make_pass: MakePass, how: Pass) -> Traced:
    received = list_arrays(inputs)
    weights = [make_struct(value) for value in subject.values]
    arrays = [make_struct(array) for array in received]
    function = make_pass(subject, bind_call(subject, inputs, how))
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(weights, arrays)
    part = find_needed_part(closed, [True] * len(closed.jaxpr.outvars), instantiate=True)
    needed = closed if part is None else part.jaxpr
    values = [None if isinstance(array, jax.ShapeDtypeStruct) or is_made_up(array) else array for array in received]
    outputs, _ = shapes
    marks = how.marks or Marks()
    return Traced(needed, len(weights), values, len(jax.tree.leaves(outputs)), marks, has_all=part is None)
