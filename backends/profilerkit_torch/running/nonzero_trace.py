"""The trace of a real run without the multiply-accumulates that weights of zero take part in.

An operator's work is left out in proportion to the zeros among its weights, whose values are read while the model
runs: masks, parametrisations and casts have been applied by then. A tensor is a weight if it was computed only from
tensors of the model, and an activation if it was computed from an input.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from msgspec import structs
from torch import nn

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.call_stack import tensors_in as values_in
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.costs import Cost
from profilerkit.trace.records import OpRecord

from ..compat.modes import TorchDispatchMode
from ..compat.operators import read_schema
from ..model.inventory import Inventory
from ..model.keras_layers import adapt_to_keras
from ..model.packed_weights import is_package, unpack
from ..model.storages import storage_key
from ..model.tensors import is_wrapper_class, list_wrapped
from ..model.wrapped import give_wrapper
from ..trace.attempt import trace_pass
from ..trace.inference_pass import GRAD_MODES, InferencePass, needs_autograd
from ..trace.operator_facts import tensors_among, tensors_in
from ..trace.recorder import Recorder
from ..trace.records import layer_records
from ..trace.stand_ins import StandIns
from ..trace.static_pass import RecordedPass
from ..trace.tracing import traceable
from ..untouched.mutable_inputs import list_input_tensors, on_device
from .zeros import Nonzero, count_nonzero, require_values

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
            stand_ins = StandIns(mode)
            trace = trace_pass(RecordedPass(inventory, placed, stand_ins, WatchedPass(grad_mode, mode)))
        except Exception as error:  # whatever a model raises
            failure = explain_failure(error, inputs, "torch", __package__)
            if not needs_autograd(error):
                break
        else:
            return replace(trace, operators=tuple(mode.list_nonzero_work(trace.operators)))
    return ModelTrace(layer_records(inventory, {}), failure=failure)


#: Operators whose second argument is the weight. Others may multiply any two.
_WITH_WEIGHT = (
    *("aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d"),
    *("aten::convolution", "aten::_convolution"),
)
#: Attention multiplies activations, even if they are learned: zeros in them are no pruned weights.
_ATTENTION = "aten::scaled_dot_product_attention"
#: Operators that multiply vectors: of others, a vector is a bias.
_OF_VECTORS = ("aten::mv", "aten::dot", "aten::vdot")
#: Operators whose first argument is added to a product.
_WITH_ADDEND = ("aten::addmm", "aten::addmv", "aten::addr", "aten::addbmm", "aten::baddbmm", "aten::_sparse_addmm")


class WatchedPass(InferencePass):
    """A forward pass that gives the mode the recorder when it begins."""

    def __init__(self, grad_mode: Any, mode: NonzeroMode) -> None:
        super().__init__(grad_mode)
        self._mode = mode

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: Recorder) -> None:
        self._mode.recorder = recorder
        super().run(model, inputs, recorder)


class NonzeroMode(TorchDispatchMode):
    """Runs the operators for the recorder, and notes the nonzero elements among the weights of each operator."""

    def __init__(self, model: nn.Module, inputs: ModelInputs) -> None:
        super().__init__()
        self.recorder: Recorder | None = None
        self._weights, self._activations = _Storages(), _Storages()
        for tensor in Inventory(model).tensors:
            for part in (tensor, *list_wrapped(tensor)):
                self._weights.add(part)
        for tensor in list_input_tensors(inputs):
            self._activations.add(tensor)
        #: The elements of the weights of each operator, by its place in the list of the recorder.
        self._elements: dict[int, Nonzero] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(map(is_wrapper_class, types)):
            return NotImplemented
        if self.recorder is None:  # the pass has not begun
            return func(*args, **kwargs)
        arguments = list(tensors_among(args, kwargs))
        index = len(self.recorder.operators)
        counts = [count_nonzero(tensor) for tensor in self._find_weights(func, args, arguments)]
        result = func(*args, **kwargs)
        self._elements[index] = Nonzero(sum(count.nonzero for count in counts), sum(count.total for count in counts))
        self._note_origin(arguments, result)
        return result

    def _find_weights(self, func: Any, args: Any, arguments: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Return the weights among the factors of an operator; weights that torch packs are no tensors."""
        packages = values_in(args, is_package)
        packed = [part for package in packages for part in unpack(package) if part.dim() > 1]  # a vector is a bias
        plain = [
            tensor
            for tensor in _find_factors(func, args, arguments)
            if self._weights.has(tensor) and not self._activations.has(tensor)
        ]
        return [weight for weight in packed + plain if _has_own_zero(weight, func)]

    def _note_origin(self, arguments: Iterable[torch.Tensor], result: Any) -> None:
        """Note the results of an operator as activations, or as weights."""
        if any(map(self._activations.has, arguments)):
            storages = self._activations
        elif any(map(self._weights.has, arguments)):
            storages = self._weights
        else:
            return
        for tensor in tensors_in(result):
            storages.add(tensor)

    def list_nonzero_work(self, operators: Iterable[OpRecord]) -> Iterator[OpRecord]:
        """Yield the operators with the multiply-accumulates of their nonzero weights alone."""
        for index, operator in enumerate(operators):
            weights = self._elements.get(index)
            if weights is None or not weights.total:
                yield operator
            else:
                macs = operator.macs * weights.nonzero // weights.total
                yield structs.replace(
                    operator, macs=macs, flops=operator.flops - Cost.of_macs(operator.macs - macs).flops
                )


def _has_own_zero(weight: torch.Tensor, func: Any) -> bool:
    """Return whether a zero element means a weight of zero: in other integers weights are packed, or shifted."""
    if weight.is_floating_point() or weight.is_complex() or weight.is_quantized or weight.dtype is torch.int8:
        return True
    return weight.dtype is not torch.uint8 and func.namespace == "aten" and "int4" not in str(func)


def _find_factors(func: Any, args: Any, arguments: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
    """Return the tensors that an operator multiplies and that may be weights."""
    name = read_schema(func).name.removesuffix("_")  # of an operator in place
    if name in _WITH_WEIGHT:
        return tensors_in(args[1:2])
    if name in _WITH_ADDEND:
        return tensors_in(args[1:])
    if name == _ATTENTION:
        return ()
    return arguments if name in _OF_VECTORS else [tensor for tensor in arguments if tensor.dim() > 1]


class _Storages:
    """Storages that are alive, identified by any tensor that shares them; a sparse tensor has none and is its own."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def add(self, tensor: torch.Tensor) -> None:
        if not self.has(tensor):
            self._references[storage_key(tensor)] = weakref.ref(_find_storage(tensor))

    def has(self, tensor: torch.Tensor) -> bool:
        reference = self._references.get(storage_key(tensor))
        return reference is not None and reference() is not None


def _find_storage(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return tensor
