"""The models under attack, by name: each is built anew, the same each time, for every case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

__all__ = ["SUBJECTS", "Doing", "Subject", "behaviour", "build", "subject", "x"]


@dataclass
class Subject:
    """A model with what it is called with, and what undoes what building it did to the process."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None
    #: What the case fingerprints beside the model: objects that only the test knows.
    watched: tuple[Any, ...] = ()

    def __call__(self) -> Any:
        """Call the model as its owner does."""
        return self.model(*self.args, **self.kwargs)


#: What builds each of them.
SUBJECTS: dict[str, Callable[[], Subject]] = {}


def x(*shape: int, **options: Any) -> torch.Tensor:
    return torch.randn(*(shape or (2, 4)), **options)


def subject(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register a function that builds a model, or a `Subject`, under its own name; its input is 2 x 4 else."""
    name = function.__name__
    assert name not in SUBJECTS, f"there are two models called {name}"
    SUBJECTS[name] = lambda: _subject(function())
    return function


def _subject(built: Any) -> Subject:
    return built if isinstance(built, Subject) else Subject(built, (x(),))


def build(name: str) -> Subject:
    """Build a model, always the same."""
    torch.manual_seed(0)
    return SUBJECTS[name]()


class Doing(nn.Module):
    """A linear layer, around which a function does what it likes: with the module, the input and the output."""

    def __init__(self, do: Callable[..., Any], **attributes: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.do = do
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(x)
        changed = self.do(self, x, y)
        return y if changed is None else changed


def behaviour(**attributes: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a model that does what the decorated function does; its attributes are made by those given."""

    def register(do: Callable[..., Any]) -> Callable[..., Any]:
        def made() -> nn.Module:
            return Doing(do, **{name: make() for name, make in attributes.items()})

        made.__name__ = do.__name__
        subject(made)
        return do

    return register
