"""The comparison of a graph with an eager run, for models that ask which of the two they are run as.

A graph is what ``predict``, ``fit`` and a ``tf.function`` run, and what is traced and timed here. A call of a Keras
model, of a module and of a plain function runs eagerly. Counts are complete where both do the same work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.trace.cross_check import add_contradiction
from profilerkit.trace.records import ModelTrace

from ..compat.saved_models import is_saved_model
from ..model.calls import compute_outputs
from ..model.kinds import is_unbuilt, list_layers
from ..untouched.preservation import preserve
from .layers import LayerCalls
from .observation import Observation

__all__ = ["compare_with_eager_run"]


def compare_with_eager_run(model: Any, inputs: ModelInputs, trace: ModelTrace, asked: Sequence[str]) -> ModelTrace:
    """Return the trace of a model's graph; contradicted where an eager run does other work, or cannot tell.

    ``asked`` are the questions of the model whose answers differ in the two. It is run once. A model that has no values
    to run with, and one that raises in an eager run, may do anything.
    """
    if _is_always_a_graph(model):
        return trace
    question = f"the model asks what a graph and an eager run answer differently ({asked[0]})"
    if is_unbuilt(model):
        return add_contradiction(trace, f"{question}, and has no values to be run eagerly with; its graph is counted")
    calls = LayerCalls(list_layers(model), training=False)
    observation = Observation(calls)
    with preserve(model, variable_values=True):
        try:
            with observation.watch(), calls.follow():
                compute_outputs(model, inputs)
        except MemoryError:
            raise
        except Exception as error:  # whatever the model raises in a run of this kind
            return add_contradiction(trace, f"{question}, and raises {type(error).__name__} in an eager run")
        work = observation.compute_work()
    if work is None:
        return add_contradiction(trace, f"{question}, and not all work of an eager run is known; its graph is counted")
    if work == (trace.macs, trace.flops):
        return trace
    return add_contradiction(
        trace,
        f"{question}: run eagerly it has {work.macs:,} MACs and {work.flops:,} FLOPs, as a graph, which is counted, "
        f"{trace.macs:,} and {trace.flops:,}",
    )


def _is_always_a_graph(model: Any) -> bool:
    """Return whether a call of the model runs a graph, so that nothing in it runs eagerly."""
    is_function = hasattr(model, "get_concrete_function") or hasattr(model, "captured_inputs")
    return is_saved_model(model) or (is_function and not tf.config.functions_run_eagerly())
