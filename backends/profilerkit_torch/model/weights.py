"""The weights of a layer as records: their numbers, their bytes, and which tensors have the same bytes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from msgspec import Struct
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from profilerkit.trace.records import WeightRecord

from ..compat.tensors import find_storage, storage_address
from ..costs.shapes import replace_by_shapes
from .storages import count_numbers, count_stored_bytes
from .tensors import PLAIN_TYPES, list_wrapped

__all__ = ["Elements", "count_shared_bytes", "find_spans", "identify_weight", "list_viewed_bytes", "weight_record"]

#: Dtypes of which a plain tensor's elements are the numbers that it stands for: name and bytes of each.
_ORDINARY = {
    dtype: (str(dtype).removeprefix("torch."), dtype.itemsize)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.bool)
}


def weight_record(
    name: str,
    tensor: torch.Tensor,
    identities: dict[Any, int],
    *,
    persistent: bool = True,
    key: Any = None,
    count: int | None = None,
) -> WeightRecord:
    """Return the record of a weight.

    ``key`` is the identity of one that is no tensor of the module's own; ``count`` how many numbers it stands for,
    where the tensor alone does not determine it.
    """
    ordinary = _ORDINARY.get(tensor.dtype)
    if ordinary is None or type(tensor) not in PLAIN_TYPES or tensor.layout is not torch.strided or tensor.is_nested:
        numbers, nbytes, dtype, shape = _read_packed(tensor)
    else:  # nearly always
        dtype, size = ordinary
        numbers, nbytes, shape = tensor.numel(), tensor.numel() * size, tensor.shape
    return WeightRecord(
        name,
        identities.setdefault(key or identify_weight(tensor), len(identities)),
        numbers if count is None else count,
        nbytes,
        dtype,
        tensor.requires_grad and key is None,
        persistent,
        tuple(shape),
    )


def _read_packed(tensor: torch.Tensor) -> tuple[int, int, str, Sequence[int]]:
    """Return how many numbers a tensor stands for, the bytes that they are stored in, their dtype, and its shape."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if isinstance(tensor, UninitializedTensorMixin):
        return 0, 0, dtype, ()
    shape = replace_by_shapes(tensor) if tensor.is_nested else tensor.shape
    return count_numbers(tensor), count_stored_bytes(tensor), dtype, shape


class Elements(Struct, frozen=True):
    """Which elements of a storage a weight is, in whatever order: tied weights have equal ones."""

    storage: int  #: the address of the storage
    offset: int  #: the first element
    spans: tuple[tuple[int, int], ...]  #: which elements after it, as `find_spans` returns them
    size: int  #: the bytes of an element

    @property
    def run(self) -> range:
        """The bytes from its first to its last element."""
        last = self.offset + sum(stride * (length - 1) for stride, length in self.spans)
        return range(self.offset * self.size, (last + 1) * self.size)


def identify_weight(tensor: torch.Tensor) -> Elements | int:
    """Return a key that two parameters share if they are tied: their elements, or the ``id`` of the tensor."""
    if isinstance(tensor, UninitializedTensorMixin) or not tensor.numel():
        return id(tensor)
    try:
        storage = storage_address(tensor.untyped_storage())
    except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
        return id(tensor)
    spans = ((1, tensor.numel()),) if tensor.is_contiguous() else find_spans(tensor)
    return Elements(storage, int(tensor.storage_offset()), spans, tensor.element_size())


def find_spans(tensor: torch.Tensor) -> tuple[tuple[int, int], ...]:
    """Return which elements after the first are a tensor's, in whatever order: its own transpose has the same.

    They are runs of elements, each as (stride, number of elements); a dimension that goes on where the one before it
    ends lengthens its run.
    """
    spans: list[tuple[int, int]] = []
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        last_stride, last_size = spans[-1] if spans else (0, 0)
        if spans and last_stride * last_size == stride:
            spans[-1] = (last_stride, last_size * size)
        elif size != 1:
            spans.append((stride, size))
    return tuple(spans)


def count_shared_bytes(identities: Iterable[Any]) -> dict[Any, int]:
    """Return how many bytes of each weight also belong to weights before it, of which it is a view.

    A view with gaps, such as a column of a matrix, must lie entirely in one weight; otherwise it counts in full.
    """
    weights = [identity for identity in identities if isinstance(identity, Elements)]
    views = Counter([weight.storage for weight in weights])
    if len(views) == len(weights):  # as in nearly all models
        return {}
    covered: defaultdict[int, list[range]] = defaultdict(list)  # the bytes of a storage, in runs that do not touch
    shared: dict[Any, int] = {}
    for weight in weights:
        if views[weight.storage] > 1:
            runs, run = covered[weight.storage], weight.run
            nbytes = math.prod(length for _, length in weight.spans) * weight.size
            if nbytes == len(run):
                shared[weight] = _cover(runs, run)
            elif any(run.start in other and run[-1] in other for other in runs):
                shared[weight] = nbytes
    return shared


def _cover(runs: list[range], run: range) -> int:
    """Add a run of bytes to other runs, joined with runs that it touches; return how much of it they contained."""
    touched = [other for other in runs if other.start <= run.stop and run.start <= other.stop]
    runs[:] = [other for other in runs if other not in touched]
    runs.append(range(min(part.start for part in (run, *touched)), max(part.stop for part in (run, *touched))))
    return sum(min(other.stop, run.stop) - max(other.start, run.start) for other in touched)


def list_viewed_bytes(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield a tensor of each storage with the sum of the bytes of the tensors in it.

    Tensors of the same elements count once, such as a tensor and its transpose, and an expanded tensor only with what
    is stored. Tensors that overlap in part count in full: the sum may be more than the bytes of the storage, which
    `LiveBytes.add` does not exceed.
    """
    shown: dict[Any, dict[Any, int]] = {}
    first: dict[Any, torch.Tensor] = {}
    for tensor in tensors:
        for part in list_wrapped(tensor) or [tensor]:
            size = part.element_size()
            if part.is_nested or part.layout is not torch.strided:
                yield part, part.numel() * size
                continue
            storage = storage_address(find_storage(part))
            spans = find_spans(part)
            elements = math.prod(length for stride, length in spans if stride)
            shown.setdefault(storage, {})[part.storage_offset() * size, spans, size] = elements * size
            first.setdefault(storage, part)
    for storage, views in shown.items():
        yield first[storage], sum(views.values())
