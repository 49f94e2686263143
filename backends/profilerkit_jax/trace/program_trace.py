"""The trace of a program: the walk over its equations, and the bytes alive while it runs as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from profilerkit import ModelTrace
from profilerkit.backend_kit.graph_memory import measure_live_bytes
from profilerkit.backend_kit.graph_records import list_reads, make_record
from profilerkit.backend_kit.scoped_calls import count_weight_bytes, layer_records
from profilerkit.backend_kit.settings import list_changes
from profilerkit.trace.conditions import formulas_used
from profilerkit.trace.records import LayerRecord, MemoryTimeline

from ..costs.registry import COSTS
from ..model.arrays import is_float
from ..model.scope_names import Marks
from ..model.subject import Subject
from ..model.weights import list_constants, list_weights
from ..untouched.settings import SETTINGS
from .control_flow import HANDLERS
from .frames import Context, Frames
from .layers import list_calls, number_calls, order_types
from .program import Program
from .values import Value
from .walk import Walk
from .whole_layer_costs import count_whole_layers

__all__ = ["MakeWalk", "WalkedProgram", "trace_of_program", "walk_program"]

_MEMORY_NOTE = "along the jaxpr, as written; XLA fuses, orders and reuses otherwise (profilerkit_jax.compiled_analysis)"
_HAS_ALL = "this release of JAX does not tell which equations no output needs: they may be among the counts"
#: Makes the walk over the equations: a subclass may count otherwise.
MakeWalk: TypeAlias = Callable[..., Walk]


class WalkedProgram(NamedTuple):
    """The walk over a program, and the values of the inputs and of all results."""

    walk: Walk
    inputs: list[Value]
    results: list[Value]

    def has_own_marks(self, program: Program) -> bool:
        """Return whether all marks are of the trace of the program, and none of an earlier trace."""
        return all(opened.name in program.marks.calls for opened in self.walk.frames.marked)


def walk_program(subject: Subject, program: Program, make_walk: MakeWalk = Walk) -> WalkedProgram:
    """Go over the equations of a program, with the values of the weights and inputs."""
    jaxpr = program.jaxpr.jaxpr
    walk = make_walk(Frames(subject.types, _list_doubled_scopes(subject, program.marks)), HANDLERS)
    constants = walk.make_constants(jaxpr, program.jaxpr.consts)
    of_weights, of_inputs = jaxpr.invars[: program.weights], jaxpr.invars[program.weights :]
    weights = [
        walk.make_weight(variable.aval, value) for variable, value in zip(of_weights, subject.values, strict=True)
    ]
    inputs = [walk.make_input(variable.aval, value) for variable, value in zip(of_inputs, program.inputs, strict=True)]
    context = Context(instance=next(walk.walk_ids))
    return WalkedProgram(walk, inputs, walk.walk_equations(jaxpr, [*constants, *weights, *inputs], context))


def _list_doubled_scopes(subject: Subject, marks: Marks) -> set[str]:
    """Return the names of the scopes that the framework opens around layers, beside the marks that we open."""
    if subject.kind != "flax.linen":
        return set(subject.scopes)
    return {*marks.types.values(), *(path.rpartition(".")[2] for path in marks.types)}


def trace_of_program(subject: Subject, program: Program, walked: WalkedProgram, training: bool) -> ModelTrace:
    """Return the trace of a program that was walked."""
    walk, inputs, results = walked
    work = walk.work
    layers = _record_layers(subject, program, walked, training)  # first: it moves work between equations
    reads = list_reads(work.operators, inputs)
    operators = [
        make_record(
            op,
            op.chain[-1],
            op_reads,
            phase="backward" if op.is_backward else "forward",
            is_view=bool(op.outputs) and all(output.number in op.sources for output in op.outputs),
        )
        for op, op_reads in zip(work.operators, reads, strict=True)
    ]
    input_bytes = sum(value.bytes for value in inputs)
    live_bytes = measure_live_bytes(work, inputs, results, lambda op: op.sources)
    lacking = [*walk.lacking, *([_HAS_ALL] if program.has_all else [])]
    trace = ModelTrace(
        layers,
        tuple(operators),
        MemoryTimeline(count_weight_bytes(layers), input_bytes, live_bytes, _MEMORY_NOTE),
        {**work.count_missing(), **dict.fromkeys(lacking, 1)},
        "shapes in a jaxpr",
        tuple(_list_notes(walk, program, subject)),
        choices=tuple(choice.sum_up() for choice in work.choices),
        peak_spread=work.peak_spread,
    )
    made_under = (*list_changes(SETTINGS, counts=True), *formulas_used(trace, COSTS.list_added()))
    return replace(trace, conditions=made_under)


def _record_layers(
    subject: Subject, program: Program, walked: WalkedProgram, training: bool
) -> tuple[LayerRecord, ...]:
    """Return the layers with their weights and calls; number their calls, and count some layers as a whole."""
    walk, marks = walked.walk, program.marks
    executed = walk.work.operators
    # In branches that are not counted layers have a cost too: the ends of a count are compared with it.
    uncounted = [op for choice in walk.work.choices for op in choice.list_uncounted()]
    renumbered = number_calls(executed, uncounted)
    marked_by_scope = {
        renumbered[call]: marks.calls[opened.name] for opened, call in walk.frames.marked.items() if call in renumbered
    }
    count_whole_layers([*executed, *uncounted], subject, marks.classes, marked_by_scope, training)
    types = order_types(subject, marks.types, walk.frames.user_scopes)
    outputs = walked.results[: program.outputs]
    run = {marked_by_scope.get(scope) for equation in executed for scope in equation.chain}
    not_run = {marks.calls[opened.name] for opened in walk.frames.marked} - run  # in branches that are not taken
    marked_calls = [call for call in marks.calls.values() if call not in not_run]
    calls = list_calls(executed, walked.inputs, outputs, marked_calls, marked_by_scope)
    is_keras = subject.kind == "keras"  # it saves variables alone
    constants = list_constants(walk.arrays.values(), first=len(subject.leaves), persistent=not is_keras)
    return tuple(layer_records(types, (*list_weights(subject.leaves, types), *constants), calls))


def _list_notes(walk: Walk, program: Program, subject: Subject) -> list[str]:
    notes = [*walk.notes]
    if program.unmarked:
        notes.append(program.unmarked)
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
