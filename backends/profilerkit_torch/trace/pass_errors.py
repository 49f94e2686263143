"""Why a pass says nothing of a run: another kind of pass, or a real run, may follow."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from profilerkit.trace.records import ModelTrace

__all__ = ["LeftBehindError", "PassError", "Refusal", "UnansweredError"]


class Refusal(Enum):
    """Why a kind of pass does not support the model, and the next kind may; the value is the text of the error."""

    #: Autocast ignores meta tensors: the pass would differ from the user's run.
    AUTOCAST = "autocast leaves meta tensors as they are, and keeps its casts by autograd"
    #: Without autograd gradients would be missing, or zero.
    GRADIENTS = "the model computes gradients in its forward pass, and this pass is without autograd"
    #: The backward pass of a whole layer is one operator, which has no gradients of its own.
    SECOND_GRADIENTS = "the model differentiates gradients of a recurrent layer, and this pass runs it as one operator"
    #: Without autograd not all tensors know whether they are views.
    VIEW = "the model asks a tensor whether it is a view, and this pass is without autograd"


class PassError(RuntimeError):
    """Raised if a kind of pass does not support the model; ``reason`` says why."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


class UnansweredError(RuntimeError):
    """Raised for a pass in which a model asked stand-ins for unknown values, and continued without the answer."""

    def __init__(self, questions: Iterable[str]) -> None:
        asked = ", ".join(dict.fromkeys(questions))
        super().__init__(
            f"the model asks its tensors for what only a run can tell ({asked}), and goes on by the answer, or by the "
            "error; give it weights with values, or take the question out of its forward pass"
        )


class LeftBehindError(RuntimeError):
    """Raised where tensors without values, of a pass on shapes alone, are still kept somewhere after it.

    ``trace`` is the trace of that pass.
    """

    def __init__(self, message: str, trace: ModelTrace) -> None:
        super().__init__(message)
        self.trace = trace
