"""The values of a model's weights: without them it cannot be run, unless a call would make none."""

from __future__ import annotations

from typing import Any

from profilerkit import BackendFailedError, ModelFailedError, ModelInputs, WithoutValuesError

from ..model.kinds import is_unbuilt
from ..model.weights import describe_unmade_weights, list_weights
from ..trace.building import build_symbolically
from ..trace.tracing import trace_model
from ..untouched.preservation import preserve

__all__ = ["build_weightless", "require_values"]


def require_values(model: Any, inputs: ModelInputs | None = None) -> None:
    """Raise `WithoutValuesError` for a Keras model whose call would make weights, or the error of a model that raises.

    A model that is not built may have all its weights: one around a built model, or one that needs none. To find out,
    it is built and restored; without inputs, its layers are checked.
    """
    if _was_called(model):
        return
    lacks_weights = bool(describe_unmade_weights(model)) if inputs is None else _lacks_weights(model, inputs)
    if lacks_weights:
        raise WithoutValuesError(
            f"the model {model.name!r} is not built: its weights have no values yet, so it cannot be run, only its "
            "static metrics can be had; call it once with real inputs, or give its input shape to model.build()"
        )


def build_weightless(model: Any, inputs: ModelInputs) -> None:
    """Build a model that `require_values` has accepted, and that has not been called. Use inside `preserve`."""
    if not _was_called(model):
        build_symbolically(model, inputs)


def _was_called(model: Any) -> bool:
    """Return whether a model has all its variables, or was at least begun to be built."""
    return not is_unbuilt(model) or bool(model.built)


def _lacks_weights(model: Any, inputs: ModelInputs) -> bool:
    """Return whether building a model makes weights; raises the error of a model that raises."""
    try:
        with preserve(model, variable_values=True):
            before = len(list_weights(model))
            return bool(build_symbolically(model, inputs)) or len(list_weights(model)) > before
    except MemoryError:
        raise
    except Exception:  # any error of the model
        failure = trace_model(model, inputs).failure
        if isinstance(failure, (ModelFailedError, BackendFailedError)):
            raise failure from failure.__cause__
        return bool(describe_unmade_weights(model))  # the model runs, but cannot be built symbolically
