"""A model as a program: the jaxpr of one pass, made on shapes alone. Neither weights nor activations are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from profilerkit import ModelInputs
from profilerkit.error_text import error_line

from ..compat import find_needed_part
from ..model.arrays import make_struct
from ..model.calls import Function, bind_call, list_arrays, trace_anew
from ..model.scope_names import Marks
from ..model.subject import Pass, Subject

__all__ = ["MakePass", "Program", "trace_program"]

#: Makes the function that is traced of a model and a call of it: the pass itself, or a training step with it.
MakePass: TypeAlias = Callable[[Subject, Function], Callable[[Any, Any], Any]]


@dataclass
class Program:
    """The jaxpr of a pass.

    Attributes:
        jaxpr: Its equations, without equations that no output needs.
        weights: How many of its inputs are weights, which come first.
        inputs: The values of the other inputs; None for an input of which only the shape was given.
        outputs: How many of its outputs the caller gets, which come first; the others are changed state, or gradients.
        marks: The layers that were called.
        unmarked: Why layers could not be told apart; empty if they were.
        has_all: Whether it also has equations that no output needs, because this release of JAX does not tell them.
    """

    jaxpr: Any
    weights: int
    inputs: list[Any]
    outputs: int
    marks: Marks
    unmarked: str = ""
    has_all: bool = False


def trace_program(
    subject: Subject, inputs: ModelInputs, make_pass: MakePass, training: bool = False, anew: bool = False
) -> Program:
    """Return the program of a pass; an error of the model is raised as it is.

    If layers cannot be marked, because a model compares their classes for example, it is traced without marks. With
    ``anew``, compiled functions that the model calls are traced again, although JAX has them from an earlier trace.
    """
    if anew:
        with trace_anew():
            return trace_program(subject, inputs, make_pass, training)
    try:
        return _trace(subject, inputs, make_pass, Pass(training, Marks()))
    except MemoryError:
        raise
    except Exception as error:
        with_marks = error
    try:
        program = _trace(subject, inputs, make_pass, Pass(training))
    except MemoryError:
        raise
    except Exception:
        raise with_marks from None
    name, text = type(with_marks).__name__, error_line(with_marks)
    program.unmarked = f"the layers could not be told apart: with marked layers, {name} was raised: {text}"
    return program


def _trace(subject: Subject, inputs: ModelInputs, make_pass: MakePass, how: Pass) -> Program:
    received = list_arrays(inputs)
    weights = [make_struct(value) for value in subject.values]
    arrays = [make_struct(array) for array in received]
    function = make_pass(subject, bind_call(subject, inputs, how))
    closed, (outputs, _) = jax.make_jaxpr(function, return_shape=True)(weights, arrays)
    part = find_needed_part(closed, [True] * len(closed.jaxpr.outvars), instantiate=True)
    are_known = [not (inputs.are_random or isinstance(array, jax.ShapeDtypeStruct)) for array in received]
    return Program(
        closed if part is None else part.jaxpr,
        weights=len(weights),
        inputs=[array if is_known else None for array, is_known in zip(received, are_known, strict=True)],
        outputs=len(jax.tree.leaves(outputs)),
        marks=how.marks or Marks(),
        has_all=part is None,
    )
