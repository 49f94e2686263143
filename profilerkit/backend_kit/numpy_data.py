"""The batches of backends that run on numpy arrays: made, cut, converted from tensors, held against a declaration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ..count_text import format_count
from ..declared_inputs import DeclaredInput
from ..error_text import shown
from ..errors import InputError
from ..input_shapes import TensorSpec
from ..inputs import ModelInputs

__all__ = [
    "Declared",
    "as_tensor",
    "bind_inputs",
    "declare_call",
    "number_names",
    "random_tensor",
    "widen_bfloat16",
    "with_batch_size",
]


class Declared(NamedTuple):
    """An input as a model declares it.

    Attributes:
        name: Its name in the model.
        dims: Its sizes: numbers, names of open ones, None for one without either; None if the rank is open.
        dtype: The name of its dtype: "float32", or "string", which any fits; None for what is no tensor.
    """

    name: str
    dims: Sequence[int | str | None] | None
    dtype: str | None


def as_tensor(value: Any) -> Any:
    """Return an array for a tensor of torch or TensorFlow, and anything else as it is.

    Raises `InputError` for a tensor of torch that no array can hold, such as a sparse one.
    """
    if isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] not in ("torch", "tensorflow"):
        return value
    if hasattr(value, "detach"):
        name = str(value.dtype).removeprefix("torch.")
        try:
            if name.startswith(("bfloat16", "float8")):  # which numpy lacks
                return value.float().numpy(force=True).astype(_find_dtype(name))
            return value.numpy(force=True)  # whatever its device, with gradients or a conjugate
        except TypeError as error:
            raise InputError(f"a {name} tensor of torch cannot become an array: {error}; give a dense one") from error
    return value.numpy() if hasattr(value, "numpy") else value


def random_tensor(spec: TensorSpec, batch_size: int) -> np.ndarray[Any, Any]:
    """Return normal values for floats, empty texts, and zeros for all else: valid for an embedding of any size."""
    shape, dtype = (batch_size, *spec.shape), _find_dtype(spec.dtype)
    if "float" in dtype.name:  # those of ml_dtypes too
        return np.random.default_rng(0).normal(size=shape).astype(dtype)
    return np.zeros(shape, dtype)


def widen_bfloat16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return numbers of bfloat16, of two bytes each in an array of any dtype, in float32, of which they are one half.

    >>> widen_bfloat16(np.array([0x3FC0, 0xC000], np.uint16)).tolist()
    [1.5, -2.0]
    """
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _find_dtype(name: str) -> np.dtype[Any]:
    """Return a dtype of numpy's or, where it is installed, of ml_dtypes'; raise `InputError` for any other name."""
    with suppress(ImportError):
        import ml_dtypes  # noqa: F401 - makes its dtypes known to numpy
    try:
        return np.dtype(str if name == "string" else name)
    except TypeError as error:
        raise InputError(f"numpy has no dtype {name!r}; use a name such as 'float32' or 'int64'") from error


def with_batch_size(tensor: np.ndarray[Any, Any], batch_size: int) -> np.ndarray[Any, Any]:
    """Return the array with its first dimension cut, or repeated, to ``batch_size``.

    Raises `InputError` for an array without a dimension, or with an empty batch.
    """
    if not tensor.shape:
        raise InputError("an input is a scalar, which has no batch; give an array whose first dimension is the batch")
    if not len(tensor):
        raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
    return np.resize(tensor, (batch_size, *tensor.shape[1:]))


def declare_call(declared: Sequence[Declared]) -> ModelInputs | None:
    """Return the call that a model declares, by the names of inputs; None without inputs, or where one is no tensor."""
    if not declared or any(value.dtype is None for value in declared):
        return None
    return ModelInputs(**{value.name: _leave_open(value) for value in declared})


def _leave_open(value: Declared) -> DeclaredInput:
    """Return an input whose sizes are numbers or open, without the names of open ones."""
    sizes = None if value.dims is None else tuple(size if isinstance(size, int) else None for size in value.dims)
    return DeclaredInput(value.name, sizes, value.dtype or "")


def number_names(names: Iterable[str]) -> list[str]:
    """Return names, each of which occurs once: a further one that is equal gets a number behind it.

    >>> number_names(["x", "y", "x", "x"])
    ['x', 'y', 'x_1', 'x_2']
    """
    numbered: dict[str, None] = {}
    for name in names:
        unique, numbers = name, count(1)
        while unique in numbered:
            unique = f"{name}_{next(numbers)}"
        numbered[unique] = None
    return list(numbered)


def bind_inputs(declared: Sequence[Declared], inputs: ModelInputs) -> dict[str, Any]:
    """Return the arrays of a call by the names of a model's inputs, in the order in which the model declares them.

    Positional ones are taken in that order, the others by name. A random tensor has a batch, which an input that is
    declared as a scalar does not take. Raises `InputError` for a number, a name, a shape or a dtype that the model does
    not declare, and for inputs of ``call=``.
    """
    names = [value.name for value in declared]
    positional = list(ModelInputs(*inputs.own_call().args).leaves())
    _require_declared(names, positional, inputs.kwargs)
    tensors = {**dict(zip(names, positional, strict=False)), **inputs.kwargs}
    for value in declared:
        if value.name not in tensors:
            raise InputError(
                f"the input {value.name!r} is missing; the model declares the inputs: {', '.join(map(repr, names))}"
            )
    bound = {}
    for value in declared:
        tensor = as_tensor(tensors[value.name])
        is_scalar = value.dims is not None and not value.dims
        if inputs.are_random and is_scalar and len(tensor.shape) == 1:
            tensor = tensor[0, ...]
        _require_fitting(value, tensor)
        bound[value.name] = tensor
    return bound


def _require_declared(names: Sequence[str], positional: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise `InputError` for an input that the model does not declare, for too many, and for one given twice."""
    unknown = sorted(set(named) - set(names))
    twice = sorted(set(named) & set(names[: len(positional)]))
    if twice:
        raise InputError(f"the input {twice[0]!r} is given twice, by position and by name; give it once")
    if unknown:
        surplus = f"no input {unknown[0]!r}"
    elif len(positional) > len(names):
        surplus = f"{format_count(len(names), 'input')}, and {len(positional)} were given"
    else:
        return
    raise InputError(f"the model declares {surplus}; its inputs are: {', '.join(map(repr, names)) or 'none'}")


def _require_fitting(declared: Declared, tensor: Any) -> None:
    """Raise `InputError` for a tensor that is not of the shape and dtype that an input declares."""
    name, dims, dtype = declared
    if dtype is None:
        return
    if not hasattr(tensor, "shape") or not hasattr(tensor, "dtype"):
        raise InputError(f"the input {name!r} is {shown(tensor)}; give an array for it")
    shape = tuple(tensor.shape)
    if dims is not None and not _is_fitting(shape, dims):
        sizes = ", ".join("any" if dim is None else str(dim) for dim in dims)
        raise InputError(
            f"the input {name!r} has the shape {shape}, and the model declares ({sizes}); give an array of that shape"
        )
    if dtype != "string" and str(tensor.dtype) != dtype:
        raise InputError(
            f"the input {name!r} is of {tensor.dtype}, and the model declares {dtype}; convert it, or name the dtype "
            f"of a shape: TensorSpec(shape, {dtype!r}), or shape:{dtype} on the command line"
        )


def _is_fitting(shape: Sequence[int], dims: Sequence[int | str | None]) -> bool:
    """Return whether a shape has the declared rank and sizes; a size that is not a number is open."""
    if len(shape) != len(dims):
        return False
    return all(size == dim for size, dim in zip(shape, dims, strict=True) if isinstance(dim, int))
