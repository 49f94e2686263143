"""A call of torch by which a model asks something of its tensors, and the error if nobody can answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import torch

from ..compat.fake_tensors import FakeTensor

__all__ = ["Call", "Handler", "UnansweredError", "stands_in"]


class Call(NamedTuple):
    """A call of a function of torch's, which is mostly a method of tensors, or the getter of an attribute of theirs."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def tensor(self) -> Any:
        """The tensor whose method is called: the first argument."""
        return self.args[0]

    @property
    def name(self) -> str:
        """The name of the function for messages: ``Tensor.device`` of the getter ``Tensor.device.__get__``."""
        function = self.func
        name = function.__self__.__name__ if function.__name__ == "__get__" else function.__name__
        return f"Tensor.{name}" if hasattr(torch.Tensor, name) else f"torch.{name.lstrip('_')}"

    def run(self) -> Any:
        """Call the function of torch's, and return what it returns."""
        return self.func(*self.args, **self.kwargs)


#: Returns to the model what a call returns.
Handler: TypeAlias = Callable[[Call], Any]


class UnansweredError(RuntimeError):
    """Raised for a pass in which a model asked what its stand-ins do not know, and went on without the answer."""

    def __init__(self, questions: Iterable[str]) -> None:
        asked = ", ".join(dict.fromkeys(questions))
        super().__init__(
            f"the model asks its tensors for what only a run can tell ({asked}), and goes on by the answer, or by the "
            "error; give it weights with values, or take the question out of its forward pass"
        )


def stands_in(tensor: Any) -> bool:
    """Return whether a tensor has no values of its own."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)
