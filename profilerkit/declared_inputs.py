"""Inputs made from a model's own declaration: a Keras model, a saved model or an exported program needs no shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .count_text import name_several
from .errors import InputError
from .input_shapes import DEFAULT_DTYPE, InputShapes, TensorSpec, dtype_name, write_shapes
from .inputs import ModelInputs

__all__ = ["DeclaredInput", "make_inputs"]

#: The example size for an undefined dimension in an error message.
_ANY_SIZE = 16


@dataclass(frozen=True)
class DeclaredInput:
    """One input as a model declares it.

    Attributes:
        name: Its name in the model.
        shape: Its sizes, the batch first; a size that the model leaves open is None, and so is the whole shape if the
            number of dimensions is open. A scalar has no sizes, and no batch.
        dtype: The name of its dtype: "float32".
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str = "float32"

    @classmethod
    def of(cls, symbolic: Any) -> DeclaredInput:
        """Return the declaration of a symbolic tensor or its type specification, from its name, shape and dtype."""
        try:
            shape = tuple(symbolic.shape)
        except ValueError:  # TensorFlow raises it for an unknown rank
            shape = None
        name = str(getattr(symbolic, "name", None) or "input").partition(":")[0]
        return cls(name, shape, dtype_name(symbolic.dtype))

    def __str__(self) -> str:
        return f"its input {self.name!r} with the shape {self.shape}"


def make_inputs(
    declared: ModelInputs, batch_size: int | None, random_tensor: Callable[[TensorSpec, int], Any]
) -> ModelInputs:
    """Return random inputs as a model declares them.

    Args:
        declared: The call of the model, with a `DeclaredInput` for each tensor.
        batch_size: The requested batch size; None for the model's own, or 1 if that is open.
        random_tensor: `Backend.random_tensor`.

    Raises `InputError` for a batch size that differs from the model's fixed one, and if the model leaves another size
    open.
    """

    def make_tensor(leaf: Any) -> Any:
        if not isinstance(leaf, DeclaredInput):
            return leaf
        if leaf.shape == ():
            return random_tensor(TensorSpec((), leaf.dtype), 1)[0, ...]
        size, *sample = _sizes(leaf, declared)
        if size is not None and batch_size not in (None, size):
            raise InputError(
                f"the model declares {leaf}, for a batch of {size} alone: batch_size={batch_size} does not fit; give "
                f"batch_size={size} or none, or build the model for batches of any size"
            )
        return random_tensor(TensorSpec(tuple(sample), leaf.dtype), size or batch_size or 1)

    return declared.map(make_tensor)


def _sizes(leaf: DeclaredInput, declared: ModelInputs) -> tuple[Any, ...]:
    """Return the sizes of an input; raises `InputError` if a size is 0, or one other than the batch's is open."""
    if leaf.shape is None:
        raise InputError(
            f"the model declares {leaf}, a number of dimensions that is not known; give example inputs: inputs=x"
        )
    if 0 in leaf.shape:
        raise InputError(
            f"the model declares {leaf}, which has no elements; export it with a size in place of 0, or give example "
            "inputs of that shape: inputs=x"
        )
    missing = [index for index, size in enumerate(leaf.shape) if index and size is None]
    if missing:
        which = f"{name_several('dimension', len(missing))} {', '.join(map(str, missing))}"
        raise InputError(
            f"the model declares {leaf}, which leaves {which} open; give all sizes but the batch's: "
            f"input_shape={_suggest_shape(declared)}, or example inputs: inputs=x"
        )
    return leaf.shape


def _suggest_shape(declared: ModelInputs) -> str:
    """Return the ``input_shape=`` for these inputs, with an example size for each open dimension."""
    if declared.kwargs:
        return write_shapes(InputShapes((), {name: _make_example(leaf) for name, leaf in declared.kwargs.items()}))
    positional = tuple(_make_example(leaf) for leaf in declared.leaves() if isinstance(leaf, DeclaredInput))
    return write_shapes(InputShapes(positional, {}))


def _make_example(leaf: Any) -> TensorSpec:
    if not isinstance(leaf, DeclaredInput):
        return TensorSpec(())
    sizes = tuple(size or _ANY_SIZE for size in (leaf.shape or ())[1:])
    return TensorSpec(sizes, leaf.dtype, has_usual_dtype=leaf.dtype == DEFAULT_DTYPE)
