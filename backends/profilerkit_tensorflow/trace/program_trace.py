"""The trace of a traced program: the walk over its operators, and the bytes alive while it runs as a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from profilerkit import CostFormulaError, ModelTrace
from profilerkit.backend_kit.branch_memory import measure_memory
from profilerkit.backend_kit.call_stack import note_unlisted
from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.backend_kit.program_parts import list_all
from profilerkit.backend_kit.scoped_calls import count_weight_bytes
from profilerkit.trace.observed_runs import ObservedRun
from profilerkit.trace.records import LayerRecord, MemoryTimeline

from ..compat.saved_models import is_saved_model
from ..model.replicas import describe_replicas, find_strategy
from ..model.saved_packing import SavedPacking, read_packing
from ..model.stored_variables import count_bytes, identify, is_variable
from .control_flow import HANDLERS
from .layer_records import layer_records
from .memory import count_constant_bytes, find_unsized_tensors
from .observation import sum_macs
from .operator_records import count_operator_macs, select_shown
from .program import Program
from .program_calls import ProgramCall, list_arguments
from .walk import Walk

__all__ = ["count_program_macs", "observe_run", "trace_of_program"]

_AS_A_GRAPH = "of the model run as a graph; run eagerly, more stays alive"


def trace_of_program(program: Program) -> ModelTrace:
    """Walk over a traced program, of a pass or of a training step, and return its trace."""
    with Walk(program.calls.ownership, HANDLERS, program.calls.forward_end) as walk:
        arguments = list_arguments(program, walk.folding)
        call = ProgramCall(arguments, walk.run(program.graph, [argument.value for argument in arguments]))
        work, executed = walk.work, walk.work.operators
        memory = measure_memory(work.parts, call.list_live_bytes, call.input_bytes)
        inputs = [argument.value.number for argument in arguments if argument.bytes and not argument.is_captured]
        shown = select_shown(executed, memory.live_bytes, inputs)
        weights = _read_weights(program)
        held_bytes = weights.bytes + call.capture_bytes + count_constant_bytes(executed)
        unsized = find_unsized_tensors(list_all(work.parts), call.tensors)
        return ModelTrace(
            layers=weights.records,
            operators=shown.operators,
            memory=MemoryTimeline(held_bytes, call.input_bytes, shown.live_bytes, _AS_A_GRAPH, unsized),
            uncounted=dict(work.count_missing()),
            method="a traced graph",
            notes=tuple(_list_notes(walk, program, weights.packing.counts)),
            unmade_weights=weights.packing.describe_unknown(op.type for op in executed),
            program=program,
            choices=tuple(work.choices),
            operator_macs=count_operator_macs(executed),
            peak_spread=memory.peak_spread,
        )


def observe_run(program: Program, name: str, earlier: Program | None) -> list[ObservedRun]:
    """Return the runs of a program, under a name; none if the program of the trace is known and alike.

    ``earlier`` is the program of the last trace. Without it, or if another model has it, nothing is compared.
    """
    if earlier is None or earlier.model is not program.model or program.is_like(earlier):
        return []
    return [ObservedRun(name, count_program_macs(program))]


def count_program_macs(program: Program) -> int | None:
    """Return the multiply-accumulates of a program's operators; None if not all are known."""
    with Walk(program.calls.ownership, HANDLERS) as walk:
        try:
            walk.run(program.graph, [argument.value for argument in list_arguments(program, walk.folding)])
        except CostFormulaError:  # the trace has said it
            return None
        return None if sum_macs(walk) is None else count_operator_macs(walk.work.operators)


# Weights -----------------------------------------------------------------------------------------------------------


class _Weights(NamedTuple):
    """The variables that a program captures.

    Attributes:
        records: The layers, with the parameters and buffers of each.
        packing: How the weights of saved models keep several numbers in one element.
        bytes: The bytes of all weights, and of the captured variables that are none.
    """

    records: tuple[LayerRecord, ...]
    packing: SavedPacking
    bytes: int


def _read_weights(program: Program) -> _Weights:
    captured = program.graph.variables
    parameters = _select_parameters(captured, program.model)
    packing = read_packing(program.layers, parameters)
    records = layer_records(program.layers, program.calls.calls, parameters, packing.counts)
    of_parameters = set(map(identify, parameters))
    others = [variable for variable in captured if identify(variable) not in of_parameters]
    return _Weights(records, packing, count_weight_bytes(records) + sum(map(count_bytes, others)))


def _select_parameters(captured: Iterable[Any], model: Any) -> list[Any]:
    """Return the captured variables that may be parameters: of a saved model, only the variables that it lists."""
    listed = getattr(model, "variables", None) if is_saved_model(model) else None
    if listed is None or callable(listed) or is_variable(listed):
        return list(captured)
    declared = set(map(identify, listed))
    return [variable for variable in captured if identify(variable) in declared]


# Notes ----------------------------------------------------------------------------------------------------------------


def _list_notes(walk: Walk, program: Program, packed: Mapping[int, int]) -> Iterator[str]:
    """Yield the notes of a trace; ``packed`` are the weights that keep several numbers in one element."""
    yield from sorted(walk.notes)
    if walk.folding.follows_inputs:
        yield FOLLOWED
    yield from describe_replicas(find_strategy(program.layers))
    yield from note_unlisted(program.calls.unlisted_types)
    if packed:
        which = f"{len(packed)} weights are" if len(packed) > 1 else "a weight is"
        yield f"{which} quantised to 4 bits, two numbers to a byte: parameters count the numbers, the size the bytes"
