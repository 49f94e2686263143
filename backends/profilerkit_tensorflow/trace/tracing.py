"""One static pass over a model: a private trace and the walk over it; an eager run if it cannot be traced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from profilerkit import CostFormulaError, ModelInputs, ModelTrace, NotOfferedError
from profilerkit.errors import ProfilerKitError
from profilerkit.process.collector import collector_paused
from profilerkit.trace.conditions import formulas_used

from ..compat.functions import can_convert
from ..compat.process_state import list_notes
from ..costs.registry import COSTS
from ..untouched.preservation import preserve
from ..untouched.settings import conditions
from .eager_trace import complete_eagerly, trace_eagerly
from .layer_records import trace_layers_alone
from .layers import LayerCalls
from .messages import explain_failed_pass, only_in_graphs
from .program import trace_program
from .program_trace import trace_of_program

__all__ = ["trace_model"]


def trace_model(model: Any, inputs: ModelInputs | None, *, training: bool = False) -> ModelTrace:
    """Return the trace of one forward pass, or of one training step; for a model that raises, only its layers.

    The conditions of the trace name the caller's settings that change the numbers.
    """
    if inputs is None:
        return trace_layers_alone(model)
    trace = _trace(model, inputs, training)
    if trace.failure is not None:
        return trace
    made_under = (*conditions(model), *formulas_used(trace, COSTS.list_added()))
    return replace(trace, notes=(*trace.notes, *list_notes()), conditions=made_under)


def _trace(model: Any, inputs: ModelInputs, training: bool) -> ModelTrace:
    """Trace the model as a graph; if that fails, or if sizes in the graph depend on values, by an eager run."""
    followed: list[LayerCalls] = []
    # A run of the garbage collector costs more than the walk, and would free little: graphs hold no data.
    with collector_paused(), preserve(model):
        graph = _trace_graph(model, inputs, training, followed)
    # From here on the model is as it was before: an eager run begins with its own state.
    if isinstance(graph, ModelTrace):
        is_final = training or graph.failure is not None
        return graph if is_final else complete_eagerly(model, inputs, graph)
    return trace_layers_alone(model, graph, followed) if training else trace_eagerly(model, inputs, graph, followed)


def _trace_graph(
    model: Any, inputs: ModelInputs, training: bool, followed: list[LayerCalls]
) -> ModelTrace | ProfilerKitError:
    """Return the trace of a model as a graph; of one that cannot be traced as a graph, the error that says why.

    If this release of TensorFlow, or a formula of the user's, is the obstacle, the trace has the layers alone.
    """
    try:
        program = trace_program(model, inputs, training=training, followed=followed)
    except NotOfferedError as error:
        return trace_layers_alone(model, error)
    except Exception as error:  # any error of the model in the trace
        if only_in_graphs(error) and not can_convert():
            hidden = "this release of TensorFlow does not show how it converts code with conditions on tensors"
            return trace_layers_alone(model, NotOfferedError(f"{hidden} ({error})"), followed)
        return explain_failed_pass(model, error, inputs)
    try:
        return trace_of_program(program)
    except (CostFormulaError, NotOfferedError) as error:
        return trace_layers_alone(model, error)
