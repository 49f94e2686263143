"""A check that products have the same shapes in a profile and in the trace: else times and counts do not fit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from profilerkit import ProfileFileError
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import Event, Frame

__all__ = ["Match", "require_equal_shapes"]


_MATRIX_PRODUCTS = ("aten::mm", "aten::addmm", "aten::linear")


class Match(NamedTuple):
    """An operator of the profile, and the same operator in the trace."""

    frame: Frame
    operator: OpRecord


def require_equal_shapes(matches: Iterable[Match]) -> None:
    """Raise `ProfileFileError` if a product makes another shape in the profile than in the trace.

    Profiles have shapes if they were made with ``record_shapes=True``; profiles without shapes are taken to be right.
    """
    for frame, operator in matches:
        profiled = _find_output_shape(frame.event)
        traced = operator.outputs[0].shape if operator.outputs else profiled
        if frame.event.name in _MATRIX_PRODUCTS:  # a linear layer may be a product of matrices in compiled code
            profiled, traced = _count_rows(profiled), _count_rows(traced)
        traced = traced[: len(profiled)]
        if profiled != traced:
            layer = repr(operator.layer) if operator.layer else "the model itself"
            raise ProfileFileError(
                f"the profile has other shapes than the model here: {frame.event.name} in {layer} makes "
                f"{profiled} in the profile, {traced} in the trace; give the inputs that were profiled "
                "(input_shape= and batch_size=, --input-shape and --batch-size), or the model that was"
            )


def _count_rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a product as that of a matrix: its rows together, and its columns."""
    return (math.prod(shape[:-1]), shape[-1]) if shape else ()


def _find_output_shape(operator: Event) -> tuple[int, ...]:
    """Return the first sizes of a product's result, by the sizes of its two factors; nothing if they are not known.

    For example, ``mm`` of (8, 3) and (3, 5) makes (8, 5).
    """
    name = operator.name.rpartition("::")[2]
    sizes = _read_input_sizes(operator)
    factors = sizes[1:] if name == "addmm" else sizes  # its first input is added to the product
    x, weight = (*factors, [], [])[:2]
    match name, len(x), len(weight):
        case "mm" | "addmm", 2, 2:
            return x[0], weight[1]
        case "bmm", 3, 3:
            return x[0], x[1], weight[2]
        case "linear", _, 2 if x:
            return *x[:-1], weight[0]
        case ("conv1d", 3, 3) | ("conv2d", 4, 4) | ("conv3d", 5, 5):
            return x[0], weight[0], *_find_image_size(operator, x[2:], weight[2:])
        case "convolution", 3 | 4 | 5, _:  # the weight of a transposed one has the channels in another dimension
            return (x[0],)
    return ()


def _find_image_size(convolution: Event, image: list[int], kernel: list[int]) -> tuple[int, ...]:
    """Return the size of the image that a convolution makes; nothing if the profile does not have its steps.

    For example, a kernel of 3 turns an image of 9 into (9 + 2 * 1 - 2 * (3 - 1) - 1) // 2 + 1 = 4, with a stride of 2,
    a padding of 1 and a dilation of 2.
    """
    written = convolution.args.get("Concrete Inputs")
    steps = [_read_numbers(text) for text in written[3:6]] if isinstance(written, list) else []
    if [len(numbers) for numbers in steps] != [len(image)] * 3 or 0 in steps[0]:
        return ()
    return tuple(
        (size + 2 * padding - dilation * (length - 1) - 1) // stride + 1
        for size, length, stride, padding, dilation in zip(image, kernel, *steps, strict=True)
    )


def _read_numbers(text: object) -> list[int]:
    """Return the numbers of a text such as ``[2, 2]``; none for any other text, such as a padding of ``same``."""
    if not isinstance(text, str) or not re.fullmatch(r"\[\d{1,9}(, \d{1,9})*\]", text, re.ASCII):
        return []
    return [int(number) for number in text[1:-1].split(",")]


def _read_input_sizes(event: Event) -> list[list[int]]:
    """Return the sizes of an operator's inputs; nothing for an input that is no tensor, such as a scalar."""
    dims: Any = event.args.get("Input Dims", event.args.get("Input dims"))  # the latter by older versions of torch
    if not isinstance(dims, list):
        return []
    return [dim if isinstance(dim, list) and all(isinstance(size, int) for size in dim) else [] for dim in dims]
