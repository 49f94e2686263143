"""The trace of an eager run: of a model that cannot be traced as a graph, or has sizes that depend on values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from profilerkit import BackendFailedError, CostFormulaError, ModelInputs, ModelTrace, NotOfferedError
from profilerkit.backend_kit.operator_costs import UNKNOWN_SHAPE
from profilerkit.count_text import format_count
from profilerkit.errors import ProfilerKitError, error_summary
from profilerkit.trace.records import MemoryTimeline

from ..compat.eager_runs import read_number
from ..model.kinds import is_function, is_unbuilt
from ..untouched.held_state import HeldState
from ..untouched.preservation import preserve
from .eager_run import EagerRun, run_eagerly
from .layer_records import record_layers, trace_layers_alone
from .layers import LayerCalls
from .memory import AS_A_GRAPH, list_live_bytes
from .messages import explain_failed_pass, only_in_graphs
from .operator_records import count_operator_macs, select_shown

__all__ = ["complete_eagerly", "trace_eagerly"]

#: An unbuilt model is not built with values, for an eager run, if its weights take more.
_MOST_BYTES_MADE = 2**28
#: The operators of ``tf.numpy_function``: an eager run calls its function on arrays of numpy, and shows no operator.
_PYTHON_FUNCTIONS = ("PyFunc", "PyFuncStateless")
#: The operator that reads a variable.
_OF_VARIABLES = "ReadVariableOp"


def trace_eagerly(model: Any, inputs: ModelInputs, refusal: ProfilerKitError, followed: list[LayerCalls]) -> ModelTrace:
    """Return the trace of one eager run of a model; if the run fails or cannot be counted, of its layers alone.

    Args:
        model: The model.
        inputs: Its inputs.
        refusal: Why the model cannot be traced as a graph.
        followed: The calls of layers in each pass so far; the calls of this run are added.
    """
    with preserve(model, variable_values=True):
        run = _run(model, inputs, refusal, followed)
        if isinstance(run, EagerRun):
            return _make_trace(model, run, _explain(refusal))
    # After the model was restored: a call that failed may have built a part of it.
    return trace_layers_alone(model, run, followed)


def _run(
    model: Any, inputs: ModelInputs, refusal: ProfilerKitError, followed: list[LayerCalls]
) -> EagerRun | ProfilerKitError:
    """Return an eager run; if no run can be counted, the error with the reason."""
    try:
        run = run_eagerly(model, inputs, followed)
    except (CostFormulaError, NotOfferedError) as error:
        return error
    except MemoryError:
        raise
    except Exception as error:  # any error of the model
        # The error of the tracing is the clearer message, unless it says only that the code needs an eager run.
        return explain_failed_pass(model, error, inputs) if only_in_graphs(refusal.__cause__) else refusal
    return refusal if run.did_nothing else run  # without an operator that ran on values, zeros would be counted


def complete_eagerly(model: Any, inputs: ModelInputs, trace: ModelTrace) -> ModelTrace:
    """Return the trace of a model's graph, or of an eager run if that counts operators which the graph's does not.

    These are operators whose sizes depend on values, for example on the length of texts: only a run knows them. The
    graph's trace is returned if the model raises when it runs eagerly, or if many weights would have to be made first.
    """
    unsized = sorted(name for name in trace.uncounted if name.endswith(UNKNOWN_SHAPE))
    if not unsized or _count_unmade_bytes(model, trace) > _MOST_BYTES_MADE:
        return trace
    with preserve(model, variable_values=True):
        try:
            run = run_eagerly(model, inputs, is_traceable=True)
        except MemoryError:
            raise
        except Exception:  # any error of the model in an eager run; its graph has raised nothing
            return trace
        counts_more = run.uncounted.keys() < trace.uncounted.keys()
        if run.did_nothing or not counts_more:
            return trace
        of_run = _make_trace(model, run, f"sizes in its graph depend on values: {unsized[0]}")
    return _add_facts_of_graph(of_run, trace)


def _add_facts_of_graph(of_run: ModelTrace, of_graph: ModelTrace) -> ModelTrace:
    """Return the trace of an eager run with what only the graph tells: the captures of a function, work of Python."""
    of_python = {name: calls for name, calls in of_graph.uncounted.items() if name in _PYTHON_FUNCTIONS}
    weight_bytes = of_graph.memory.weight_bytes
    unsized = {name: calls for name, calls in of_run.memory.unsized.items() if name != _OF_VARIABLES}
    return replace(
        of_run,
        uncounted={**of_run.uncounted, **of_python},
        layers=of_run.layers if of_run.memory.weight_bytes == weight_bytes else of_graph.layers,
        memory=replace(of_run.memory, weight_bytes=weight_bytes, unsized=unsized),
        unmade_weights=of_graph.unmade_weights,
        program=of_graph.program,
    )


def _count_unmade_bytes(model: Any, trace: ModelTrace) -> int:
    """Return the bytes of the weights that an eager run would make."""
    if not is_unbuilt(model):
        return 0
    return sum(parameter.bytes for layer in trace.layers for parameter in layer.parameters)


def _explain(refusal: ProfilerKitError) -> str:
    """Return why a model is run eagerly, by the error that tracing it has raised."""
    is_of_backend = isinstance(refusal, BackendFailedError)
    why = "the tensorflow backend has failed to trace the model" if is_of_backend else "the model cannot be traced"
    return f"{why} as a graph ({error_summary(refusal.__cause__ or refusal)})"


def _make_trace(model: Any, run: EagerRun, why: str) -> ModelTrace:
    """Return the trace of an eager run; ``why`` says why there was one."""
    variables, hidden = _find_read_variables(model, run) if is_function(model) else ([], 0)
    layers = record_layers(run.layers, run.calls.calls, variables)
    results = [tensor.number for tensor in run.results]
    live_bytes = list_live_bytes(run.executed, (), run.inputs, (), results)
    shown = select_shown(run.executed, live_bytes, run.inputs)
    unmade = layers.packing.describe_unknown(op.operator for op in run.executed)
    unsized = {}
    if hidden:
        unmade = f"{format_count(hidden, 'variable')} to which the function's code does not lead"
        unsized[_OF_VARIABLES] = hidden
    if not read_number(tf.constant(0)):  # by its `id`, a tensor may be taken for one that is gone
        unsized["operators whose tensors this release does not number"] = len(run.executed)
    input_bytes = sum(tensor.bytes for tensor in run.inputs)
    return ModelTrace(
        layers=layers.records,
        operators=shown.operators,
        memory=MemoryTimeline(layers.weight_bytes, input_bytes, shown.live_bytes, AS_A_GRAPH, unsized),
        uncounted=dict(run.uncounted),
        method="an eager run",
        operator_macs=count_operator_macs(run.executed),
        unmade_weights=unmade,
        notes=(f"counted in one eager run, for the values of these inputs: {why}",),
    )


def _find_read_variables(function: Any, run: EagerRun) -> tuple[list[Any], int]:
    """Return the variables that a function has read in an eager run, and how many more its code does not lead to."""
    variables = {id(variable.handle): variable for variable in HeldState().visit(function).variables}
    read = [variables[key] for key in run.read_handles if key in variables]
    return read, len(run.read_handles.keys() - variables.keys())
