"""Inputs made from what a model itself declares: a Keras model, a saved model or an exported program needs no shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import InputError
from .inputs import ModelInputs, TensorSpec
from .inputs import _dtype_name as dtype_name

__all__ = ["DeclaredInput", "made_from"]

#: Stands for an open size where an error shows what to give.
_ANY_SIZE = 16


@dataclass(frozen=True)
class DeclaredInput:
    """One input as a model declares it.

    Attributes:
        name: What the model calls it.
        shape: Its sizes, the batch first; None for one that is open, and in place of all where their number is.
        dtype: The name of its dtype: "float32".
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str = "float32"

    @classmethod
    def of(cls, symbolic: Any) -> DeclaredInput:
        """Return what is declared by a symbolic tensor, or the type of one: by its name, shape and dtype."""
        try:
            shape = tuple(symbolic.shape)
        except ValueError:  # TensorFlow's, of a shape whose rank is not known
            shape = None
        name = str(getattr(symbolic, "name", None) or "input").partition(":")[0]
        return cls(name, shape, dtype_name(symbolic.dtype))

    def __str__(self) -> str:
        return f"its input {self.name!r} with the shape {self.shape}"


def made_from(
    declared: ModelInputs, batch_size: int | None, random_tensor: Callable[[TensorSpec, int], Any]
) -> ModelInputs:
    """Return inputs of a batch size as a model declares them; of its own, else of 1, where none is requested.

    Args:
        declared: The call of the model, with a `DeclaredInput` in the place of each tensor.
        batch_size: The batch size that is requested, if one is.
        random_tensor: `Backend.random_tensor`.

    Raises `InputError` for another batch size than the model's own, where that is fixed, and for a size that the model
    leaves open.
    """

    def made(leaf: Any) -> Any:
        if not isinstance(leaf, DeclaredInput):
            return leaf
        size, *sample = _sizes(leaf, declared)
        if size is not None and batch_size not in (None, size):
            raise InputError(
                f"the model declares {leaf}, for a batch of {size} alone: batch_size={batch_size} does not fit; give "
                f"batch_size={size} or none, or build the model for batches of any size"
            )
        return random_tensor(TensorSpec(tuple(sample), leaf.dtype), size or batch_size or 1)

    return declared.map(made)


def _sizes(leaf: DeclaredInput, declared: ModelInputs) -> tuple[Any, ...]:
    """Return the sizes of an input, of which the batch alone may be open."""
    if not leaf.shape:
        what = "a number of dimensions that is not known" if leaf.shape is None else "no batch"
        raise InputError(f"the model declares {leaf}, {what}; give example inputs: inputs=x")
    missing = [index for index, size in enumerate(leaf.shape) if index and size is None]
    if missing:
        which = f"dimension{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        raise InputError(
            f"the model declares {leaf}, which leaves {which} open; give all sizes but the batch's: "
            f"input_shape={_suggested(declared)}, or example inputs: inputs=x"
        )
    return leaf.shape


def _suggested(declared: ModelInputs) -> str:
    """Return how shapes are given for these inputs, with some size for each that is open."""
    named = {name: _sample(leaf) for name, leaf in declared.kwargs.items()}
    if named:
        return "{" + ", ".join(f"{name!r}: {shape}" for name, shape in named.items()) + "}"
    shapes = list(map(_sample, _tensors(declared)))
    return shapes[0] if len(shapes) == 1 else f"[{', '.join(shapes)}]"


def _tensors(declared: ModelInputs) -> Iterator[DeclaredInput]:
    return (leaf for leaf in declared.leaves() if isinstance(leaf, DeclaredInput))


def _sample(leaf: Any) -> str:
    sizes = leaf.shape[1:] if isinstance(leaf, DeclaredInput) and leaf.shape else ()
    shape = repr(tuple(size or _ANY_SIZE for size in sizes))
    return shape if getattr(leaf, "dtype", "float32") == "float32" else f"({shape}, {leaf.dtype!r})"
