"""The state of the optimizer that a Keras model was compiled with: its variables, or those that it would make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from ..error_text import error_line
from ..trace.dtypes import element_bytes
from .keras_kinds import is_any_keras, is_shipped_class
from .keras_layers import collect_without_values, flat_layers
from .keras_variables import lacks_weights

__all__ = ["count_state_bytes"]


def count_state_bytes(model: Any, make_variables: Callable[[Any, Any], Iterable[Any]] | None = None) -> int | str:
    """Return the bytes of a compiled model's optimizer state: 0 for a model that is not compiled, or none of Keras.

    Single numbers, such as the step and the learning rate, are left out. If the state is not known, the reason is
    returned as a text. It is not known if a ``train_step`` of the user uses optimizers that are attributes of the
    model, as adversarial models do: only this code shows which weights each of them trains. ``make_variables`` returns
    the variables that an unbuilt optimizer would make for a model, by default as Keras 3 does on any framework.
    """
    if not is_any_keras(model):
        return 0
    optimizer = getattr(model, "optimizer", None)
    inner: Any = getattr(optimizer, "inner_optimizer", optimizer)
    others = _list_further_optimizers(model, (optimizer, inner))
    if others:
        names = ", ".join(others)
        return (
            f"the state of the optimizers that the model has in {names}; give optimizer='adam' for one of all weights"
        )
    if optimizer is None:
        return 0
    missing = f"the state of the optimizer {type(inner).__name__}"
    if any(map(lacks_weights, flat_layers(model))):
        return f"{missing} for weights that the model's first call makes; build the model, or give optimizer='adam'"
    make = make_variables or _make_variables
    try:
        variables = _list_arrays(inner.variables) or _list_arrays(make(model, inner))
    except MemoryError:
        raise
    except Exception as error:  # of a class that is not Keras' own
        return f"{missing}, which cannot be made anew of its settings ({error_line(error)}); build it, as training does"
    return sum(_count_bytes(variable) for variable in variables)


def _list_further_optimizers(model: Any, compiled: Sequence[Any]) -> list[str]:
    """Return the names of the attributes of a model that hold optimizers of Keras, other than the compiled ones."""
    compiled_ids = set(map(id, compiled))
    return [
        name
        for name, value in vars(model).items()
        if any(_is_optimizer(item) and id(item) not in compiled_ids for item in _list_items(value))
    ]


def _list_items(value: Any) -> Iterable[Any]:
    """Return the contents of an attribute: the items of a list or mapping, else the value itself."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else (value,)


def _is_optimizer(value: Any) -> bool:
    """Return whether a value is an optimizer of Keras 3, of ``tf_keras`` or of its older ones, ``OptimizerV2``."""
    return any(base.__name__ in ("Optimizer", "OptimizerV2") and is_shipped_class(base) for base in type(value).__mro__)


def _list_arrays(variables: Any) -> list[Any]:
    """Return the variables that are no single numbers; older classes list them when they are called."""
    listed = variables() if callable(variables) else variables
    return [variable for variable in listed if len(variable.shape)]


def _count_bytes(variable: Any) -> int:
    return int(prod(variable.shape) * element_bytes(getattr(variable.dtype, "name", variable.dtype)))


def _make_variables(model: Any, optimizer: Any) -> list[Any]:
    """Return the variables that another optimizer with the same settings makes for the model, without values."""
    copy = type(optimizer).from_config(optimizer.get_config())
    with collect_without_values() as made:
        copy.build(model.trainable_variables)
    return made
