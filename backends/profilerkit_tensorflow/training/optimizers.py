"""The state of a compiled Keras model's optimizer: what it has made, or would make, without a value."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.error_text import error_line

from ..compat.graphs import FuncGraph
from ..compat.keras import find_optimizer_build
from ..model.unallocated import collect_unallocated
from ..model.unmade_weights import describe_unmade_weights
from ..model.weights import count_bytes
from ..untouched.preservation import preserve

__all__ = ["optimizer_state_bytes"]


def optimizer_state_bytes(model: Any) -> int | str:
    """Return the bytes of a compiled model's optimizer state: 0 for a model that is not compiled.

    Single numbers, such as the step and the learning rate, are left out. Where the state is not known a text is
    returned, with what is missing.
    """
    optimizer = getattr(model, "optimizer", None) if is_any_keras(model) else None
    if optimizer is None:
        return 0
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    missing = f"the state of the optimizer {type(inner).__name__}"
    if describe_unmade_weights(model):
        return f"{missing} for weights that the model's first call makes; build the model, or give optimizer='adam'"
    try:
        variables = _list_arrays(inner.variables) or _list_arrays(_make_variables(model, inner))
    except MemoryError:
        raise
    except Exception as error:  # of a class that is not Keras' own
        return f"{missing}, which cannot be made anew of its settings ({error_line(error)}); build it, as training does"
    return sum(map(count_bytes, variables))


def _list_arrays(variables: Any) -> list[Any]:
    """Return those that are no single numbers; older classes list them when they are called."""
    return [one for one in (variables() if callable(variables) else variables) if len(one.shape)]


def _make_variables(model: Any, optimizer: Any) -> list[Any]:
    """Return the variables that another optimizer with the same settings makes for the model, without values."""
    with preserve(model):
        copy = type(optimizer).from_config(optimizer.get_config())
        with collect_unallocated() as made, FuncGraph("build").as_default():  # it may read the weights
            find_optimizer_build(copy)(model.trainable_variables)
    return made
