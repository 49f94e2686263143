"""The trace of a traced program: the walk over its operators, and the bytes alive while it runs as a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from profilerkit import CostFormulaError, ModelTrace
from profilerkit.backend_kit.call_stack import note_unlisted
from profilerkit.backend_kit.graph_traces import FOLLOWED, NO_BACKWARD_PASS
from profilerkit.trace.observed_runs import ObservedRun
from profilerkit.trace.records import MemoryTimeline

from ..model.replicas import describe_replicas, find_strategy
from .control_flow import HANDLERS
from .folding import Folding, small_value
from .layer_records import record_program_layers
from .memory import AS_A_GRAPH, count_constant_bytes, find_unsized_tensors, list_live_bytes
from .observation import sum_macs
from .operator_records import count_operator_macs, select_shown
from .program import Program
from .tensor_facts import static_shape
from .values import Value
from .walk import Walk

__all__ = ["count_program_macs", "observe_run", "trace_of_program"]


def trace_of_program(program: Program) -> ModelTrace:
    """Walk over a traced program, of a pass or of a training step, and return its trace."""
    walk = Walk(program.calls.ownership, HANDLERS, program.calls.forward_end)
    inputs, captures = _list_arguments(program, walk.folding)
    results = [value.number for value in walk.run(program.graph, [*inputs, *captures])]
    work, executed = walk.work, walk.work.operators
    live_bytes = work.select_counted(list_live_bytes(work.steps, work.loops, inputs, captures, results))
    shown = select_shown(executed, live_bytes, inputs)
    layers, other_bytes = record_program_layers(program)
    held_bytes = layers.weight_bytes + other_bytes + count_constant_bytes(executed)
    held_bytes += sum(tensor.bytes for tensor in captures)
    input_bytes = sum(tensor.bytes for tensor in inputs)
    unsized = find_unsized_tensors(executed, [*inputs, *captures])
    return ModelTrace(
        layers=layers.records,
        operators=shown.operators,
        memory=MemoryTimeline(held_bytes, input_bytes, shown.live_bytes, AS_A_GRAPH, unsized),
        uncounted=dict(work.count_missing()),
        method="a traced graph",
        notes=tuple(_list_notes(walk, program, layers.packing.counts)),
        unmade_weights=layers.packing.describe_unknown(op.operator for op in executed),
        program=program,
        choices=tuple(work.choices),
        operator_macs=count_operator_macs(executed),
        peak_spread=work.peak_spread,
    )


def observe_run(program: Program, name: str, earlier: Program | None) -> list[ObservedRun]:
    """Return the run of a program, under a name; none if ``earlier``, that of the last trace, is of another model."""
    if earlier is None or earlier is program or earlier.model is not program.model:
        return []
    return [ObservedRun(name, count_program_macs(program))]


def count_program_macs(program: Program) -> int | None:
    """Return the multiply-accumulates of a program's operators; None if not all are known."""
    walk = Walk(program.calls.ownership, HANDLERS)
    try:
        inputs, captures = _list_arguments(program, walk.folding)
        walk.run(program.graph, [*inputs, *captures])
    except CostFormulaError:  # the trace has said it
        return None
    return None if sum_macs(walk) is None else count_operator_macs(walk.work.operators)


# The arguments of a call ----------------------------------------------------------------------------------------------


def _list_arguments(program: Program, folding: Folding) -> tuple[list[Value], list[Value]]:
    """Return the values of a call of a program: of its inputs, and of its captures, which its graph has behind them.

    Each part of a sparse or ragged tensor is an input: a sparse tensor of 1000 x 1000 that stores 5 values has values
    of shape (5,) and indices of shape (5, 2). ``folding`` makes the values.
    """
    inputs, captures = [], []
    for placeholder, source in zip(program.graph.inputs, program.inputs, strict=False):
        value = folding.new_value(source.shape, placeholder.dtype.name, placeholder)
        folding.give_input(value, source.numbers)  # decisions by its numbers hold for this call alone
        inputs.append(value)
    for tensor, placeholder in program.graph.captures:
        value = folding.new_value(static_shape(placeholder), placeholder.dtype.name, placeholder)
        value.constant = small_value(tensor)  # the same in each call
        captures.append(value)
    return inputs, captures


# Notes ----------------------------------------------------------------------------------------------------------------


def _list_notes(walk: Walk, program: Program, packed: Mapping[int, int]) -> Iterator[str]:
    """Yield the notes of a trace; ``packed`` are the weights that keep several numbers in one element."""
    yield from sorted(walk.notes)
    if walk.folding.follows_inputs:
        yield FOLLOWED
    if program.calls.training and not program.concrete.structured_outputs.has_gradients:
        yield NO_BACKWARD_PASS
    yield from describe_replicas(find_strategy(program.layers))
    yield from note_unlisted(program.calls.unlisted_types)
    if packed:
        which = f"{len(packed)} weights are" if len(packed) > 1 else "a weight is"
        yield f"{which} quantised to 4 bits, two numbers to a byte: parameters count the numbers, the size the bytes"
