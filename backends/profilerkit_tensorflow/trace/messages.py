"""What is reported of a model that raised."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelFailedError, ModelInputs
from profilerkit.backend_kit.failures import failure_of
from profilerkit.errors import BackendFailedError

from ..model.input_checks import wrong_ranks

__all__ = ["failed", "only_in_graphs"]

#: What TensorFlow says of a symbolic tensor that Python code asks for its value: of a model that must run eagerly.
_NO_VALUE = ("ymbolic", "in a graph", "as a Python bool")


def failed(model: Any, error: Exception, inputs: ModelInputs) -> ModelFailedError | BackendFailedError:
    """Return what is said of a pass that raised: of the model, or of this package where the error was its own.

    Of a model that declares the rank of its inputs, that is said where these have another.
    """
    hints = list(wrong_ranks(model, inputs))[:1]
    return failure_of(error, inputs, "tensorflow", __package__, *hints)


def only_in_graphs(error: BaseException | None) -> bool:
    """Say whether an error only tells that code cannot be traced, not what is wrong with the model."""
    return isinstance(error, NotImplementedError) or any(part in str(error) for part in _NO_VALUE)
