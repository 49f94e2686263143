"""The trace of a traced program: the walk over its operators, and the bytes alive while it runs as a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from profilerkit import CostFormulaError, ModelTrace
from profilerkit.backend_kit.branch_memory import spread_of_forks
from profilerkit.backend_kit.live_bytes import live_bytes
from profilerkit.trace.cross_check import ObservedRun
from profilerkit.trace.records import MemoryTimeline

from ..model.kinds import is_saved_model, is_variable
from ..model.replicas import find_strategy, note_of_replicas
from ..model.saved_packing import read_packing
from ..model.weights import count_bytes, identify
from .control_flow import HANDLERS
from .layer_records import count_weight_bytes, layer_records
from .live_bytes import write_steps
from .observation import sum_work
from .operator_records import count_operator_macs, select_shown
from .program import Program, ProgramInput
from .tensor_facts import Tensor, count_tensor_bytes, static_shape
from .tensor_sizes import count_constant_bytes, find_unsized_tensors
from .values import Executed, Value
from .walk import Walk

__all__ = ["count_program_macs", "observe_run", "trace_of_program"]

_AS_A_GRAPH = "of the model run as a graph; run eagerly, more stays alive"


def trace_of_program(program: Program, *, training: bool = False) -> ModelTrace:
    """Walk over a traced program, of a pass or of a training step, and return its trace."""
    walk = Walk(program.calls.ownership, HANDLERS)
    call = _CallValues(walk, program)
    results = walk.run(program.graph, call.arguments)
    work, executed = walk.work, walk.work.executed
    captured = _select_parameters(program.graph.variables, program.model)
    packing = read_packing(program.layers, captured)
    records = layer_records(program.layers, program.calls.calls, captured, packing.counts)

    def timeline(operators: Sequence[Executed], spans: Sequence[tuple[int, int]]) -> Sequence[int]:
        return _list_live_bytes(operators, spans, call, results)

    input_numbers = [number for number, size in call.sizes.items() if size]
    shown = select_shown(executed, timeline(executed, work.spans), input_numbers, training)
    unsized = find_unsized_tensors(executed, call.tensors)
    walk.folding.release()
    states = _select_states(program.graph.variables, captured)
    weight_bytes = count_weight_bytes(records) + sum(map(count_bytes, states))
    held_bytes = weight_bytes + call.held_bytes + count_constant_bytes(executed)
    return ModelTrace(
        layers=records,
        operators=shown.operators,
        memory=MemoryTimeline(held_bytes, call.input_bytes, shown.live_bytes, _AS_A_GRAPH, unsized),
        uncounted=dict(work.count_missing()),
        method="a traced graph",
        notes=(*_list_notes(walk, program), *_note_packed(packing.counts)),
        unmade_weights=packing.describe_unknown(op.type for op in executed),
        program=program,
        choices=tuple(work.choices),
        operator_macs=count_operator_macs(executed),
        peak_spread=spread_of_forks(executed, work.spans, work.forks, timeline, call.input_bytes),
    )


def observe_run(program: Program, name: str, earlier: Program | None) -> list[ObservedRun]:
    """Return what the runs of a program do, under a name; nothing where the program of the trace is known and alike.

    ``earlier`` is the program of the last trace. That of another model, and none, are not compared.
    """
    if earlier is None or earlier.model is not program.model or program.is_like(earlier):
        return []
    return [ObservedRun(name, count_program_macs(program))]


def count_program_macs(program: Program) -> int | None:
    """Return the multiply-accumulates of a program's operators; None where they are not all known."""
    walk = Walk(program.calls.ownership, HANDLERS)
    try:
        walk.run(program.graph, _CallValues(walk, program).arguments)
        return None if sum_work(walk) is None else count_operator_macs(walk.work.executed)
    except CostFormulaError:  # the trace has said it
        return None
    finally:
        walk.folding.release()


# What a program is called with ----------------------------------------------------------------------------------------


class _CallValues:
    """What a program is called with: its inputs, and the variables and tensors that it captures.

    The inputs have the shapes of the call, and so do the parts of sparse and ragged tensors: costs are for as many
    values as these have.

    Attributes:
        arguments: A value for each input of the graph.
        sizes: The bytes of each, by its number; 0 for what the program captures, which is counted as held.
        input_bytes: The bytes of the inputs.
        held_bytes: The bytes of the captured tensors.
    """

    def __init__(self, walk: Walk, program: Program) -> None:
        self.arguments: list[Value] = []
        self.sizes: dict[int, int] = {}
        self.input_bytes = 0
        self.held_bytes = 0
        captures = {placeholder.name: tensor for tensor, placeholder in program.graph.captures}
        inputs = iter(program.inputs)
        for placeholder in program.graph.inputs:
            captured = captures.get(placeholder.name)
            source = next(inputs) if captured is None else _describe_captured(captured, placeholder)
            value = walk.folding.new_value(source.shape, placeholder.dtype.name, placeholder)
            value.constant = source.numbers
            size = count_tensor_bytes(value.shape, value.dtype)
            if captured is None:
                self.input_bytes += size
            else:
                self.held_bytes += size
            self.sizes[value.number] = size if captured is None else 0
            self.arguments.append(value)

    @property
    def tensors(self) -> list[Tensor]:
        """The arguments' numbers, shapes and dtypes."""
        return [value.describe() for value in self.arguments]


def _describe_captured(tensor: Any, placeholder: Any) -> ProgramInput:
    """Return shape and numbers of a tensor that a function holds: a small one may limit a loop."""
    shape = static_shape(placeholder)
    is_small = 0 < count_tensor_bytes(shape, placeholder.dtype.name) <= 64
    return ProgramInput(shape, tensor.numpy() if is_small and hasattr(tensor, "numpy") else None)


def _list_live_bytes(
    executed: Sequence[Executed], spans: Sequence[tuple[int, int]], call: _CallValues, results: Sequence[Value]
) -> Sequence[int]:
    """Return the bytes alive while each operator runs as a graph, in which a value is freed after its last use."""
    steps = write_steps(executed, call.tensors)
    made = {number for step in steps for number, _ in step.makes} | call.sizes.keys()
    kept = [value.number for value in results if value.number in made]
    return live_bytes(steps, call.sizes, kept, spans)


# What a program captures ----------------------------------------------------------------------------------------------


def _select_parameters(captured: Iterable[Any], model: Any) -> list[Any]:
    """Return the captured variables that may be parameters: of a saved model, only those that it lists."""
    listed = getattr(model, "variables", None) if is_saved_model(model) else None
    if listed is None or callable(listed) or is_variable(listed):
        return list(captured)
    declared = set(map(identify, listed))
    return [variable for variable in captured if identify(variable) in declared]


def _select_states(captured: Iterable[Any], parameters: Iterable[Any]) -> list[Any]:
    """Return the captured variables that are not among the parameters."""
    of_parameters = set(map(identify, parameters))
    return [variable for variable in captured if identify(variable) not in of_parameters]


# What a reader must know besides --------------------------------------------------------------------------------------


def _list_notes(walk: Walk, program: Program) -> Iterator[str]:
    yield from sorted(walk.notes)
    yield from note_of_replicas(find_strategy(program.layers))
    made = ", ".join(sorted(set(program.calls.unlisted_types)))
    if made:
        yield (
            f"the model calls layers that it does not register ({made}), from a plain list or made while it "
            "runs; their work is counted, their parameters are not"
        )


def _note_packed(packed: Mapping[int, int]) -> Iterator[str]:
    """Yield a note if weights keep several numbers in one element."""
    if packed:
        which = f"{len(packed)} weights are" if len(packed) > 1 else "a weight is"
        yield f"{which} quantised to 4 bits, two numbers to a byte: parameters count the numbers, the size the bytes"
