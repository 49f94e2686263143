"""A model made ready for a static pass: outside of the caller's modes, without wrappers, operator by operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from ..model.wrapped import unwrap
from ..model.wrapper_kinds import has_wrappers
from ..untouched.caller_context import apart
from ..untouched.preservation import preserve
from ..untouched.temporary_settings import run_operator_by_operator

__all__ = ["traceable"]


@contextmanager
def traceable(model: nn.Module, modules: Sequence[nn.Module]) -> Iterator[nn.Module]:
    """Yield the model, whose modules these are, without its wrappers; at the end it is as it was."""
    with apart(), run_operator_by_operator(modules):
        if not has_wrappers(modules):
            yield model
            return
        with preserve(model):
            yield unwrap(model, modules)
