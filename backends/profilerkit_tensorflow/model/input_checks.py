"""Values that no Keras model can take as inputs, and inputs of other ranks than a model declares, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.keras_calls import read_declared_shapes
from profilerkit.backend_kit.keras_kinds import is_any_keras

__all__ = ["describe_wrong_ranks", "require_tensors"]

_WAYS = (
    "the ways are inputs=x (arrays or tensors, with the batch dimension), input_shape=(8, 8, 3) (of one sample), or "
    "data_splits={'train': dataset}"
)


def require_tensors(model: Any, inputs: ModelInputs) -> None:
    """Raise `InputError` for inputs that no Keras model can take; the message has the right way to give them.

    These are symbolic tensors, types of tensors, data sets, iterators, and numbers without any tensor.
    """
    if not is_any_keras(model):
        return
    leaves = list(inputs.leaves())
    for leaf in leaves:
        problem = _find_problem(leaf)
        if problem is not None:
            raise InputError(f"inputs=<{type(leaf).__name__}> {problem}; {_WAYS}")
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


def describe_wrong_ranks(model: Any, inputs: ModelInputs) -> Iterator[str]:
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
