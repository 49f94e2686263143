"""One pass over a model: its jaxpr, made on shapes alone, and the trace of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.branch_memory import BranchedMemory, measure_memory
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.graph_memory import measure_live_bytes
from profilerkit.backend_kit.graph_records import list_reads, make_record
from profilerkit.backend_kit.scoped_calls import count_weight_bytes, layer_records
from profilerkit.backend_kit.settings import list_changes
from profilerkit.trace.conditions import formulas_used
from profilerkit.trace.records import MemoryTimeline, OpRecord

from ..compat import find_needed_part
from ..costs.registry import COSTS
from ..data import is_made_up
from ..model.arrays import is_float, make_struct
from ..model.calls import Function, bind_call, list_arrays, make_forward, make_step
from ..model.scope_names import Marks
from ..model.subject import Pass, Subject
from ..model.subjects import find_subject
from ..model.weights import list_constants, list_weights
from ..untouched.settings import SETTINGS
from .control_flow import HANDLERS
from .frames import Context, Frames
from .layers import list_calls, order_types
from .values import Executed, Value
from .walk import Handler, Walk
from .whole_layer_costs import count_whole_layers

__all__ = ["Traced", "make_trace", "trace_model", "trace_pass", "trace_step", "walk_pass"]

_METHOD = "shapes in a jaxpr"
MEMORY_NOTE = "along the jaxpr, as written; XLA fuses, orders and reuses otherwise (profilerkit_jax.compiled_analysis)"
MakeWalk: TypeAlias = Callable[[Frames, Mapping[str, Handler]], Walk]


def trace_model(model: Any, inputs: ModelInputs | None, make_walk: MakeWalk = Walk) -> ModelTrace:
    """Trace one forward pass; without inputs, or if the model raises, the trace holds the layers alone.

    ``make_walk`` makes the walk over the equations: a subclass may count otherwise.
    """
    return _trace(model, inputs, lambda subject, call: make_forward(call), False, make_walk)


def trace_step(model: Any, inputs: ModelInputs) -> ModelTrace:
    """Trace one training step: the forward pass in training mode, and the gradients of the sum of its outputs."""
    return _trace(model, inputs, make_step, True, Walk)


def _trace(
    model: Any, inputs: ModelInputs | None, make_pass: _MakePass, training: bool, make_walk: MakeWalk
) -> ModelTrace:
    subject = find_subject(model)
    if inputs is None:
        return _list_layers_alone(subject)
    try:
        traced = trace_pass(subject, inputs, make_pass, training)
        trace = make_trace(subject, traced, walk_pass(subject, traced, make_walk), training)
    except Exception as error:  # any error of the model
        return _list_layers_alone(subject, explain_failure(error, inputs, "jax", __package__ or ""))
    return replace(trace, notes=(*trace.notes, *_list_likely_parameters(subject, inputs)))


def _list_likely_parameters(subject: Subject, inputs: ModelInputs) -> list[str]:
    """Return a note if the first of several inputs has the form of parameters, and the function has none of its own."""
    first = inputs.args[0] if len(inputs.args) > 1 else None
    if not isinstance(first, (Mapping, list)) or any(leaf.is_parameter for leaf in subject.leaves):
        return []
    return [
        "no parameters: the first input counts as data; if it holds the parameters, give JaxModel(function, params), "
        "or JaxModel(module, variables)"
    ]


def _list_layers_alone(subject: Subject, failure: Exception | None = None) -> ModelTrace:
    types = order_types(subject, {}, ())
    return ModelTrace(layer_records(types, list_weights(subject.leaves, types)), failure=failure)


class _WalkedPass(NamedTuple):
    """The walk over the jaxpr of a pass, and the values of the inputs and of all results."""

    walk: Walk
    inputs: list[Value]
    results: list[Value]


def walk_pass(subject: Subject, traced: Traced, make_walk: MakeWalk) -> _WalkedPass:
    """Go over the equations of a pass, with the values of the weights and inputs."""
    jaxpr = traced.jaxpr.jaxpr
    walk = make_walk(Frames(subject.types, _list_doubled_scopes(subject, traced.marks)), HANDLERS)
    constants = walk.make_constants(jaxpr, traced.jaxpr.consts)
    of_weights, of_inputs = jaxpr.invars[: traced.weights], jaxpr.invars[traced.weights :]
    weights = [
        walk.make_weight(variable.aval, value) for variable, value in zip(of_weights, subject.values, strict=True)
    ]
    inputs = [walk.make_input(variable.aval, value) for variable, value in zip(of_inputs, traced.inputs, strict=True)]
    context = Context(instance=next(walk.walk_ids))
    return _WalkedPass(walk, inputs, walk.walk_equations(jaxpr, [*constants, *weights, *inputs], context))


def _list_doubled_scopes(subject: Subject, marks: Marks) -> set[str]:
    """Return the names of the scopes that the framework opens around layers, beside the marks that we open."""
    if subject.kind != "flax.linen":
        return set(subject.scopes)
    return {*marks.types.values(), *(path.rpartition(".")[2] for path in marks.types)}


def make_trace(subject: Subject, traced: Traced, passed: _WalkedPass, training: bool) -> ModelTrace:
    """Return the trace of a walked pass."""
    walk, inputs, results = passed
    work, marks = walk.work, traced.marks
    types = order_types(subject, marks.types, walk.frames.user_scopes)
    # In branches that are not counted layers have a cost too: the ends of a count are compared with it.
    uncounted = [op for choice in work.choices for op in choice.list_uncounted()]
    count_whole_layers([*work.operators, *uncounted], subject, marks, walk.frames, training)
    is_keras = subject.kind == "keras"  # it saves variables alone
    constants = list_constants(walk.arrays.values(), first=len(subject.leaves), persistent=not is_keras)
    calls = list_calls(work.operators, inputs, results[: traced.outputs], marks, walk.frames)
    layers = layer_records(types, (*list_weights(subject.leaves, types), *constants), calls)
    memory = _measure_memory(passed)
    lacking = dict.fromkeys(_list_lacking(walk, traced), 1)
    trace = ModelTrace(
        layers,
        tuple(map(_make_record, work.operators, list_reads(work.operators, inputs))),
        MemoryTimeline(count_weight_bytes(layers), _count_input_bytes(passed), memory.live_bytes, MEMORY_NOTE),
        {**work.count_missing(), **lacking},
        _METHOD,
        tuple(_list_notes(walk, traced, subject)),
        choices=tuple(choice.sum_up() for choice in work.choices),
        peak_spread=memory.peak_spread,
    )
    made_under = (*list_changes(SETTINGS, counts=True), *formulas_used(trace, COSTS.list_added()))
    return replace(trace, conditions=made_under)


def _list_lacking(walk: Walk, traced: Traced) -> list[str]:
    """Return descriptions of the facts that this release of JAX does not tell, so that the counts are partial."""
    unneeded = "this release of JAX does not tell which equations no output needs: they may be among the counts"
    return [*walk.lacking, *([unneeded] if traced.has_all else [])]


def _make_record(op: Executed, reads: tuple[int, ...]) -> OpRecord:
    """Return the record of one equation."""
    return make_record(op, op.chain[-1], reads, phase="backward" if op.is_backward else "forward")


def _measure_memory(passed: _WalkedPass) -> BranchedMemory:
    inputs, results = passed.inputs, passed.results
    timeline = partial(measure_live_bytes, inputs=inputs, outputs=results, find_sources=lambda op: op.sources)
    return measure_memory(passed.walk.work.parts, timeline, _count_input_bytes(passed))


def _count_input_bytes(passed: _WalkedPass) -> int:
    return sum(value.bytes for value in passed.inputs)


def _list_notes(walk: Walk, traced: Traced, subject: Subject) -> list[str]:
    notes = [*walk.notes]
    if traced.unmarked:
        notes.append(traced.unmarked)
    constants = sum(is_float(array) for array in walk.arrays.values())
    if constants and not any(leaf.is_parameter for leaf in subject.leaves):
        notes.append(
            f"no parameters: arrays that the function holds itself, {constants} here, count as buffers and have no "
            "gradients; give JaxModel(function, params) to count them as parameters"
        )
    if walk.folded:
        notes.append(
            f"equations on single numbers that are known before the function runs, {walk.folded} here, count as "
            "nothing: XLA computes them while it compiles"
        )
    return notes


# The jaxpr of one pass: neither weights nor activations are computed --------------------------------------------------


#: Makes the function that is traced of a model and a call of it: the pass itself, or a training step with it.
_MakePass: TypeAlias = Callable[[Subject, Function], Callable[[Any, Any], Any]]


@dataclass
class Traced:
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


def trace_pass(subject: Subject, inputs: ModelInputs, make_pass: _MakePass, training: bool = False) -> Traced:
    """Return the jaxpr of a pass.

    If layers cannot be marked, because a model compares their classes for example, it is traced without marks.
    """
    try:
        return _make_jaxpr(subject, inputs, make_pass, Pass(training, Marks()))
    except MemoryError:
        raise
    except Exception as error:
        return _trace_unmarked(subject, inputs, make_pass, Pass(training), error)


def _trace_unmarked(subject: Subject, inputs: ModelInputs, make_pass: _MakePass, how: Pass, error: Exception) -> Traced:
    """Return the jaxpr of a pass without marks; ``error``, which was raised with them, is raised if this fails too."""
    try:
        traced = _make_jaxpr(subject, inputs, make_pass, how)
    except MemoryError:
        raise
    except Exception:
        raise error from None
    name = type(error).__name__
    traced.unmarked = f"the layers could not be told apart: with marked layers, {name} was raised"
    return traced


def _make_jaxpr(subject: Subject, inputs: ModelInputs, make_pass: _MakePass, how: Pass) -> Traced:
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
