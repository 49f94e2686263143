"""The inputs of models: the inputs that a model declares, inputs that no model can take, and the layout of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.keras_calls import read_declared_call, read_declared_shapes
from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.layouts import in_declared_layout
from profilerkit.declared_inputs import DeclaredInput

from ..compat.saved_models import is_saved_model
from .calls import is_saved_for_inference, read_served_signature

__all__ = ["fit_inputs", "read_declared_inputs", "wrong_ranks"]


def read_declared_inputs(model: Any) -> ModelInputs | None:
    """Return the call that a model declares, with a `DeclaredInput` for each tensor; None if it declares none."""
    if is_any_keras(model):
        return read_declared_call(model)
    if is_saved_model(model):
        args, kwargs = _read_saved_call(model)
    else:
        args, kwargs = tuple(getattr(model, "input_signature", None) or ()), {}
    declared = ModelInputs(*args, **kwargs)
    leaves = list(declared.leaves())
    return declared.map(DeclaredInput.of) if leaves and all(hasattr(leaf, "shape") for leaf in leaves) else None


def _read_saved_call(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the declared arguments of the model's call, or of the function that it serves."""
    if not callable(model):
        return read_served_signature(model)
    functions = list(model.__call__.concrete_functions)
    if not functions:
        return (), {}
    for_inference = list(filter(is_saved_for_inference, functions))
    function = (for_inference or functions)[0]
    positional, _ = function.structured_input_signature
    inputs = [leaf for leaf in positional if not isinstance(leaf, (bool, type(None)))]  # without ``training``, ``mask``
    return tuple(inputs), {}


# Images with the channels first become ones with the channels last ----------------------------------------------------


def fit_inputs(model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs as a Keras model declares them, if it is enough to move the channels to the end.

    A batch of images ``(N, 3, 224, 224)``, as PyTorch has them, becomes ``(N, 224, 224, 3)`` for a model with an input
    of shape ``(None, 224, 224, 3)``; so do sequences and volumes. Inputs that fit already, or that would not fit even
    so, are returned unchanged. Of a saved model, several inputs become one list or dict if it was saved for that.

    Raises `InputError` for inputs that no Keras model can take: symbolic tensors, data sets, iterators, bare numbers.
    """
    if inputs.function is not None:  # it may take any inputs
        return inputs
    _require_tensors(model, inputs)
    if is_saved_model(model):
        return _fit_structure(model, inputs)
    if inputs.kwargs or not is_any_keras(model):
        return inputs
    args = in_declared_layout(inputs.args, read_declared_shapes(model), _find_shape, tf.transpose)
    return inputs if args is inputs.args else ModelInputs(*args)


def _fit_structure(model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs as the one list or dict a saved model takes; ``model.export`` of Keras saves several so."""
    declared = read_declared_inputs(model)
    if declared is None or declared.kwargs or len(declared.args) != 1:
        return inputs
    (structure,) = declared.args
    if isinstance(structure, (list, tuple)) and not inputs.kwargs and len(inputs.args) == len(structure) > 1:
        return ModelInputs(list(inputs.args))
    if isinstance(structure, Mapping) and not inputs.args and inputs.kwargs.keys() == structure.keys():
        return ModelInputs(dict(inputs.kwargs))
    return inputs


def _find_shape(leaf: Any) -> Sequence[int | None] | None:
    return leaf.shape if tf.is_tensor(leaf) and leaf.shape.rank is not None else None


# Values that no Keras model can take, and ranks that one does not declare ---------------------------------------------


_WAYS = (
    "the ways are inputs=x (arrays or tensors, with the batch dimension), input_shape=(8, 8, 3) (of one sample), or "
    "data_splits={'train': dataset}"
)


def _require_tensors(model: Any, inputs: ModelInputs) -> None:
    """Raise `InputError` for inputs that no Keras model can take; the message has the right way to give them.

    These are symbolic tensors, types of tensors, data sets, iterators, and numbers without any tensor.
    """
    if not is_any_keras(model):
        return
    leaves = list(inputs.leaves())
    for leaf in leaves:
        problem = _find_problem(leaf)
        if problem is not None:
            raise InputError(f"inputs={_name_type(leaf)} {problem}; {_WAYS}")
    are_numbers = bool(leaves) and all(isinstance(leaf, (bool, int, float, complex)) for leaf in leaves)
    if not are_numbers:
        return
    if all(type(leaf) is int for leaf in inputs.args) and not inputs.kwargs:
        raise InputError(
            f"inputs={inputs.args!r} are numbers, not tensors; if this is a shape, give it as input_shape=, without "
            f"the batch dimension; {_WAYS}"
        )
    raise InputError(
        f"inputs of {len(leaves)} Python numbers are no tensors; give a numpy array, np.asarray(x); {_WAYS}"
    )


def wrong_ranks(model: Any, inputs: ModelInputs) -> Iterator[str]:
    """Yield a hint for each input that has one dimension more or less than the model declares."""
    declared = read_declared_shapes(model) if is_any_keras(model) else []
    if len(declared) != len(inputs.args) or inputs.function is not None:
        return
    for leaf, shape in zip(inputs.args, declared, strict=True):
        if not tf.is_tensor(leaf) or leaf.shape.rank is None:
            continue
        excess = leaf.shape.rank - len(shape)
        if abs(excess) == 1:
            wrong = "the batch dimension is missing" if excess < 0 else "there is one dimension too many"
            yield f"it takes {shape}, and got {tuple(leaf.shape)}: {wrong}"


def _find_problem(leaf: Any) -> str | None:
    """Return the problem of an input that is no value; None if there is none."""
    if type(leaf).__name__ == "KerasTensor" and type(leaf).__module__.partition(".")[0] in ("keras", "tf_keras"):
        return f"is a symbolic tensor without values; give input_shape={_write_sample_shape(leaf)}"
    if isinstance(leaf, tf.TypeSpec):
        return f"is the type of a tensor, without values; give input_shape={_write_sample_shape(leaf)}"
    if isinstance(leaf, tf.data.Dataset):
        return "is a data set, not one batch; give it as data_splits={'train': dataset}"
    if hasattr(leaf, "__next__"):
        return "is an iterator, not one batch; give data_splits={'train': loader}, of a loader that can be read twice"
    return None


def _write_sample_shape(symbolic: Any) -> str:
    shape = getattr(symbolic, "shape", None)
    return "..." if shape is None or getattr(shape, "rank", 0) is None else repr(tuple(shape)[1:])


def _name_type(leaf: Any) -> str:
    return f"<{type(leaf).__name__}>"
