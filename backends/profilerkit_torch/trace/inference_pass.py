"""A pass that runs the forward pass of a model; `training` has the other kind, a training step.

A timed run computes no gradients: it is under ``torch.no_grad()``. The first kind of pass computes none either, and
also bypasses autograd: operators arrive before autograd decomposes them, as in ``torch.inference_mode()``. That mode
itself is not used: a model may ask whether it is on, and its tensors are of a special kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from typing import Any, ClassVar, TypeAlias

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.errors import ProfilerKitError

from ..compat.autograd import without_autograd_kernels
from ..model.modules import set_inference_flags
from ..untouched.caller_context import as_caller
from .fused_attention import FusedAttention
from .layers import LayerStack
from .pass_errors import PassError
from .recorder import Recorder

__all__ = ["GRAD_MODES", "InferencePass", "below_autograd", "needs_autograd"]

GradMode: TypeAlias = Callable[[], AbstractContextManager[Any]]


@contextmanager
def below_autograd() -> Iterator[None]:
    """Run without gradients, and without autograd's kernels: operators are seen before they are taken apart."""
    with torch.no_grad(), without_autograd_kernels():
        yield


#: A model that computes gradients itself may do so in the second, or where it relies on its caller in the third.
GRAD_MODES: tuple[GradMode, ...] = (below_autograd, torch.no_grad, torch.enable_grad)


class InferencePass:
    """One forward pass; ``grad_mode`` makes the context that sets how gradients are computed."""

    #: The class that follows the layers; `recorder` makes the object that records the operators.
    layer_stack: ClassVar[type[LayerStack]] = LayerStack
    recorder: ClassVar[type[Recorder]] = Recorder
    #: Whether a Keras model, which is told so with each call, is trained.
    is_training: ClassVar[bool] = False
    #: Whether the tensors must tell their device: torch takes some functions apart in a way of each device.
    needs_device = False
    #: Whether the model would run on the kernels of its device; else they are not known.
    knows_kernels: ClassVar[bool] = True
    #: The names of the trainable weights that get no gradient, where gradients are computed.
    without_gradient: frozenset[str] = frozenset()

    def __init__(self, grad_mode: GradMode) -> None:
        self.grad_mode = grad_mode

    def prepare(self, model: nn.Module, modules: Sequence[nn.Module]) -> None:
        """Make the model, whose modules these are, ready to run; its weights have been substituted by then."""
        set_inference_flags(modules)

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: Recorder) -> None:
        """Run the forward pass to be recorded; errors of the model pass through."""
        # Autograd's own kernels take attention over meta tensors to pieces, and one-hot numbers of all without values.
        is_taken_to_pieces = recorder.settings.stands_in and not recorder.settings.below_autograd
        whole = FusedAttention(recorder.settings.model_device) if is_taken_to_pieces else nullcontext()
        with whole, as_caller(), recorder.questions():
            output = copy_context().run(inputs.run, model)  # its changes of context variables end with the copy
        recorder.origins.check_results(output)

    def notes(self) -> Iterable[str]:
        """Return the notes that a trace of this kind gets."""
        if self.grad_mode is torch.enable_grad:
            yield "the model computes gradients and relies on its caller to enable them: they are enabled in this pass"

    def refuses(self, error: BaseException | None) -> bool:
        """Return whether a pass ended because this kind does not support the model, and the next kind may."""
        return isinstance(error, PassError) and self.grad_mode is below_autograd

    def needs_next(self, error: BaseException | None) -> bool:
        """Return whether the next kind is to be tried after an error."""
        return needs_autograd(error)

    def explain_failure(self, error: Exception, inputs: ModelInputs, has_values: bool) -> ProfilerKitError:
        """Return the error of a pass that raised: the model's, or this package's where its own code failed."""
        hint = "do these inputs fit it?"
        if not has_values:
            hint += " Its weights have no values, as before a first call or on the meta device; some models need them"
        return explain_failure(error, inputs, "torch", __package__, hint)


def needs_autograd(error: BaseException | None) -> bool:
    """Return whether a model seems to compute gradients while it runs, which not every kind of pass lets it.

    Torch has no class for such errors: it raises a `RuntimeError` such as "element 0 of tensors does not require grad".
    A model without gradients whose error has that word by chance is only run once more, by the next kind of pass.
    """
    return isinstance(error, PassError) or (isinstance(error, RuntimeError) and "grad" in str(error))
