"""The largest batch that fits into a memory, in a forward pass and in a training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from profilerkit import Comparative, InputError, Metric, Partial, Profiler, ProfilerFunction, Unavailable
from profilerkit.arguments.checks import Check
from profilerkit.backend import Backend
from profilerkit.devices import device
from profilerkit.error_text import error_line
from profilerkit.isolation.limits import parse_bytes
from profilerkit.piping.function import Keys, Need
from profilerkit.piping.outcome import Noted
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.trace.bounds import UNKNOWN_ENDS, Bounds
from profilerkit.trace.completeness import TracePart, find_gaps
from profilerkit.trace.records import MemoryTimeline, ModelTrace

from .other_sizes import OtherSize
from .training import find_known_bytes, find_optimizer_bytes, find_step_peak

__all__ = ["ComputeLargestBatch", "ComputeLargestTrainingBatch", "LargestBatch", "LargestTrainingBatch"]

#: The part of a memory that a batch may take: kernels need workspaces, and allocators reserve blocks.
_USABLE = 0.9
#: The bytes alive after each operator are computed from these two batch sizes for all others ...
_SMALL, _LARGE = 2, 4
#: ... and at this one it is looked whether they grow so.
_CHECKED = 32
#: More samples than any memory holds, if they take any of it.
_MOST = 2**64


def _read_room(value: Any) -> int:
    """Return a memory in bytes: a number of bytes, a text such as "8 GB", or the name of a device."""
    size = parse_bytes(int(value) if isinstance(value, float) and value.is_integer() else value)  # 8e9 is one too
    room = device(value).memory if size is None else size
    if room is None or room < 1:
        raise ValueError
    return int(room)


#: A memory that a batch is to fit in.
ROOM = Check(
    "a memory: a number of bytes, a text such as '8 GB' or '24 GiB', or a device such as 't4'", _read_room
).or_none()
_UNASKED = Unavailable("it depends on the memory: give that as fit_in='8 GB', or the name of a device: fit_in='t4'")


class LargestBatch(Metric):
    """The most samples of a forward pass that fit into a memory.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["largest_batch"], fit_in=10_000)["largest_batch"]
    223
    """

    NAME: str = "largest_batch"
    COMPARATIVE: Comparative = Comparative.DIV
    FORMULA: str = "the most samples whose memory_footprint is at most 90 % of fit_in"
    OMISSIONS: str = "as memory_footprint"
    SOURCE: str = "profilerkit's own definition; computed from the bytes alive after each operator at two batch sizes"


class LargestTrainingBatch(Metric):
    """The most samples of a training step that fit into a memory.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["largest_training_batch"], fit_in=10_000)
    >>> report["largest_training_batch"] < 223
    True
    """

    NAME: str = "largest_training_batch"
    COMPARATIVE: Comparative = Comparative.DIV
    FORMULA: str = "the most samples whose training_memory is at most 90 % of fit_in"
    OMISSIONS: str = "as training_memory"
    SOURCE: str = "profilerkit's own definition; computed from the bytes alive after each operator at two batch sizes"


class ComputeLargestBatch(ProfilerFunction):
    """Finds the largest batch of a forward pass. Computed if requested by name, or if ``fit_in`` is given."""

    KEYS: ClassVar[Keys] = (LargestBatch,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"fit_in": ROOM}
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ("fit_in",)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True
    NEED: ClassVar[Need | None] = Need.MODEL

    def __call__(
        self,
        profiler: Profiler,
        fit_in: Any = None,
        split: str | None = None,
        call: Callable[..., Any] | None = None,
    ) -> Any:
        """Return the number of samples; 0 if not even one fits.

        Args:
            profiler: The model's profiler, which provides the inputs.
            fit_in: The memory: bytes, a text such as "8 GB", or the name of a device such as "t4". 10 % of it are left
                free, for the workspaces of kernels and the allocator.
            split: The data split that inputs are read from, if they come from data.
            call: The function that is profiled instead of the model's call, if one is.
        """
        if fit_in is None:
            return _UNASKED
        traces = _trace_sizes("trace", profiler, split=split, call=call)
        return _find_largest(traces, lambda trace: trace.memory.peak_bytes(), ROOM("fit_in", fit_in))


class ComputeLargestTrainingBatch(ProfilerFunction):
    """Finds the largest batch of a training step. Computed if requested by name, or if ``fit_in`` is given."""

    KEYS: ClassVar[Keys] = (LargestTrainingBatch,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"fit_in": ROOM}
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ("fit_in",)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True
    NEED: ClassVar[Need | None] = Need.MODEL

    def __call__(
        self,
        profiler: Profiler,
        model: Any,
        backend: Backend,
        fit_in: Any = None,
        optimizer: Any = None,
        split: str | None = None,
        call: Callable[..., Any] | None = None,
    ) -> Any:
        """Return the number of samples; 0 if not even one fits.

        Args:
            profiler: The model's profiler, which provides the inputs.
            model: The model.
            backend: The model's backend.
            fit_in: That of `ComputeLargestBatch`.
            optimizer: The optimizer whose state is part of the training memory, as of ``training_memory``.
            split: That of `ComputeLargestBatch`.
            call: That of `ComputeLargestBatch`.
        """
        if fit_in is None:
            return _UNASKED
        traces = _trace_sizes("training_trace", profiler, split=split, call=call)
        if isinstance(traces, Unavailable):
            return traces
        optimizer_size = find_optimizer_bytes(backend, model, traces.checked, optimizer)
        step_bytes = find_known_bytes(traces.checked, optimizer_size)
        return _find_largest(
            traces,
            lambda trace: find_step_peak(trace, step_bytes.optimizer),
            ROOM("fit_in", fit_in),
            step_bytes.missing,
        )


class _Traces(NamedTuple):
    """The traces of a model at the batch sizes `_SMALL`, `_LARGE` and `_CHECKED`."""

    small: ModelTrace
    large: ModelTrace
    checked: ModelTrace


def _trace_sizes(key: str, profiler: Profiler, **arguments: Any) -> _Traces | Unavailable:
    """Return the traces of the model; or why there are none: its inputs may have no batch.

    ``arguments`` are the caller's arguments that decide the inputs; see `OtherSize.make`.
    """
    traces: list[ModelTrace] = []
    for size in (_SMALL, _LARGE, _CHECKED):
        model = OtherSize.make(profiler, size, **arguments)
        try:
            model.make_inputs("largest batch")
            traced = model.compute(key)
        except InputError as error:
            return Unavailable(error_line(error))
        if traced.value is None:  # as of a backend that traces no training steps
            return Unavailable("; ".join(traced.missing), traced.is_applicable)
        traces.append(traced.value)
    return _Traces(*traces)


def _find_largest(
    traces: _Traces | Unavailable, find_peak: Callable[[ModelTrace], int], room: int, missing: tuple[str, ...] = ()
) -> Any:
    """Return the largest batch whose peak fits; partial if the peak is not known completely.

    ``missing`` names the unknown bytes of the peak beside the unknown bytes of the trace.
    """
    if isinstance(traces, Unavailable):
        return traces
    last = traces.checked
    if last.failure is not None:
        return Unavailable(f"the model could not be traced: {error_line(last.failure)}")

    def find_bytes(batch: int) -> int:
        return find_peak(replace(last, memory=_extrapolate(traces.small.memory, traces.large.memory, batch)))

    lengths = {len(trace.memory.live_bytes) for trace in traces}
    if len(lengths) > 1 or find_bytes(_CHECKED) != find_peak(last):
        return Unavailable("the memory does not grow evenly with the batch: profile the model with several batch sizes")
    usable = int(_USABLE * room)
    if find_bytes(_MOST) <= usable:
        return Unavailable("the memory does not grow with the batch: the first dimension of the inputs is no batch")
    fitting = _search(lambda batch: find_bytes(batch) <= usable)
    shown = max(fitting, 1)
    taken, whole = (scale_value(size, "B", Scale.IEC) for size in (find_bytes(shown), room))
    note = f"a batch of {shown:,} takes {taken} of {whole}, of which 10 % stay free"
    return Noted(_qualify_batch(fitting, last, missing), note)


def _qualify_batch(fitting: int, trace: ModelTrace, missing: tuple[str, ...]) -> Any:
    """Return the largest batch: an upper bound if bytes are not known, and no bound if other things are not."""
    lacking = (*missing, *find_gaps(trace, TracePart.MEMORY).missing)
    if not lacking:
        return fitting
    is_upper = len(lacking) == len(missing) + len(trace.memory.missing)  # only that some bytes are not known
    return Partial(fitting, lacking, Bounds(0, fitting) if is_upper else UNKNOWN_ENDS)


def _search(fits: Callable[[int], bool]) -> int:
    """Return the largest batch that fits, below the most; 0 if none does."""
    fitting, too_large = 0, _MOST
    while too_large - fitting > 1:
        batch = (fitting + too_large) // 2
        if fits(batch):
            fitting = batch
        else:
            too_large = batch
    return fitting


def _extrapolate(small: MemoryTimeline, large: MemoryTimeline, batch: int) -> MemoryTimeline:
    """Return the bytes alive at a batch size: each grows with a sample as it does between the two traces."""

    def grow(low: int, high: int) -> int:
        return low + (high - low) * (batch - _SMALL) // (_LARGE - _SMALL)

    return replace(
        large,
        input_bytes=grow(small.input_bytes, large.input_bytes),
        live_bytes=tuple(map(grow, small.live_bytes, large.live_bytes)),
        left_bytes=None if large.left_bytes is None else grow(small.left_bytes or 0, large.left_bytes),
    )
