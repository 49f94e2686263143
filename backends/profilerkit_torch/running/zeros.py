"""Weights that are zero: how many there are, and the multiply-accumulates that they take part in.

An operator's work is left out in proportion to the zeros among its weights, whose values are looked at while the
model runs for real: masks, parametrisations and casts have been applied by then. A tensor is a weight
where it was computed of the model's own tensors alone, and an activation where an input had part in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from profilerkit import CostFormulaError, ModelInputs, ModelTrace, WithoutValuesError
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.costs import Cost
from profilerkit.trace.records import OpRecord

from ..compat import TorchDispatchMode, read_buffers, read_parameters, schema_of, storage_address
from ..model.inventory import is_lazy
from ..model.keras_layers import adapt_to_keras
from ..model.modules import find_device, list_modules, list_tensors
from ..model.wrapped import with_wrapper
from ..trace.grad_modes import GRAD_MODES
from ..trace.inference_pass import InferencePass, needs_autograd
from ..trace.recorder import Recorder
from ..trace.records import layer_records
from ..trace.replay import tensors_among, tensors_in
from ..trace.stand_ins import REAL_RUN
from ..trace.static_pass import trace_pass
from ..trace.traceable import traceable
from ..untouched.caller_context import apart
from ..untouched.mutable_inputs import InputObjects, on_device

__all__ = ["trace_of_nonzero", "zero_weights"]

#: Operators whose second argument is the weight. Others may multiply any two.
_WITH_WEIGHT = (
    "aten::linear",
    *(f"aten::{name}" for name in ("conv1d", "conv2d", "conv3d", "convolution", "_convolution")),
)
#: Operators between activations, learned ones too.
_ATTENTION = ("aten::scaled_dot_product_attention",)
#: Operators whose first argument is added to a product.
_WITH_ADDEND = ("aten::addmm", "aten::addmv", "aten::addr", "aten::addbmm", "aten::baddbmm", "aten::_sparse_addmm")


def zero_weights(model: nn.Module) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are; tied ones once.

    Of a parameter that `torch.nn.utils.prune` masks it is what the mask leaves.
    """
    with apart():
        return _zero_weights(model)


def _zero_weights(model: nn.Module) -> tuple[int, int]:
    _require_values(model)
    counts: dict[int, tuple[int, int]] = {}
    for module in list_modules(model):
        for name, parameter in read_parameters(module).items():
            if parameter is None or not (parameter.is_floating_point() or parameter.is_complex()):
                continue
            mask = read_buffers(module).get(f"{name.removesuffix('_orig')}_mask") if name.endswith("_orig") else None
            value = parameter.detach() if mask is None else parameter.detach() * mask
            counts[id(parameter)] = _nonzero(value)[0], value.numel()
    elements = sum(total for _, total in counts.values())
    return elements - sum(nonzero for nonzero, _ in counts.values()), elements


def trace_of_nonzero(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of a real run whose operators do no work with weights that are zero."""
    _require_values(model)
    modules = list_modules(model)
    with traceable(model, modules) as inside:
        return _trace(inside, with_wrapper(inputs, model))


def _trace(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    placed = on_device(adapt_to_keras(model, inputs), find_device(model))
    error: Exception | None = None
    for grad_mode in GRAD_MODES:
        watch = _Nonzero(model, placed)
        try:
            trace = trace_pass(model, placed, replace(REAL_RUN, mode=watch), _Watched(grad_mode, watch))
        except CostFormulaError as formula_error:
            return ModelTrace(layer_records(model, {}), failure=formula_error)
        except Exception as raised:  # whatever a model raises
            error = explain_failure(raised, inputs, "torch", __package__)
            if not needs_autograd(raised):
                break
        else:
            return replace(trace, operators=tuple(watch.with_nonzero_macs(trace.operators)))
    return ModelTrace(layer_records(model, {}), failure=error)


def _require_values(model: nn.Module) -> None:
    if is_lazy(model) or any(tensor.is_meta for tensor in list_tensors(model)):
        raise WithoutValuesError(
            "the model's weights have no values yet (they are on the meta device, or lazy): which of them are zero is "
            "not known; load or make them first"
        )


def _nonzero(weight: torch.Tensor) -> tuple[int, int]:
    """Return how many of a weight's elements are not zero, and how many there are; of a sparse one, of those stored."""
    if weight.layout is torch.sparse_coo:
        weight = weight.coalesce()
    values = weight if weight.layout is torch.strided else weight.values()
    return int(torch.count_nonzero(values)), values.numel()


class _Watched(InferencePass):
    """A forward pass that gives the watch its recorder."""

    def __init__(self, grad_mode: Any, watch: _Nonzero) -> None:
        super().__init__(grad_mode)
        self._watch = watch

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: Recorder) -> None:
        self._watch.recorder = recorder
        super().run(model, inputs, recorder)


class _Nonzero(TorchDispatchMode):
    """Runs what the recorder runs, and notes the nonzero elements among the weights of each operator."""

    def __init__(self, model: nn.Module, inputs: ModelInputs) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder: Recorder | None = None
        self._weights, self._activations = _Storages(list_tensors(model)), _Storages(())
        for leaf in (*inputs.leaves(), *InputObjects(inputs).tensors):
            if isinstance(leaf, torch.Tensor):
                self._activations.add(leaf)
        #: By the index of an operator: nonzero elements of its weights, and all of them.
        self._shares: dict[int, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.recorder is None:  # what is done before the pass
            return func(*args, **kwargs)
        arguments = list(tensors_among(args, kwargs))
        index = len(self.recorder.operators)
        factors = (tensor for tensor in _factors(func, args, arguments) if tensor.dim() > 1 and self._is_weight(tensor))
        counts = [_nonzero(tensor) for tensor in factors]
        result = func(*args, **kwargs)
        self._shares[index] = sum(nonzero for nonzero, _ in counts), sum(total for _, total in counts)
        made = list(tensors_in(result))
        if any(map(self._activations.holds, arguments)):
            for tensor in made:
                self._activations.add(tensor)
        elif any(map(self._weights.holds, arguments)):
            for tensor in made:
                self._weights.add(tensor)
        return result

    def _is_weight(self, tensor: torch.Tensor) -> bool:
        return self._weights.holds(tensor) and not self._activations.holds(tensor)

    def with_nonzero_macs(self, operators: tuple[OpRecord, ...]) -> Iterator[OpRecord]:
        """Yield the operators with the multiply-accumulates of their nonzero weights alone."""
        for index, operator in enumerate(operators):
            nonzero, total = self._shares.get(index, (0, 0))
            macs = operator.macs * nonzero // total if total else operator.macs
            yield replace(operator, macs=macs, flops=operator.flops - Cost.of_macs(operator.macs - macs).flops)


def _factors(func: Any, args: Any, arguments: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
    """Return what an operator multiplies and may be weights."""
    name = schema_of(func).name
    if name in _WITH_WEIGHT:
        return tensors_in(args[1:2])
    if name in _ATTENTION:
        return ()
    return tensors_in(args[1:]) if name in _WITH_ADDEND else arguments


class _Storages:
    """Storages that are alive, identified by any tensor that shares them."""

    def __init__(self, tensors: Any) -> None:
        self._references: dict[int, Any] = {}
        for tensor in tensors:
            self.add(tensor)

    def add(self, tensor: torch.Tensor) -> None:
        key, holder = _storage_and_holder(tensor)
        if not self._has(key):
            self._references[key] = weakref.ref(holder)

    def holds(self, tensor: torch.Tensor) -> bool:
        return self._has(_storage_and_holder(tensor)[0])

    def _has(self, key: int) -> bool:
        reference = self._references.get(key)
        return reference is not None and reference() is not None


def _storage_and_holder(tensor: torch.Tensor) -> tuple[int, Any]:
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return id(tensor), tensor
    return storage_address(storage), storage
