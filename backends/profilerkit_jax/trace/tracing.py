"""One static pass over a model: its program, and the trace of that; of a model that raises, its layers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.scoped_calls import layer_records

from ..model.arrays import is_array
from ..model.calls import make_forward, make_step
from ..model.recognition import is_model
from ..model.subject import Subject
from ..model.subjects import find_subject
from ..model.weights import list_weights
from .layers import order_types
from .program import MakePass, trace_program
from .program_trace import trace_of_program, walk_program

__all__ = ["trace_model", "trace_step"]


def trace_model(model: Any, inputs: ModelInputs | None) -> ModelTrace:
    """Trace one forward pass; without inputs, or if the model raises, the trace holds the layers alone."""
    subject = find_subject(model)
    if inputs is None:
        return _list_layers_alone(subject)
    return _trace(subject, inputs, lambda subject, call: make_forward(call), training=False)


def trace_step(model: Any, inputs: ModelInputs) -> ModelTrace:
    """Trace one training step: the forward pass in training mode, and the gradients of the sum of its outputs."""
    return _trace(find_subject(model), inputs, make_step, training=True)


def _trace(subject: Subject, inputs: ModelInputs, make_pass: MakePass, training: bool) -> ModelTrace:
    try:
        program = trace_program(subject, inputs, make_pass, training)
        walked = walk_program(subject, program)
        if not walked.has_own_marks(program):
            program = trace_program(subject, inputs, make_pass, training, anew=True)
            walked = walk_program(subject, program)
        trace = trace_of_program(subject, program, walked, training)
    except Exception as error:  # any error of the model
        return _list_layers_alone(subject, explain_failure(error, inputs, "jax", __package__ or ""))
    return replace(trace, notes=(*trace.notes, *_list_likely_parameters(subject, inputs)))


def _list_likely_parameters(subject: Subject, inputs: ModelInputs) -> list[str]:
    """Return a note if the first of several inputs is a module or a tree of arrays, and the function has no weights."""
    first = inputs.args[0] if len(inputs.args) > 1 else None
    if any(leaf.is_parameter for leaf in subject.leaves):
        return []
    if is_model(first):
        return ["no parameters: the module among the inputs counts as data; give a function of x that has the module"]
    if is_array(first) or isinstance(first, tuple) or not any(map(is_array, jax.tree.leaves(first))):
        return []
    return [
        "no parameters: the first input counts as data; if it holds the parameters, give JaxModel(function, params), "
        "or JaxModel(module, variables)"
    ]


def _list_layers_alone(subject: Subject, failure: Exception | None = None) -> ModelTrace:
    types = order_types(subject, {}, ())
    return ModelTrace(layer_records(types, list_weights(subject.leaves, types)), failure=failure)
