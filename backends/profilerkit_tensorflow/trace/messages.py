"""The errors that are reported when a model raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.errors import ProfilerKitError

from ..model.input_checks import describe_wrong_ranks

__all__ = ["explain_failed_pass", "explain_failures", "only_in_graphs"]

#: Parts of TensorFlow's messages if Python code reads the value of a symbolic tensor: the model must run eagerly.
_SYMBOLIC_VALUE_MESSAGES = ("ymbolic", "in a graph", "as a Python bool")


def explain_failed_pass(model: Any, error: Exception, inputs: ModelInputs) -> ProfilerKitError:
    """Return the error to report for a pass that raised: the model's error, or an error of this package's code.

    If the inputs have another rank than the model declares, the message names both ranks.
    """
    hints = list(describe_wrong_ranks(model, inputs))[:1]
    return explain_failure(error, inputs, "tensorflow", __package__, *hints)


@contextmanager
def explain_failures(model: Any, inputs: ModelInputs) -> Iterator[None]:
    """Raise the error to report, as `explain_failed_pass` has it, in the place of an error in the block."""
    try:
        yield
    except ProfilerKitError:
        raise
    except Exception as error:  # any error of the model
        raise explain_failed_pass(model, error, inputs) from error


def only_in_graphs(error: BaseException | None) -> bool:
    """Return whether an error only means that code cannot be traced, and not that the model is wrong."""
    return isinstance(error, NotImplementedError) or any(part in str(error) for part in _SYMBOLIC_VALUE_MESSAGES)
