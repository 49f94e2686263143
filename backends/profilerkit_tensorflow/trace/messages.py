"""The error that is reported when a model raises."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.errors import ProfilerKitError

from ..model.input_checks import wrong_ranks

__all__ = ["explain_failed_pass", "only_in_graphs"]

#: Parts of TensorFlow's messages where Python code reads the value of a symbolic tensor: the model must run eagerly.
_SYMBOLIC_VALUE_MESSAGES = ("ymbolic", "in a graph", "as a Python bool")


def explain_failed_pass(model: Any, error: Exception, inputs: ModelInputs) -> ProfilerKitError:
    """Return the error that is reported for a pass that raised: the model's, or this package's where it is at fault.

    Where a model declares the rank of its inputs and got another one, the message names both.
    """
    hints = list(wrong_ranks(model, inputs))[:1]
    return explain_failure(error, inputs, "tensorflow", __package__, *hints)


def only_in_graphs(error: BaseException | None) -> bool:
    """Return whether an error only means that code cannot be traced, and not that the model is wrong."""
    return isinstance(error, NotImplementedError) or any(part in str(error) for part in _SYMBOLIC_VALUE_MESSAGES)
