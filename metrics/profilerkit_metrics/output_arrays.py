"""Inputs and outputs of models of any framework as numpy arrays: copied from one to another, matched and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from profilerkit.arguments.structures import is_tensor, list_leaves
from profilerkit.backend_kit.layouts import channels_last_order
from profilerkit.backend_kit.numpy_data import as_tensor
from profilerkit.errors import InputError
from profilerkit.inputs import ModelInputs

__all__ = ["Difference", "compare_outputs", "copy_values", "read_outputs"]

Array: TypeAlias = "np.ndarray[Any, Any]"


class CopiedInputs(NamedTuple):
    """Inputs with the values of another model's, and whether channels had to be moved for them."""

    inputs: ModelInputs
    has_moved: bool


class Difference(NamedTuple):
    """How far outputs lie apart: as they are, and as a share of the largest one."""

    absolute: float
    relative: float


def read_outputs(outputs: Any) -> list[Array]:
    """Return copies of the output tensors of a model as arrays, in their order; other outputs are left out.

    A model may return the same memory in each call. Raises `InputError` if no output is a tensor, and for a tensor
    without numbers.
    """
    arrays = [np.array(array) for array in _list_arrays(outputs)]
    if not arrays:
        raise InputError("the model gives no tensor whose values could be compared")
    for number, array in enumerate(arrays, 1):
        if array.dtype.kind in "OSUMm":
            raise InputError(f"output {number} holds no numbers, but {array.dtype}: give a model that returns numbers")
    return arrays


def copy_values(
    source: ModelInputs,
    inputs: ModelInputs,
    make_tensor: Callable[[Any], Any],
    fit: Callable[[ModelInputs], ModelInputs] = lambda inputs: inputs,
) -> CopiedInputs:
    """Return a model's own inputs with the values of another model's.

    Args:
        source: The inputs whose values are copied.
        inputs: The inputs of the model: their structure, dtypes and layout stay, and values that are no tensors.
        make_tensor: Converts an array to a tensor of the model's framework.
        fit: Converts numbers to the integers that represent them, for a model that is quantized.

    Raises `InputError` if the tensors of the two do not match, in their order.
    """
    values, own_values = _list_call_arrays(source), _list_call_arrays(inputs)
    moved = _move_channels(values, own_values)
    numbers = _replace_tensors(inputs, (make_tensor(np.array(value)) for value in moved))
    tensors = []
    for value, own_value in zip(_list_call_arrays(fit(numbers)), own_values, strict=True):
        cast = _cast(value, own_value.dtype)
        # A tensor of the model's own stays where it has the values already.
        tensors.append(None if np.array_equal(cast, own_value) else make_tensor(cast))
    has_moved = [array.shape for array in values] != [array.shape for array in own_values]
    return CopiedInputs(_replace_tensors(inputs, tensors), has_moved)


def _move_channels(values: Sequence[Array], targets: Sequence[Array]) -> list[Array]:
    """Return arrays with their channels in the targets' dimension; raises `InputError` if they do not match."""
    moved = [_read_as(value, target) for value, target in zip(values, targets, strict=False)]
    fitting = [array for array in moved if array is not None]
    if len(fitting) < max(len(values), len(targets)):
        raise InputError(
            f"the reference is called with {_write_shapes(values)}, and this model with {_write_shapes(targets)}: give "
            "both the same inputs"
        )
    return fitting


def _cast(value: Array, dtype: Any) -> Array:
    """Return an array in another dtype; raises `InputError` if the values are no integers of an integer dtype."""
    with np.errstate(invalid="ignore"):
        cast = np.array(value, dtype)
    if cast.dtype.kind in "iu" and not np.array_equal(cast, value):
        raise InputError(
            f"the values of the reference's inputs are no {cast.dtype}, which this model takes: give both inputs of "
            "integers"
        )
    return cast


def _replace_tensors(inputs: ModelInputs, tensors: Iterable[Any]) -> ModelInputs:
    """Return inputs with other tensors in place of their own, in order; a tensor stays if None is given for it."""
    remaining = iter(tensors)

    def replace(leaf: Any) -> Any:
        tensor = None if _make_array(leaf) is None else next(remaining)
        return leaf if tensor is None else tensor

    return inputs.map(replace)


def compare_outputs(reference: Sequence[Array], other: Sequence[Array], has_moved: bool = False) -> Difference:
    """Return the largest difference of two models' outputs, and the largest as a share of the reference's largest.

    Args:
        reference: The outputs of the reference.
        other: The outputs of the other model. They are matched by order, or by shape if their order does not fit.
        has_moved: Whether the models have their channels in different dimensions: then an output whose shape does not
            show the channels is read in the way with the smaller difference.

    Raises `InputError` if outputs do not match, or if one has integers and the other has not.
    """
    differences = [
        min(_measure(pair.reference, reading) for reading in _list_readings(pair.other, pair.reference, has_moved))
        for pair in _match(reference, other)
    ]
    return Difference(max(one.absolute for one in differences), max(one.relative for one in differences))


def _measure(reference: Array, other: Array) -> Difference:
    """Return how far two arrays of one shape lie apart; infinitely if one has a number and the other has none."""
    if (reference.dtype.kind in "iub") != (other.dtype.kind in "iub"):
        raise InputError(
            f"an output is {reference.dtype} of the reference and {other.dtype} of this model: what an integer stands "
            "for is not known; compare models that give numbers of one kind"
        )
    first, second = _widen(reference), _widen(other)
    are_integers = reference.dtype.kind in "iu"
    is_same = reference == other if are_integers else (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        gaps = np.where(is_same, 0.0, np.abs(first - second))
    if are_integers:  # floats do not tell large ones apart
        differing = zip(reference[~is_same].tolist(), other[~is_same].tolist(), strict=True)
        gaps[~is_same] = [abs(mine - theirs) for mine, theirs in differing]
    absolute = float(np.where(np.isnan(gaps), np.inf, gaps).max(initial=0.0))
    largest = float(np.abs(first[np.isfinite(first)]).max(initial=0.0))
    if not absolute:
        return Difference(0.0, 0.0)
    return Difference(absolute, absolute / largest if largest else np.inf)


def _widen(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


# Matching -------------------------------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """An output of the reference, and the same one of the other model."""

    reference: Array
    other: Array


def _match(reference: Sequence[Array], other: Sequence[Array]) -> list[_Pair]:
    """Return pairs of outputs: in their order, or else each of the model with fewer and the only one of its shape."""
    if len(reference) == len(other) and all(map(_is_fitting, reference, other)):
        return list(map(_Pair, reference, other))
    pairs = [_Pair(mine, theirs) for mine in reference for theirs in other if _is_fitting(mine, theirs)]
    distinct = [len({id(array) for array in side}) for side in zip(*pairs, strict=True)]
    if set(distinct) != {len(pairs)} or len(pairs) < min(len(reference), len(other)):
        raise InputError(
            f"the reference gives {_write_shapes(reference)}, and this model {_write_shapes(other)}: which outputs are "
            "the same is not known; compare models that give the same ones"
        )
    return pairs


def _is_fitting(one: Array, other: Array) -> bool:
    return _read_as(one, other) is not None


def _read_as(array: Array, target: Array) -> Array | None:
    """Return an array with its channels where the target has them; None if it has another shape then too."""
    return next(_list_readings(array, target), None)


def _list_readings(array: Array, target: Array, may_have_moved: bool = False) -> Iterator[Array]:
    """Yield an array in each layout that has the shape of the target: its own first, else with its channels moved.

    Channels are second in one layout and last in the other. With ``may_have_moved`` a shape that is the target's
    already, such as (2, 8, 8, 8), does not say where they are: then it is yielded in the other layouts too.
    """
    if array.shape == target.shape:
        yield array
        if may_have_moved and array.ndim > 2:
            to_last, to_second = np.moveaxis(array, 1, -1), np.moveaxis(array, -1, 1)
            yield from (moved for moved in (to_last, to_second) if moved.shape == target.shape)
    elif channels_last_order(array.shape, target.shape) is not None:
        yield np.moveaxis(array, 1, -1)
    elif channels_last_order(target.shape, array.shape) is not None:
        yield np.moveaxis(array, -1, 1)


# Arrays ---------------------------------------------------------------------------------------------------------------


def _list_call_arrays(inputs: ModelInputs) -> list[Array]:
    return _list_arrays((inputs.args, inputs.kwargs))


def _list_arrays(structure: Any) -> list[Array]:
    return [array for leaf in list_leaves(structure) if (array := _make_array(leaf)) is not None]


def _make_array(leaf: Any) -> Array | None:
    """Return a tensor of any framework as an array; None for anything else."""
    value = as_tensor(leaf)
    if is_tensor(value):
        return np.asarray(value)
    return np.asarray(value.numpy()) if hasattr(value, "numpy") else None


def _write_shapes(arrays: Iterable[Array]) -> str:
    return " and ".join(str(list(array.shape)) for array in arrays) or "no tensors"
