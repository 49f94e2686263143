"""The trace of a real run without the multiply-accumulates that weights of zero take part in.

An operator's work is left out in proportion to the zeros among its weights, whose values are read while the model
runs: masks, parametrisations and casts have been applied by then. A tensor is a weight if it was computed only from
tensors of the model, and an activation if it was computed from an input.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from msgspec import structs
from torch import nn

from profilerkit import ModelInputs, ModelTrace
from profilerkit.arguments.structures import tensors_in as values_in
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.costs import Cost

from ..compat.operators import read_schema
from ..costs.attention import ATTENTION
from ..model.inventory import Inventory
from ..model.keras_layers import adapt_to_keras
from ..model.packed_weights import is_package, unpack
from ..model.storages import storage_key
from ..model.tensors import list_wrapped
from ..model.wrapped import give_wrapper
from ..trace.attempt import trace_pass
from ..trace.inference_pass import GRAD_MODES, InferencePass, needs_autograd
from ..trace.operator_facts import OperatorCall, tensors_among, tensors_in
from ..trace.plans import Plan
from ..trace.recorder import PassSettings, Recorder
from ..trace.records import layer_records
from ..trace.stand_ins import StandIns
from ..trace.static_pass import RecordedPass
from ..trace.tracing import traceable
from ..untouched.mutable_inputs import list_input_tensors, on_device
from .zeros import count_nonzero, require_values

__all__ = ["trace_nonzero"]


def trace_nonzero(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of a real run whose operators do no work with weights that are zero."""
    require_values(model)
    called = give_wrapper(inputs, model)  # while the wrappers are there
    with traceable(Inventory(model)) as inside:
        return _trace(inside, called)


def _trace(inventory: Inventory, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of the first kind of pass that works; the layers and an error if none does."""
    placed = on_device(adapt_to_keras(inventory.model, inputs), inventory.device)
    failure: Exception | None = None
    for grad_mode in GRAD_MODES:
        try:
            return trace_pass(RecordedPass(inventory, placed, StandIns(), NonzeroPass(grad_mode)))
        except Exception as error:  # whatever a model raises
            failure = explain_failure(error, inputs, "torch", __package__)
            if not needs_autograd(error):
                break
    return ModelTrace(layer_records(inventory, {}), failure=failure)


#: Operators whose second argument is the weight. Others may multiply any two.
_WITH_WEIGHT = (
    *("aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d"),
    *("aten::convolution", "aten::_convolution"),
)
#: Operators that multiply vectors: of others, a vector is a bias.
_OF_VECTORS = ("aten::mv", "aten::dot", "aten::vdot")
#: Operators whose first argument is added to a product.
_WITH_ADDEND = ("aten::addmm", "aten::addmv", "aten::addr", "aten::addbmm", "aten::baddbmm", "aten::_sparse_addmm")


class NonzeroRecorder(Recorder):
    """Records a real run, in which operators do no work with weights that are zero."""

    def __init__(self, layers: Any, settings: PassSettings) -> None:
        super().__init__(layers, settings)
        self._weights, self._activations = _Storages(), _Storages()

    def note_origins(self, model: nn.Module, inputs: ModelInputs) -> None:
        """Note the tensors of the model as weights, and the inputs as activations."""
        for tensor in Inventory(model).tensors:
            for part in (tensor, *list_wrapped(tensor)):
                self._weights.add(part)
        for tensor in list_input_tensors(inputs):
            self._activations.add(tensor)

    def _dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        arguments = list(tensors_among(args, kwargs or {}))
        result = super()._dispatch(func, args, kwargs)
        if any(map(self._activations.has, arguments)):
            self._activations.add_all(result)
        elif any(map(self._weights.has, arguments)):
            self._weights.add_all(result)
        return result

    def _record_run(self, plan: Plan, result: Any, call: OperatorCall, reads: tuple[int, ...]) -> None:
        """Record an operator with the multiply-accumulates of its nonzero weights alone."""
        counts = [count_nonzero(weight) for weight in self._find_weights(call)] if plan.operator.macs else []
        total = sum(count.total for count in counts)
        if total:
            operator = plan.operator
            macs = operator.macs * sum(count.nonzero for count in counts) // total
            flops = operator.flops - Cost.of_macs(operator.macs - macs).flops
            plan = structs.replace(plan, operator=structs.replace(operator, macs=macs, flops=flops))
        super()._record_run(plan, result, call, reads)

    def _find_weights(self, call: OperatorCall) -> list[torch.Tensor]:
        """Return the weights among the factors of an operator; weights that torch packs are no tensors."""
        packages = values_in(call.args, is_package)
        packed = [part for package in packages for part in unpack(package) if part.dim() > 1]  # a vector is a bias
        plain = [
            tensor for tensor in _find_factors(call) if self._weights.has(tensor) and not self._activations.has(tensor)
        ]
        return [weight for weight in packed + plain if _has_own_zero(weight, call.func)]


class NonzeroPass(InferencePass):
    """A forward pass without the work of weights that are zero."""

    recorder: ClassVar[type[Recorder]] = NonzeroRecorder

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: Any) -> None:
        """Run the forward pass; errors of the model pass through."""
        recorder.note_origins(model, inputs)
        super().run(model, inputs, recorder)


def _has_own_zero(weight: torch.Tensor, func: Any) -> bool:
    """Return whether a zero element means a weight of zero: in other integers weights are packed, or shifted."""
    if weight.is_floating_point() or weight.is_complex() or weight.is_quantized or weight.dtype is torch.int8:
        return True
    return weight.dtype is not torch.uint8 and func.namespace == "aten" and "int4" not in str(func)


def _find_factors(call: OperatorCall) -> Iterable[torch.Tensor]:
    """Return the tensors that an operator multiplies and that may be weights."""
    name = read_schema(call.func).name.removesuffix("_")  # of an operator in place
    if name in _WITH_WEIGHT:
        return tensors_in(call.args[1:2])
    if name in _WITH_ADDEND:
        return tensors_in(call.args[1:])
    if name in ATTENTION:  # of activations, even if they are learned: zeros in them are no pruned weights
        return ()
    return call.tensors if name in _OF_VECTORS else [tensor for tensor in call.tensors if tensor.dim() > 1]


class _Storages:
    """Storages that are alive, identified by any tensor that shares them; a sparse tensor has none and is its own."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def add_all(self, result: Any) -> None:
        """Add the storages of all tensors in a result."""
        for tensor in tensors_in(result):
            self.add(tensor)

    def add(self, tensor: torch.Tensor) -> None:
        """Add the storage of a tensor."""
        if not self.has(tensor):
            self._references[storage_key(tensor)] = weakref.ref(_find_storage(tensor))

    def has(self, tensor: torch.Tensor) -> bool:
        """Return whether the storage of a tensor was added, and is alive."""
        reference = self._references.get(storage_key(tensor))
        return reference is not None and reference() is not None


def _find_storage(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return tensor
