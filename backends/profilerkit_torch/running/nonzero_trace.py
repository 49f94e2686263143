"""A trace without the multiply-accumulates that weights of zero take part in.

An operator's work is left out in proportion to the zeros among its weights, whose values are looked at while the
model runs for real: masks, parametrisations and casts have been applied by then.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure

from ..model.inventory import Inventory
from ..model.keras_preparation import adapt_to_keras
from ..model.wrapped import give_wrapper
from ..trace.inference_pass import GRAD_MODES, needs_autograd
from ..trace.records import layer_records
from ..trace.stand_ins import REAL_RUN
from ..trace.static_pass import RecordedPass, trace_pass
from ..trace.tracing import traceable
from ..untouched.mutable_inputs import on_device
from .nonzero_work import NonzeroMode, WatchedPass
from .zeros import require_values

__all__ = ["trace_nonzero"]


def trace_nonzero(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of a real run whose operators do no work with weights that are zero."""
    require_values(model)
    called = give_wrapper(inputs, model)  # while the wrappers are there
    with traceable(Inventory(model)) as inside:
        return _trace(inside, called)


def _trace(inventory: Inventory, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of the first kind of pass that works; the layers and an error if none does."""
    model = inventory.model
    placed = on_device(adapt_to_keras(model, inputs), inventory.device)
    failure: Exception | None = None
    for grad_mode in GRAD_MODES:
        mode = NonzeroMode(model, placed)
        try:
            stand_ins = replace(REAL_RUN, mode=mode)
            trace = trace_pass(RecordedPass(inventory, placed, stand_ins, WatchedPass(grad_mode, mode)))
        except Exception as error:  # whatever a model raises
            failure = explain_failure(error, inputs, "torch", __package__)
            if not needs_autograd(error):
                break
        else:
            return replace(trace, operators=tuple(mode.list_nonzero_work(trace.operators)))
    return ModelTrace(layer_records(inventory, {}), failure=failure)
