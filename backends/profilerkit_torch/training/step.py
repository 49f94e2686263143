"""One training step: the forward pass in training mode, then the gradients of the trainable weights, both watched.

Every operator of the backward pass belongs to the layer whose forward pass made its node of the autograd graph. What is
computed again there, by activation checkpointing, belongs to the layer that computes it.

Some functions run in a way of their own, so that a step costs what it does on any device. On meta tensors torch spells
attention out, and keeps every score for the backward pass; a fused kernel keeps none. Conditions and loops give no
gradients to weights that their functions find in the model: see `is_control_flow`. An LSTM on the CPU has a kernel of
oneDNN's, whose backward pass makes gradients that the step does not need.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from copy import copy
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import find_raising_line
from profilerkit.error_text import error_line
from profilerkit.errors import ModelFailedError, ProfilerKitError
from profilerkit.process.restoring import for_each, restored

from ..compat.autograd import run_backward
from ..compat.modules import GLOBAL_GRADIENT_HOOKS, GRADIENT_HOOKS, MODULE_GRADIENT_HOOKS
from ..model.inventory import Inventory
from ..model.modules import list_layers, list_named_parameters, list_parameters
from ..model.rank_shares import count_bucket_bytes
from ..model.tensors import is_wrapper_class
from ..running.training_steps import list_differentiated, set_training_flags, without_hooks_once_accumulated
from ..trace.fused_attention import FusedAttention
from ..trace.higher_order import is_control_flow, run_higher_order
from ..trace.inference_pass import InferencePass
from ..trace.layers import LayerStack
from ..trace.pass_errors import PassError, Refusal
from ..trace.recorder import Recorder
from ..trace.tracing import trace_model
from ..untouched.caller_context import apart, as_caller
from ..untouched.preservation import substitute
from ..untouched.snapshots import refill
from .differentiation import NO_BACKWARD_PASS, follow_gradients, make_loss, note_unused
from .recurrent_layers import RECURRENT_FUNCTIONS, run_recurrent, without_onednn
from .training_recorder import TrainedLayers, TrainingRecorder

__all__ = ["trace_training"]

_BUCKETS = (
    "memory is that of the model without its wrapper: DistributedDataParallel keeps the gradients a second time in "
    "{count:,} bytes of buckets; gradient_as_bucket_view=True saves them"
)


def trace_training(model: nn.Module, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of one training step; a model that raises leaves its layers, and the error as ``failure``.

    A model with a module in training mode keeps all its flags, so that what was frozen with ``eval()`` stays frozen;
    one that is in eval mode as a whole is traced with every module in training mode. What is differentiated is the
    sum of all outputs that need gradients, or the loss that the model returns as ``loss``.
    """
    with apart():
        step = TrainingPass(model)
        return trace_model(model, inputs, (step, step.with_layers_apart()))


class TrainingPass(InferencePass):
    """A forward pass in training mode, and the backward pass to the trainable weights.

    A recurrent layer runs as one operator each way; taken apart into what torch runs, its gradients have gradients too.
    """

    layer_stack: ClassVar[type[LayerStack]] = TrainedLayers
    recorder: ClassVar[type[Recorder]] = TrainingRecorder

    def __init__(self, model: nn.Module) -> None:
        super().__init__(torch.enable_grad)
        self._device = Inventory(model).device
        self._user_parameters = {id(parameter) for parameter in list_parameters(model)}
        self._went_forward = False
        self._bucket_bytes = count_bucket_bytes(model)
        self._notes: list[str] = []

    def with_layers_apart(self) -> TrainingPass:
        """Return a pass of the same model that takes its recurrent layers apart, as the kernels of its device do."""
        other = copy(self)
        other.needs_device = True
        return other

    def prepare(self, model: nn.Module, modules: Sequence[nn.Module]) -> None:
        """Put the model into training mode, and substitute every weight that is still the user's.

        So no gradient and no hook of the user's parameters is touched. Hooks for gradients of modules are taken off.
        """
        self._went_forward = False
        self._notes = []
        set_training_flags(modules)
        for module in modules:
            _remove_gradient_hooks(module)
        if any(id(parameter) in self._user_parameters for parameter in list_parameters(model)):
            self._substitute_own(model, modules)
        for parameter in list_parameters(model):
            parameter.grad = None

    def _substitute_own(self, model: nn.Module, modules: Sequence[nn.Module]) -> None:
        """Substitute the user's parameters by others that share their values, where that can be done."""
        if not any(isinstance(module, torch.jit.ScriptModule) for module in modules):
            substitute(model, lambda tensor: _make_alias(tensor) if id(tensor) in self._user_parameters else tensor)

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: Any) -> None:
        """Run the forward and the backward pass; errors of the model pass through."""
        recorder.note_owners(list_layers(model))
        inputs = inputs.map(lambda leaf: _make_alias(leaf) if _needs_gradient(leaf) else leaf)
        kept = [parameter for parameter in list_parameters(model) if id(parameter) in self._user_parameters]
        with (
            _without_global_backward_hooks(),
            _without_hooks(kept),
            torch.autograd.set_multithreading_enabled(False),
            StepFunctions(self._device, recorder, takes_layers_apart=self.needs_device),
        ):
            outputs = self._run_forward(model, inputs, recorder)
            differentiated = list_differentiated(outputs)
            if differentiated:
                self._run_backward(model, differentiated, recorder)
            else:
                self._notes.append(NO_BACKWARD_PASS)

    def _run_forward(self, model: nn.Module, inputs: ModelInputs, recorder: TrainingRecorder) -> Any:
        recorder.live.part = "activations"
        with as_caller(), recorder.questions():
            outputs = copy_context().run(inputs.run, model)
        self._went_forward = True
        recorder.origins.check_results(outputs)
        return outputs

    def _run_backward(self, model: nn.Module, outputs: list[torch.Tensor], recorder: TrainingRecorder) -> None:
        trained = [(name, p) for name, p in list_named_parameters(model) if p.requires_grad]
        with follow_gradients((parameter for _, parameter in trained), recorder.note_gradient):
            loss, start = make_loss(outputs, recorder.live)
            with as_caller(), recorder.questions(), recorder.record_backward():
                # A mode sees nothing in a function that it handles, such as ``backward``: no index of a checkpoint.
                if recorder.stands_in:
                    recorder.origins.untracked.is_indexing = True
                    loss.backward(start)
                else:
                    run_backward(loss, start)
        recorder.origins.check_results([parameter.grad for _, parameter in trained])
        self._notes += note_unused(trained)

    def notes(self) -> Iterable[str]:
        """Yield which trainable weights get no gradient, and what the wrapper of the model adds to its memory."""
        yield from self._notes
        if self._bucket_bytes:
            yield _BUCKETS.format(count=self._bucket_bytes)

    def refuses(self, error: BaseException | None) -> bool:
        """Return whether a pass ended because gradients of a recurrent layer are differentiated."""
        if not isinstance(error, PassError) or self.needs_device:
            return False
        return error.reason is Refusal.SECOND_GRADIENTS

    def needs_next(self, error: BaseException | None) -> bool:
        """Return whether the model needs its recurrent layers taken apart."""
        return self.refuses(error)

    def explain_failure(self, error: Exception, inputs: ModelInputs) -> ProfilerKitError:
        """Return the error of a model that raised, in its forward pass or only in the backward pass."""
        if not self._went_forward or find_raising_line(error, __package__):
            return super().explain_failure(error, inputs)
        failure = ModelFailedError(
            f"the model runs, but its backward pass raised {type(error).__name__}: {error_line(error)}; it was called "
            f"with {inputs!r}, can it be trained on these?"
        )
        failure.__cause__ = error
        return failure


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _make_alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the same values, but with hooks and a gradient of its own."""
    if is_unsized(tensor):
        return tensor
    if not isinstance(tensor, nn.Parameter):
        return tensor.detach().requires_grad_(tensor.requires_grad)
    alias = nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    if tensor.__dict__ and not is_wrapper_class(type(tensor)):  # what libraries note there, as scales
        alias.__dict__.update(tensor.__dict__)
    return alias


def _remove_gradient_hooks(module: nn.Module) -> None:
    for name in MODULE_GRADIENT_HOOKS:
        if module.__dict__.get(name):
            module.__dict__[name] = OrderedDict()


@contextmanager
def _without_hooks(parameters: list[Any]) -> Iterator[None]:
    """Take the hooks for gradients off parameters that nothing could stand in for: those of scripted modules."""
    hooks = [(parameter, name, getattr(parameter, name)) for name in GRADIENT_HOOKS for parameter in parameters]
    with restored(partial(for_each, setattr, hooks)), without_hooks_once_accumulated(parameters):
        for parameter, name, _ in hooks:
            setattr(parameter, name, None)
        yield


@contextmanager
def _without_global_backward_hooks() -> Iterator[None]:
    """Take off the hooks for gradients that are registered for all modules."""
    contents = [(mapping, dict(mapping)) for mapping in GLOBAL_GRADIENT_HOOKS]
    with restored(partial(for_each, refill, contents)):
        for mapping in GLOBAL_GRADIENT_HOOKS:
            mapping.clear()
        yield


# Functions that a step runs in a way of its own -----------------------------------------------------------------------


_onednn: Any = torch.backends.mkldnn


class StepFunctions(FusedAttention):
    """While it is active, attention over meta tensors runs by the kernel of the device, as in `FusedAttention`.

    An LSTM runs without oneDNN, also in a step on real tensors; conditions and loops are taken apart into what they do.
    """

    def __init__(self, device: torch.device, recorder: TrainingRecorder, *, takes_layers_apart: bool = False) -> None:
        super().__init__(device)
        self._recorder = recorder
        self._takes_layers_apart = takes_layers_apart

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function in the way of a step, if it has one; otherwise as `FusedAttention` does."""
        kwargs = kwargs or {}
        if func is torch.lstm:
            if self._device.type == "cpu" and _has_onednn_kernel(*args[:2]):
                self._recorder.unsized["the workspace of lstm"] += 1
            with without_onednn():
                return self._run_recurrent(func, args, kwargs)
        if func in RECURRENT_FUNCTIONS:
            return self._run_recurrent(func, args, kwargs)
        if is_control_flow(func):
            with self:  # torch takes a mode off while it handles a function: attention in a branch is handled too
                return run_higher_order(self._recorder, func, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs)

    def _run_recurrent(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run recurrent layers, each as one operator where that is known."""
        is_whole = not (kwargs or self._takes_layers_apart)
        result = run_recurrent(self._recorder, RECURRENT_FUNCTIONS[func], *args) if is_whole else None
        return func(*args, **kwargs) if result is None else result

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Run attention; a mask of booleans chooses scores, and costs nothing, although torch adds it as numbers."""
        is_boolean = attn_mask is not None and attn_mask.dtype is torch.bool
        scores = query.shape[:-1].numel() * key.shape[-2]
        with self._recorder.leave_out_mask(scores) if is_boolean else nullcontext():
            return super()._attend(query, key, value, attn_mask, *args, **kwargs)


def _has_onednn_kernel(x: torch.Tensor, states: Any) -> bool:
    """Return whether a step on the CPU runs an LSTM by oneDNN, which keeps more for the backward pass, and copies.

    Packed samples come with their sizes in the place of the states, and projected states are not as wide as the cells.
    """
    if not (_onednn.enabled and _onednn.is_available()) or isinstance(states, torch.Tensor):
        return False
    hidden, cells = states
    return x.dtype in (torch.float32, torch.bfloat16) and hidden.shape == cells.shape
