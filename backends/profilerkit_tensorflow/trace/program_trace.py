"""The trace of a traced program: the walk over its operators, and the bytes alive while it runs as a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from profilerkit import CostFormulaError, ModelTrace
from profilerkit.backend_kit.branch_memory import measure_memory
from profilerkit.backend_kit.call_stack import note_unlisted
from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.backend_kit.live_bytes import live_bytes
from profilerkit.backend_kit.program_parts import list_all
from profilerkit.backend_kit.scoped_calls import count_weight_bytes
from profilerkit.trace.observed_runs import ObservedRun
from profilerkit.trace.records import LayerRecord, MemoryTimeline

from ..compat.saved_models import is_saved_model
from ..model.kinds import is_variable
from ..model.replicas import describe_replicas, find_strategy
from ..model.saved_packing import SavedPacking, read_packing
from ..model.stored_variables import count_bytes, identify
from .control_flow import HANDLERS
from .folding import Folding
from .layer_records import layer_records
from .memory import count_constant_bytes, find_unsized_tensors, write_steps
from .observation import sum_macs
from .operator_records import count_operator_macs, select_shown
from .program import Program, ProgramInput
from .tensor_facts import Tensor, count_tensor_bytes, static_shape
from .values import Executed, Value
from .walk import Walk

__all__ = ["count_program_macs", "observe_run", "trace_of_program"]

_AS_A_GRAPH = "of the model run as a graph; run eagerly, more stays alive"


def trace_of_program(program: Program) -> ModelTrace:
    """Walk over a traced program, of a pass or of a training step, and return its trace."""
    with Walk(program.calls.ownership, HANDLERS, program.calls.forward_end) as walk:
        arguments = _list_arguments(program, walk.folding)
        call = _CallMemory(arguments, walk.run(program.graph, [argument.value for argument in arguments]))
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
            notes=(*_list_notes(walk, program), *_note_packed(weights.packing.counts)),
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
            walk.run(program.graph, [argument.value for argument in _list_arguments(program, walk.folding)])
        except CostFormulaError:  # the trace has said it
            return None
        return None if sum_macs(walk) is None else count_operator_macs(walk.work.operators)


# The arguments of a call ----------------------------------------------------------------------------------------------


#: The most bytes of a captured tensor whose numbers are read: a larger one limits no loop.
_MOST_BYTES_READ = 64


class _Argument(NamedTuple):
    """The argument for one input of a program's graph.

    Attributes:
        value: Its value, of the shape in the call. Each part of a sparse or ragged tensor is an argument: a sparse
            tensor of 1000 x 1000 that stores 5 values has values of shape (5,) and indices of shape (5, 2).
        bytes: The bytes of the value.
        is_captured: Whether the function holds it, and the caller does not give it.
    """

    value: Value
    bytes: int
    is_captured: bool


def _list_arguments(program: Program, folding: Folding) -> list[_Argument]:
    """Return the arguments of a call of a program, in the order of its graph's inputs; ``folding`` makes the values."""
    arguments = []
    captures = {placeholder.name: tensor for tensor, placeholder in program.graph.captures}
    inputs = iter(program.inputs)  # in the order of the placeholders
    for placeholder in program.graph.inputs:
        is_captured = placeholder.name in captures
        source = _describe_captured(captures[placeholder.name], placeholder) if is_captured else next(inputs)
        value = folding.new_value(source.shape, placeholder.dtype.name, placeholder)
        if is_captured:
            value.constant = source.numbers  # the same in each call
        else:  # decisions by its numbers hold for this call alone
            folding.give_input(value, source.numbers)
        arguments.append(_Argument(value, count_tensor_bytes(value.shape, value.dtype), is_captured))
    return arguments


def _describe_captured(tensor: Any, placeholder: Any) -> ProgramInput:
    """Return shape and numbers of a tensor that a function holds: a small one may limit a loop."""
    shape = static_shape(placeholder)
    size = count_tensor_bytes(shape, placeholder.dtype.name)  # 0 if it is not known
    is_readable = 0 < size <= _MOST_BYTES_READ and hasattr(tensor, "numpy")  # a tensor of an outer graph has no numbers
    return ProgramInput(shape, tensor.numpy() if is_readable else None)


# Memory ---------------------------------------------------------------------------------------------------------------


class _CallMemory(NamedTuple):
    """The arguments and results of a call of a program, for the bytes alive in the call."""

    arguments: Sequence[_Argument]
    results: Sequence[Value]

    @property
    def tensors(self) -> list[Tensor]:
        """The arguments' numbers, shapes and dtypes."""
        return [argument.value.describe() for argument in self.arguments]

    @property
    def input_bytes(self) -> int:
        """The bytes of the inputs."""
        return sum(argument.bytes for argument in self.arguments if not argument.is_captured)

    @property
    def capture_bytes(self) -> int:
        """The bytes of the tensors that the function holds."""
        return sum(argument.bytes for argument in self.arguments if argument.is_captured)

    def list_live_bytes(self, executed: Sequence[Executed], loops: Sequence[tuple[int, int]]) -> Sequence[int]:
        """Return the bytes alive while each operator runs as a graph, in which a value is freed after its last use.

        Tensors that the function holds count as nothing here: they are there before and after the call.
        """
        steps = write_steps(executed, self.tensors)
        sizes = {argument.value.number: 0 if argument.is_captured else argument.bytes for argument in self.arguments}
        made = {number for step in steps for number, _ in step.makes} | sizes.keys()
        kept = [value.number for value in self.results if value.number in made]
        return live_bytes(steps, sizes, kept, loops)


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


def _list_notes(walk: Walk, program: Program) -> Iterator[str]:
    yield from sorted(walk.notes)
    if walk.folding.follows_inputs:
        yield FOLLOWED
    yield from describe_replicas(find_strategy(program.layers))
    yield from note_unlisted(program.calls.unlisted_types)


def _note_packed(packed: Mapping[int, int]) -> Iterator[str]:
    """Yield a note if weights keep several numbers in one element."""
    if packed:
        which = f"{len(packed)} weights are" if len(packed) > 1 else "a weight is"
        yield f"{which} quantised to 4 bits, two numbers to a byte: parameters count the numbers, the size the bytes"
