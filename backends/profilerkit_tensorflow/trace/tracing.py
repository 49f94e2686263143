"""One static pass over a model: a private trace and the walk over it; an eager run if it cannot be traced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from profilerkit import BackendFailedError, CostFormulaError, ModelFailedError, ModelInputs, NotOfferedError
from profilerkit.backend_kit.branch_memory import spread_of_forks
from profilerkit.backend_kit.live_bytes import live_bytes
from profilerkit.backend_kit.product_dtypes import product_dtype
from profilerkit.errors import error_summary
from profilerkit.process.collector import collector_paused
from profilerkit.times.wording import format_count
from profilerkit.trace.bounds import PeakSpread
from profilerkit.trace.conditions import formulas_used, write_notes
from profilerkit.trace.cross_check import ObservedRun
from profilerkit.trace.records import MemoryTimeline, ModelTrace, OpRecord, TensorInfo, distinct

from ..compat import converts, list_traces, notes, unheard
from ..costs.registry import COSTS
from ..model.kinds import is_function, is_saved_model, is_unbuilt, is_variable, list_layers
from ..model.replicas import find_strategy, note_of_replicas
from ..model.saved_packing import read_packing
from ..model.unmade_weights import describe_unmade_weights
from ..model.variables import list_weights
from ..model.weights import count_bytes, identify, list_trainable_variables
from ..untouched.held_state import HeldState
from ..untouched.preservation import preserve
from .conditions import conditions
from .departures import Departures
from .eager_run import EagerRun
from .kernel_memory import tensor_bytes
from .layers import LayerCalls, layer_records
from .live_bytes import constant_bytes, find_unsized_tensors, write_steps
from .messages import explain_failed_pass, only_in_graphs
from .observation import operator_macs, sum_work
from .otherwise_eagerly import compare_with_a_run
from .pricing import UNKNOWN_SHAPE
from .program import Program, trace_program
from .questions import Questions
from .values import Executed, PartialShape, Value, static_shape
from .walk import Walk

__all__ = ["BOOKKEEPING", "list_captured", "macs_of_program", "observe_run", "trace_model", "trace_of_program"]

#: Operators that hand data on, read a weight or only keep the graph going: they do no work and get no record.
BOOKKEEPING = frozenset(
    (
        *("Const", "Identity", "IdentityN", "NoOp", "ReadVariableOp", "VarHandleOp", "StopGradient", "PreventGradient"),
        *("Reshape", "Squeeze", "ExpandDims", "Shape", "ShapeN", "Size", "Rank", "ZerosLike"),
    )
)


#: An unbuilt model is not built with values, for an eager run, if its weights take more.
_MOST_BYTES_MADE = 2**28

_AS_A_GRAPH = "of the model run as a graph; run eagerly, more stays alive"


def trace_model(model: Any, inputs: ModelInputs | None, *, training: bool = False) -> ModelTrace:
    """Return the trace of one forward pass, or of one training step; of a model that raises it has the layers alone.

    Its notes tell what the caller has switched on that changes the numbers.
    """
    trace = _trace(model, inputs, training)
    if trace.failure is not None or inputs is None:
        return trace
    further = (*write_notes((*conditions(model), *formulas_used(trace, COSTS.list_added()))), *notes())
    return replace(trace, notes=(*trace.notes, *further)) if further else trace


def _trace(model: Any, inputs: ModelInputs | None, training: bool) -> ModelTrace:
    """Trace the model as a graph; where that cannot be done, or a value decides, by an eager run."""
    if inputs is None:
        return _layers_alone(model)
    # A collector's pause costs more than the walk, and what only it would free is small: graphs hold no data.
    trace: ModelTrace | None = None
    followed: list[LayerCalls] = []
    questions, departures = Questions(), Departures(lambda: followed[-1].owner.path if followed else "")
    with collector_paused(), preserve(model):
        try:
            with questions.listen(), departures.watch(values=False):
                program = trace_program(model, inputs, training=training, followed=followed)
        except NotOfferedError as error:
            return _layers_alone(model, error)
        except Exception as error:  # whatever the model raises while it is traced
            refusal = explain_failed_pass(model, error, inputs)
            if only_in_graphs(error) and not converts():
                hidden = "this release of TensorFlow does not show how it converts code with conditions on tensors"
                return _layers_alone(model, NotOfferedError(f"{hidden} ({error})"), followed)
        else:
            try:
                trace = trace_of_program(program, training=training)
            except (CostFormulaError, NotOfferedError) as error:
                return _layers_alone(model, error)
    if trace is not None:
        if training:
            return trace
        trace = _complete_eagerly(model, inputs, trace)
        asked = [*questions.asked, *departures.missing, *unheard()]
        return compare_with_a_run(model, inputs, trace, asked) if asked else trace
    return _layers_alone(model, refusal, followed) if training else _run_eagerly(model, inputs, refusal, followed)


def _run_eagerly(
    model: Any, inputs: ModelInputs, refusal: ModelFailedError | BackendFailedError, followed: list[LayerCalls]
) -> ModelTrace:
    """Watch one eager pass of a model that cannot be traced; if that raises too, the model has failed."""
    with preserve(model, variable_values=True):
        try:
            run = EagerRun(model, inputs, followed)
        except (CostFormulaError, NotOfferedError) as error:
            return _layers_alone(model, error)
        except MemoryError:
            raise
        except Exception as error:  # whatever the model raises
            # What kept it from being traced is the clearer message, unless it is just that it cannot be traced.
            failure = explain_failed_pass(model, error, inputs) if only_in_graphs(refusal.__cause__) else refusal
        else:
            if not run.did_nothing:
                return _make_eager_trace(model, run, _explain_eager_run(refusal))
            failure = refusal  # no operator ran on values, so that zeros would be counted
    return _layers_alone(model, failure, followed)


def _complete_eagerly(model: Any, inputs: ModelInputs, trace: ModelTrace) -> ModelTrace:
    """Return the trace; where sizes depend on values, such as the length of texts, one of an eager run that knows them.

    The trace of the graph is returned where an eager run leaves out as much: where the model raises then, or where it
    would have to make many weights first.
    """
    unsized = sorted(name for name in trace.uncounted if name.endswith(UNKNOWN_SHAPE))
    lacking = (
        sum(parameter.bytes for layer in trace.layers for parameter in layer.parameters) if is_unbuilt(model) else 0
    )
    if not unsized or lacking > _MOST_BYTES_MADE:
        return trace
    with preserve(model, variable_values=True):
        try:
            run = EagerRun(model, inputs, is_traceable=True)
        except MemoryError:
            raise
        except Exception:  # whatever the model raises where it runs eagerly; its graph has raised nothing
            return trace
        if run.did_nothing or not run.uncounted.keys() < trace.uncounted.keys():
            return trace
        done = _make_eager_trace(model, run, f"sizes in its graph depend on values: {unsized[0]}")
    # The graph knows more weights: those that a function captures.
    layers = done.layers if done.memory.weight_bytes == trace.memory.weight_bytes else trace.layers
    memory = replace(done.memory, weight_bytes=trace.memory.weight_bytes, unsized={})
    return replace(done, layers=layers, memory=memory, unmade_weights=trace.unmade_weights, program=trace.program)


def _explain_eager_run(refusal: ModelFailedError | BackendFailedError) -> str:
    """Return why a model is run eagerly, by the error that tracing it has raised."""
    is_own = isinstance(refusal, BackendFailedError)
    why = "the tensorflow backend has failed to trace the model" if is_own else "the model cannot be traced"
    return f"{why} as a graph ({error_summary(refusal.__cause__ or refusal)})"


def _make_eager_trace(model: Any, run: EagerRun, why: str) -> ModelTrace:
    """Return the trace of an eager run; ``why`` says why there was one."""
    read, hidden = _read_by_function(model, run) if is_function(model) else ([], 0)
    packing, trained = read_packing(run.layers, read), list_trainable_variables(run.layers, read)
    records = layer_records(run.layers, run.calls.calls, trained, read, packing.counts)
    weights = distinct(weight for record in records for weight in (*record.parameters, *record.buffers))
    shown = [(op, live) for op, live in zip(run.executed, run.live_bytes, strict=True) if _is_record(op)]
    return ModelTrace(
        layers=records,
        operators=tuple(_record(op) for op, _ in shown),
        memory=MemoryTimeline(
            sum(weight.bytes for weight in weights),
            run.input_bytes,
            tuple(live for _, live in shown),
            unsized={"ReadVariableOp": hidden} if hidden else {},
        ),
        uncounted=dict(run.uncounted),
        method="an eager run",
        operator_macs=operator_macs(run.executed),
        unmade_weights=f"{format_count(hidden, 'variable')} to which the function's code does not lead"
        if hidden
        else packing.describe_unknown(op.type for op in run.executed),
        notes=(
            "counted in one eager run, for the values of these inputs and with the memory of eager execution: " + why,
        ),
    )


def _read_by_function(function: Any, run: EagerRun) -> tuple[list[Any], int]:
    """Return the variables that a function has read, and how many more it has to which its code does not lead."""
    variables = {id(variable.handle): variable for variable in HeldState(function).variables}
    return [variables[key] for key in run.handles if key in variables], len(run.handles.keys() - variables.keys())


def _layers_alone(model: Any, failure: Exception | None = None, followed: Sequence[LayerCalls] = ()) -> ModelTrace:
    """Return the layers of a model that did not run to its end, with the calls of the last pass that made any."""
    layers, captured = list_layers(model), list_captured(model)
    if failure is not None and not captured and is_function(model):  # its traces failed: what its code leads to
        captured = [weight.variable for weight in list_weights(model)]
    calls = next((call.calls for call in reversed(followed) if call.calls), {})
    packing, trained = read_packing(layers, captured), list_trainable_variables(layers, captured)
    records = layer_records(layers, calls, trained, captured, packing.counts)
    unmade = describe_unmade_weights(model) or packing.describe_unknown()
    return ModelTrace(layers=records, failure=failure, unmade_weights=unmade)


def list_captured(model: Any) -> list[Any]:
    """Return the variables that a function holds by having been traced before."""
    concrete = [model] if hasattr(model, "captured_inputs") else list_traces(model)
    if concrete is None:
        is_traced = isinstance(model, tf.types.experimental.PolymorphicFunction)
        return [weight.variable for weight in list_weights(model)] if is_traced else []
    variables = {id(variable): variable for function in concrete for variable in function.graph.variables}
    return list(variables.values())


def _parameters_among(captured: Iterable[Any], model: Any) -> list[Any]:
    """Return the captured variables that may be parameters: of a saved model, only those that it lists."""
    listed = getattr(model, "variables", None) if is_saved_model(model) else None
    if listed is None or callable(listed) or is_variable(listed):
        return list(captured)
    declared = set(map(identify, listed))
    return [variable for variable in captured if identify(variable) in declared]


def trace_of_program(program: Program, *, training: bool = False) -> ModelTrace:
    """Walk over a traced program, of a pass or of a training step, and return its trace."""
    walk = Walk(program.calls.ownership)
    call_values = _CallValues(walk, program)
    results = walk.run(program.graph, call_values.arguments)
    captured = _parameters_among(program.graph.variables, program.layers[0][1])
    trained = list_trainable_variables(program.layers, captured)
    packing = read_packing(program.layers, captured)
    records = layer_records(program.layers, program.calls.calls, trained, captured, packing.counts)
    live = _live_bytes(walk.executed, walk.spans, call_values, results)
    unsized = find_unsized_tensors(walk.executed, call_values.tensors)
    walk.folding.release()
    shown = [(op, alive) for op, alive in zip(walk.executed, live, strict=True) if _is_record(op)]
    weights = distinct(weight for record in records for weight in (*record.parameters, *record.buffers))
    held_bytes = sum(weight.bytes for weight in weights) + call_values.held_bytes + constant_bytes(walk.executed)
    kept = set(map(identify, captured))
    held_bytes += sum(count_bytes(state) for state in program.graph.variables if identify(state) not in kept)
    return ModelTrace(
        layers=records,
        operators=tuple(_record(op, training) for op, _ in shown),
        memory=MemoryTimeline(
            held_bytes, call_values.input_bytes, tuple(alive for _, alive in shown), _AS_A_GRAPH, unsized
        ),
        uncounted=dict(walk.uncounted),
        method="a traced graph",
        notes=(*_notes(walk, program), *_note_packed(packing.counts)),
        unmade_weights=packing.describe_unknown(op.type for op in walk.executed),
        program=program,
        choices=tuple(walk.choices),
        operator_macs=operator_macs(walk.executed),
        peak_spread=_peak_spread(walk, call_values, results),
    )


def observe_run(program: Program, name: str, earlier: Program | None) -> list[ObservedRun]:
    """Return what the runs of a program do, under a name; nothing where the program of the trace is known and alike.

    ``earlier`` is the program of the last trace. That of another model, and none, are not compared.
    """
    if earlier is None or earlier.layers[0][1] is not program.layers[0][1] or program.is_like(earlier):
        return []
    return [ObservedRun(name, macs_of_program(program))]


def macs_of_program(program: Program) -> int | None:
    """Return the multiply-accumulates of a program's operators; None where they are not all known."""
    walk = Walk(program.calls.ownership)
    try:
        walk.run(program.graph, _CallValues(walk, program).arguments)
        return None if sum_work(walk) is None else operator_macs(walk.executed)
    except CostFormulaError:  # the trace has said it
        return None
    finally:
        walk.folding.release()


class _CallValues:
    """What a program is called with: its inputs, and the variables and tensors that it captures.

    The inputs have the shapes of the call, and so do the parts of sparse and ragged tensors: costs are for as many
    values as these have.
    """

    def __init__(self, walk: Walk, program: Program) -> None:
        self.arguments: list[Value] = []
        self.input_bytes = 0
        self.held_bytes = 0
        self.sizes: dict[int, int] = {}
        captures = {placeholder.name: tensor for tensor, placeholder in program.graph.captures}
        shapes = iter(program.input_shapes)
        for placeholder in program.graph.inputs:
            captured = captures.get(placeholder.name)
            shape, constant = next(shapes) if captured is None else (static_shape(placeholder), None)
            value = walk.folding.new_value(shape, placeholder.dtype.name, placeholder)
            size = tensor_bytes(value.shape, value.dtype)
            if captured is None:
                self.input_bytes += size
                value.constant = constant
            else:
                self.held_bytes += size
                value.constant = _small_constant(captured, size)
            self.sizes[value.key] = size if captured is None else 0
            self.arguments.append(value)

    @property
    def tensors(self) -> list[tuple[int, PartialShape, str]]:
        """The arguments' numbers, shapes and dtypes."""
        return [(value.key, value.shape, value.dtype) for value in self.arguments]


def _small_constant(tensor: Any, size: int) -> Any:
    """Return the value of a small tensor that a function holds: it may limit a loop."""
    return tensor.numpy() if hasattr(tensor, "numpy") and 0 < size <= 64 else None


def _live_bytes(
    executed: Sequence[Executed], spans: Sequence[tuple[int, int]], call_values: _CallValues, results: Sequence[Value]
) -> Sequence[int]:
    """Return the bytes alive while each operator runs as a graph, in which a value is freed after its last use."""
    steps = write_steps(executed, call_values.tensors, lambda operator: operator.equation)
    made = {value for step in steps for value, _ in step.makes} | call_values.sizes.keys()
    kept = [value.key for value in results if value.key in made]
    return live_bytes(steps, call_values.sizes, kept, spans)


def _peak_spread(walk: Walk, call_values: _CallValues, results: Sequence[Value]) -> PeakSpread:
    def timeline(executed: Sequence[Executed], spans: Sequence[tuple[int, int]]) -> Sequence[int]:
        return _live_bytes(executed, spans, call_values, results)

    return spread_of_forks(walk.executed, walk.spans, walk.forks, timeline, call_values.input_bytes)


#: The names that TensorFlow gives to gradients: a scope of their own, or that of the sum of several for one tensor.
_GRADIENT = re.compile(r"gradient_tape/|AddN(_\d+)?$")


def _is_record(op: Executed) -> bool:
    return not op.silent and op.type not in BOOKKEEPING


def _record(op: Executed, training: bool = False) -> OpRecord:
    """Return what reports say of one operator."""
    outputs = tuple(TensorInfo(_write_sizes(shape), dtype) for _, shape, dtype in op.outputs)
    written = sum(tensor_bytes(shape, dtype) for _, shape, dtype in op.outputs) * op.times
    return OpRecord(
        operator=op.type,
        layer=op.owner.path,
        call=op.owner.call,
        macs=op.macs,
        flops=op.flops,
        bytes_read=op.input_bytes * op.times,
        bytes_written=written,
        outputs=outputs,
        phase="backward" if training and _GRADIENT.match(op.name) else "forward",
        product_dtype=product_dtype(op.input_dtypes, outputs[0].dtype) if op.macs and outputs else None,
    )


def _write_sizes(shape: PartialShape) -> tuple[int, ...]:
    return () if shape is None else tuple(-1 if size is None else size for size in shape)


def _note_packed(packed: Mapping[int, int]) -> Iterator[str]:
    """Yield a note if weights keep several numbers in one element."""
    if packed:
        which = f"{len(packed)} weights are" if len(packed) > 1 else "a weight is"
        yield f"{which} quantised to 4 bits, two numbers to a byte: parameters count the numbers, the size the bytes"


def _notes(walk: Walk, program: Program) -> Iterator[str]:
    yield from sorted(walk.notes)
    yield from note_of_replicas(find_strategy(program.layers))
    made = ", ".join(sorted(set(program.calls.strangers)))
    if made:
        yield f"the model makes layers while it runs ({made}); their work is counted, their parameters are not"
