"""The values of a model's weights: without them it cannot be run, unless a call would make none."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelInputs, WithoutValuesError

from ..model.kinds import is_unbuilt
from ..model.weights import describe_unmade_weights, list_weights
from ..trace.building import build_symbolically

__all__ = ["build_weightless", "require_values"]


def require_values(model: Any) -> None:
    """Raise `WithoutValuesError` for a Keras model whose layers lack weights that its first call makes."""
    if not _was_called(model) and describe_unmade_weights(model):
        raise _make_refusal(model)


def build_weightless(model: Any, inputs: ModelInputs) -> None:
    """Build a Keras model that has not been called, if it has all its weights. Use inside `preserve`.

    Such is a model around a built model, or one that needs no weights. Raises `WithoutValuesError` if building makes
    weights, and the error of a model that raises.
    """
    if _was_called(model):
        return
    before = len(list_weights(model))
    try:
        made = build_symbolically(model, inputs)
    except MemoryError:
        raise
    except Exception:  # any error of the model
        require_values(model)
        raise
    if made or len(list_weights(model)) > before:
        raise _make_refusal(model)


def _was_called(model: Any) -> bool:
    """Return whether a model has all its variables, or was at least begun to be built."""
    return not is_unbuilt(model) or bool(model.built)


def _make_refusal(model: Any) -> WithoutValuesError:
    return WithoutValuesError(
        f"the model {model.name!r} is not built: its weights have no values yet, so it cannot be run, only its static "
        "metrics can be had; call it once with real inputs, or give its input shape to model.build()"
    )
