"""One training step: the forward pass in training mode, then the gradients of the trainable weights, both watched.

Every operator of the backward pass belongs to the layer whose forward pass made its node of the autograd graph. Work
that activation checkpointing repeats there belongs to the layer that computes it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import find_raising_line
from profilerkit.backend_kit.graph_traces import NO_BACKWARD_PASS
from profilerkit.error_text import error_line
from profilerkit.errors import ModelFailedError, ProfilerKitError
from profilerkit.process.containers import refill
from profilerkit.process.restoring import for_each, restored

from ..compat.autograd import run_backward
from ..compat.modules import GLOBAL_GRADIENT_HOOKS, GRADIENT_HOOKS, MODULE_GRADIENT_HOOKS
from ..model.inventory import Inventory
from ..model.modules import list_layers, list_named_parameters, list_parameters
from ..model.rank_shares import count_bucket_bytes
from ..model.tensors import is_wrapper_class
from ..running.training_steps import list_differentiated, set_training_flags, without_hooks_once_accumulated
from ..trace.inference_pass import InferencePass
from ..trace.layers import LayerStack
from ..trace.pass_errors import PassError, Refusal
from ..trace.recorder import Recorder
from ..trace.tracing import trace_model
from ..untouched.caller_context import apart, as_caller
from ..untouched.preservation import substitute
from .differentiation import follow_gradients, make_loss, note_unused
from .step_functions import StepFunctions
from .trained_layers import TrainedLayers
from .training_recorder import TrainingRecorder

__all__ = ["trace_training"]

_BUCKETS = (
    "memory is that of the model without its wrapper: DistributedDataParallel keeps the gradients a second time in "
    "{count:,} bytes of buckets; gradient_as_bucket_view=True saves them"
)


def trace_training(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of one training step; a model that raises leaves its layers, and the error as ``failure``.

    A model with a module in training mode keeps all its flags, so that modules frozen with ``eval()`` stay frozen; a
    model in eval mode as a whole is traced with every module in training mode. The backward pass differentiates the
    sum of all outputs that need gradients, or the loss that the model returns as ``loss``.
    """
    with apart():
        return trace_model(model, inputs, (TrainingPass(model), TrainingPass(model, takes_layers_apart=True)))


class TrainingPass(InferencePass):
    """A forward pass in training mode, and the backward pass to the trainable weights.

    A recurrent layer runs as one operator each way; taken apart into torch's operators, its gradients have gradients.
    """

    layer_stack: ClassVar[type[LayerStack]] = TrainedLayers
    recorder: ClassVar[type[Recorder]] = TrainingRecorder
    is_training: ClassVar[bool] = True

    def __init__(self, model: nn.Module, *, takes_layers_apart: bool = False) -> None:
        super().__init__(torch.enable_grad)
        self.needs_device = self._takes_layers_apart = takes_layers_apart  # each device has its own way
        self._device = Inventory(model).device
        self._user_parameters = {id(parameter) for parameter in list_parameters(model)}
        self._went_forward = False
        self._bucket_bytes = count_bucket_bytes(model)
        self._notes: list[str] = []

    def prepare(self, model: nn.Module, modules: Sequence[nn.Module]) -> None:
        """Put the model into training mode, and substitute every parameter that is still the user's.

        Others share their values, so that the gradients and hooks of the user's parameters stay; a scripted module
        takes none. Hooks for gradients of modules are taken off.
        """
        self._went_forward = False
        self._notes = []
        self.without_gradient = frozenset()
        set_training_flags(modules)
        for module in modules:
            module.__dict__.update({name: OrderedDict() for name in MODULE_GRADIENT_HOOKS if module.__dict__.get(name)})
        has_own = any(id(parameter) in self._user_parameters for parameter in list_parameters(model))
        if has_own and not any(isinstance(module, torch.jit.ScriptModule) for module in modules):
            substitute(model, lambda tensor: _make_alias(tensor) if id(tensor) in self._user_parameters else tensor)
        for parameter in list_parameters(model):
            parameter.grad = None

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: Any) -> None:
        """Run the forward and the backward pass; errors of the model pass through."""
        recorder.layers.note_owners(list_layers(model))
        inputs = inputs.map(lambda leaf: _make_alias(leaf) if torch.is_tensor(leaf) and leaf.requires_grad else leaf)
        kept = [parameter for parameter in list_parameters(model) if id(parameter) in self._user_parameters]
        with (
            _without_hooks(kept),
            torch.autograd.set_multithreading_enabled(False),
            StepFunctions(self._device, recorder, takes_layers_apart=self._takes_layers_apart),
        ):
            outputs = self._run_forward(model, inputs, recorder)
            differentiated = list_differentiated(outputs)
            if differentiated:
                self._run_backward(model, differentiated, recorder)
            else:
                self._notes.append(NO_BACKWARD_PASS)
                self.without_gradient = frozenset(name for name, _ in _list_trained(model))

    def _run_forward(self, model: nn.Module, inputs: ModelInputs, recorder: TrainingRecorder) -> Any:
        recorder.begin_forward()
        with as_caller(), recorder.questions():
            outputs = copy_context().run(inputs.run, model)
        recorder.origins.check_results(outputs)
        self._went_forward = True
        return outputs

    def _run_backward(self, model: nn.Module, outputs: list[torch.Tensor], recorder: TrainingRecorder) -> None:
        trained = _list_trained(model)
        with follow_gradients((parameter for _, parameter in trained), recorder.note_gradient):
            loss, start = make_loss(outputs, recorder.live)
            with as_caller(), recorder.questions(), recorder.record_backward():
                # A mode sees nothing in a function that it handles, such as ``backward``: no index of a checkpoint.
                if recorder.settings.stands_in:
                    with recorder.origins.accept_indices():
                        loss.backward(start)
                else:
                    run_backward(loss, start)
        recorder.origins.check_results([parameter.grad for _, parameter in trained])
        unused = [name for name, parameter in trained if parameter.grad is None]
        self._notes += note_unused(unused)
        self.without_gradient = frozenset(unused)

    def notes(self) -> Iterable[str]:
        """Yield notes: the trainable weights without a gradient, and the memory that the model's wrapper adds."""
        yield from self._notes
        if self._bucket_bytes:
            yield _BUCKETS.format(count=self._bucket_bytes)

    def refuses(self, error: BaseException | None) -> bool:
        """Return whether a pass ended because gradients of a recurrent layer are differentiated."""
        is_second = isinstance(error, PassError) and error.reason is Refusal.SECOND_GRADIENTS
        return is_second and not self._takes_layers_apart

    def needs_next(self, error: BaseException | None) -> bool:
        """Return whether the model needs its recurrent layers taken apart."""
        return self.refuses(error)

    def explain_failure(self, error: Exception, inputs: ModelInputs, has_values: bool) -> ProfilerKitError:
        """Return the error of a model that raised, in its forward pass or only in the backward pass."""
        if not self._went_forward or find_raising_line(error, __package__):
            return super().explain_failure(error, inputs, has_values)
        failure = ModelFailedError(
            f"the model runs, but its backward pass raised {type(error).__name__}: {error_line(error)}; it was called "
            f"with {inputs!r}, can it be trained on these?"
        )
        failure.__cause__ = error
        return failure


def _list_trained(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, parameter) for name, parameter in list_named_parameters(model) if parameter.requires_grad]


def _make_alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the same values, but with hooks and a gradient of its own."""
    if is_unsized(tensor):
        return tensor
    if not isinstance(tensor, nn.Parameter):
        return tensor.detach().requires_grad_(tensor.requires_grad)
    alias = nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    if tensor.__dict__ and not is_wrapper_class(type(tensor)):  # attributes that libraries set, such as scales
        alias.__dict__.update(tensor.__dict__)
    return alias


@contextmanager
def _without_hooks(parameters: list[Any]) -> Iterator[None]:
    """Take the hooks for gradients off all modules, and off parameters that could not be substituted."""
    hooks = [(parameter, name, getattr(parameter, name)) for name in GRADIENT_HOOKS for parameter in parameters]
    of_all_modules = [(mapping, dict(mapping)) for mapping in GLOBAL_GRADIENT_HOOKS]
    with (
        restored(partial(for_each, setattr, hooks)),
        restored(partial(for_each, refill, of_all_modules)),
        without_hooks_once_accumulated(parameters),
    ):
        for parameter, name, _ in hooks:
            setattr(parameter, name, None)
        for mapping, _ in of_all_modules:
            mapping.clear()
        yield
