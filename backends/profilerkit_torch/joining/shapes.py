"""Whether the products of a profile have the shapes of the trace: else its times and our counts are of two things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from profilerkit import ProfileFileError

from .sequence import Match

__all__ = ["require_equal_shapes"]


def require_equal_shapes(matches: Iterable[Match]) -> None:
    """Raise `ProfileFileError` if a product has another shape in the profile than in the trace.

    Profiles have shapes if they were made with ``record_shapes=True``; those without are taken to be right.
    """
    for frame, operator in matches:
        dims = frame.event.args.get("Input Dims", frame.event.args.get("Input dims"))
        made = _read_output_shape(frame.event.name.rpartition("::")[2], dims) if isinstance(dims, list) else None
        if made is None or not operator.macs or not operator.outputs:
            continue
        traced = operator.outputs[0].shape[: len(made)]
        if tuple(made) != traced:
            layer = repr(operator.layer) if operator.layer else "the model itself"
            raise ProfileFileError(
                f"the profile has other shapes than the model here: {frame.event.name} in {layer} makes "
                f"{tuple(made)} in the profile, {traced} in the trace; give the inputs that were profiled "
                "(input_shape= and batch_size=, --input-shape and --batch-size), or the model that was"
            )


def _read_output_shape(name: str, dims: Sequence[Any]) -> list[int] | None:
    """Return the first sizes of what a product makes, by those of its inputs; None if they do not tell."""
    sizes = [dim if isinstance(dim, list) and all(isinstance(size, int) for size in dim) else [] for dim in dims]
    if name == "addmm" and len(sizes) > 2 and len(sizes[1]) == len(sizes[2]) == 2:
        return [sizes[1][0], sizes[2][1]]
    if len(sizes) < 2 or not sizes[0] or not sizes[1]:
        return None
    first, second = sizes[:2]
    if name == "mm" and len(first) == len(second) == 2:
        return [first[0], second[1]]
    if name == "bmm" and len(first) == len(second) == 3:
        return [first[0], first[1], second[2]]
    if name == "linear" and len(second) == 2:
        return [*first[:-1], second[0]]
    if name in ("conv1d", "conv2d", "conv3d") and len(first) == len(second):
        return [first[0], second[0]]
    if name == "convolution" and len(first) == len(second):
        return [first[0]]  # of a transposed convolution the weight has its channels elsewhere
    return None
