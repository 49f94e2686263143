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
from profilerkit.inputs import ModelInputs
from profilerkit.isolation.limits import parse_bytes
from profilerkit.piping.function import Keys, Need
from profilerkit.piping.input_source import find_batch_size
from profilerkit.piping.outcome import Noted
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import MemoryTimeline, ModelTrace

from .training import find_known_bytes, find_optimizer_bytes, find_step_peak

__all__ = ["ComputeLargestBatch", "ComputeLargestTrainingBatch", "LargestBatch", "LargestTrainingBatch"]

#: The part of a memory that a batch may take: kernels need workspaces, and allocators reserve blocks.
_USABLE = 0.9
#: The bytes alive after each operator are computed from these two batch sizes for all others ...
_SMALL, _LARGE = 2, 4
#: ... and at this one it is looked whether they grow so.
_CHECKED = 32
#: A larger batch is none that anybody looks for.
_MOST = 2**31


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

    def __call__(self, profiler: Profiler, model: Any, backend: Backend, fit_in: Any = None) -> Any:
        """Return the number of samples; 0 if not even one fits.

        Args:
            profiler: The model's profiler, which provides the inputs.
            model: The model.
            backend: The model's backend.
            fit_in: The memory: bytes, a text such as "8 GB", or the name of a device such as "t4". 10 % of it are left
                free, for the workspaces of kernels and the allocator.
        """
        if fit_in is None:
            return _UNASKED
        try:
            traces = _trace_sizes(profiler, model, backend, "trace")
        except InputError as error:
            return Unavailable(error_line(error))
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
        self, profiler: Profiler, model: Any, backend: Backend, fit_in: Any = None, optimizer: Any = None
    ) -> Any:
        """Return the number of samples; 0 if not even one fits.

        Args:
            profiler: The model's profiler, which provides the inputs.
            model: The model.
            backend: The model's backend.
            fit_in: The memory: bytes, a text such as "8 GB", or the name of a device such as "t4". 10 % of it are left
                free, for the workspaces of kernels and the allocator.
            optimizer: The optimizer whose state is part of the training memory, as of ``training_memory``.
        """
        if fit_in is None:
            return _UNASKED
        try:
            traces = _trace_sizes(profiler, model, backend, "training_trace")
        except InputError as error:
            return Unavailable(error_line(error))
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


def _trace_sizes(profiler: Profiler, model: Any, backend: Backend, key: str) -> _Traces:
    """Return the traces of the model; raises `InputError` if its inputs have no batch.

    They are those of clones: the profiler remembers what it has for its own inputs.
    """

    def trace(size: int) -> ModelTrace:
        twin = profiler.clone()
        inputs = ModelInputs.of(twin.compute_status("inputs", batch_size=size))
        if find_batch_size(inputs, backend, model) not in (None, size):
            raise InputError(
                f"no largest batch: the model takes {inputs!r}, its inputs for a batch of {size}, as another number of "
                "samples; give a callable that builds inputs from the batch size"
            )
        result: ModelTrace = twin.compute_status(key, batch_size=size)
        return result

    return _Traces(*map(trace, (_SMALL, _LARGE, _CHECKED)))


def _find_largest(
    traces: _Traces, find_peak: Callable[[ModelTrace], int], room: int, missing: tuple[str, ...] = ()
) -> Any:
    """Return the largest batch whose peak fits; an upper bound where not all bytes of the peak are known."""
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
    taken = scale_value(find_bytes(max(fitting, 1)), "B", Scale.IEC)
    note = (
        f"a batch of {max(fitting, 1):,} takes {taken} of {scale_value(room, 'B', Scale.IEC)}, of which 10 % stay free"
    )
    lacking = (*missing, *last.memory.missing)
    return Noted(Partial(fitting, lacking, Bounds(0, fitting)) if lacking else fitting, note)


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
