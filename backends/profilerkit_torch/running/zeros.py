"""Weights that are zero: how many there are, and a trace without the multiply-accumulates that they take part in.

An operator's work is left out in proportion to the zeros among its weights, whose values are looked at while the
model runs for real: masks, parametrisations and casts have been applied by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from profilerkit import CostFormulaError, ModelInputs, ModelTrace, WithoutValuesError
from profilerkit.backend_kit.failures import explain_failure

from ..compat.modules import read_buffers, read_parameters
from ..model.inventory import Inventory, is_lazy
from ..model.keras_preparation import adapt_to_keras
from ..model.modules import list_modules, list_tensors
from ..model.wrapped import with_wrapper
from ..trace.grad_modes import GRAD_MODES
from ..trace.inference_pass import needs_autograd
from ..trace.records import layer_records
from ..trace.stand_ins import REAL_RUN
from ..trace.static_pass import trace_pass
from ..trace.traceable import traceable
from ..untouched.caller_context import apart
from ..untouched.mutable_inputs import on_device
from .nonzero_work import Nonzero, NonzeroMode, WatchedPass, count_nonzero

__all__ = ["trace_of_nonzero", "zero_weights"]


def zero_weights(model: nn.Module) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are; tied ones once.

    Of a parameter that `torch.nn.utils.prune` masks it is what the mask leaves.
    """
    with apart():
        _require_values(model)
        counts = list(_count_parameters(model))
    total = sum(count.total for count in counts)
    return total - sum(count.nonzero for count in counts), total


def _count_parameters(model: nn.Module) -> Iterable[Nonzero]:
    """Count the elements of each floating-point parameter, tied ones once."""
    counts: dict[int, Nonzero] = {}
    for module in list_modules(model):
        for name, parameter in read_parameters(module).items():
            if parameter is not None and (parameter.is_floating_point() or parameter.is_complex()):
                weight = _apply_mask(module, name, parameter.detach())
                counts[id(parameter)] = Nonzero(count_nonzero(weight).nonzero, weight.numel())
    return counts.values()


def _apply_mask(module: nn.Module, name: str, weight: torch.Tensor) -> torch.Tensor:
    """Return what a mask of `torch.nn.utils.prune` leaves of a weight: that of ``weight_orig`` is ``weight_mask``."""
    if not name.endswith("_orig"):
        return weight
    mask = read_buffers(module).get(f"{name.removesuffix('_orig')}_mask")
    return weight if mask is None else weight * mask


def trace_of_nonzero(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of a real run whose operators do no work with weights that are zero."""
    _require_values(model)
    modules = list_modules(model)
    with traceable(model, modules) as inside:
        return _trace(inside, with_wrapper(inputs, model))


def _trace(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of the first kind of pass that works; the layers and an error if none does."""
    inventory = Inventory(model)
    placed = on_device(adapt_to_keras(model, inputs), inventory.device)
    failure: Exception | None = None
    for grad_mode in GRAD_MODES:
        mode = NonzeroMode(model, placed)
        try:
            trace = trace_pass(inventory, placed, replace(REAL_RUN, mode=mode), WatchedPass(grad_mode, mode))
        except CostFormulaError as error:
            return ModelTrace(layer_records(model, {}), failure=error)
        except Exception as error:  # whatever a model raises
            failure = explain_failure(error, inputs, "torch", __package__)
            if not needs_autograd(error):
                break
        else:
            return replace(trace, operators=tuple(mode.list_nonzero_work(trace.operators)))
    return ModelTrace(layer_records(model, {}), failure=failure)


def _require_values(model: nn.Module) -> None:
    if is_lazy(model) or any(tensor.is_meta for tensor in list_tensors(model)):
        raise WithoutValuesError(
            "the model's weights have no values yet (they are on the meta device, or lazy): which of them are zero is "
            "not known; load or make them first"
        )
