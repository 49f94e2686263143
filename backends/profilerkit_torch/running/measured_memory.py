"""The memory that torch's allocators have given out: at its peak in a forward pass, and in the phases of a step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.trace.observed_runs import MeasuredPeak

from ..model.storages import count_stored_bytes, has_storage
from ..model.weights import list_viewed_bytes
from ..trace.live_bytes import LiveBytes
from ..untouched.caller_context import apart
from ..untouched.mutable_inputs import list_input_tensors
from .devices import memory_reader, resolve_device
from .profiler_sessions import run_profiler
from .runs import prepare_run

__all__ = ["PhaseMemory", "measure_accelerator_peak", "measure_cpu_peak", "measure_peak"]


def measure_peak(model: nn.Module, inputs: ModelInputs, device: DeviceLike) -> MeasuredPeak:
    """Return the most bytes allocated at once in one pass, with the inputs, beyond the bytes allocated before it.

    The third pass of the model is measured: the earlier ones choose kernels and compile. On an accelerator the peak
    counter, which belongs to the process, is reset.
    """
    with apart():
        target = resolve_device(model, device)
        measure = measure_cpu_peak if target.type == "cpu" else measure_accelerator_peak
        input_bytes = _count_input_bytes(inputs, target)  # before a pass makes a cache among them grow
        with prepare_run(model, inputs, RunOptions(device=device)) as call:
            call()
            call.restore()  # frees what the passes before have left in a cache
            return MeasuredPeak(input_bytes + measure(call, target), call.runs)


def _count_input_bytes(inputs: ModelInputs, target: torch.device) -> int:
    """Return the bytes of the inputs on a device.

    Inputs that are there already have equal elements of a storage once. Others are copied there in full: of a sparse
    tensor the stored parts.
    """
    there: list[torch.Tensor] = []
    moved: dict[int, int] = {}  # by the id of the tensor: it may be given twice
    for tensor in list_input_tensors(inputs):
        if tensor.device.type == target.type and has_storage(tensor):
            there.append(tensor)
        else:
            moved[id(tensor)] = count_stored_bytes(tensor)
    live = LiveBytes()
    for part, size in list_viewed_bytes(there):
        live.add(part, size)
    return live.total + sum(moved.values())


def measure_cpu_peak(call: Callable[[], Any], _: torch.device) -> int:
    """Return the most bytes that a call holds at once, by the profiler's events of memory allocated and freed."""
    with run_profiler([ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    results: Any = profiler.profiler
    events = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())  # they are listed by thread; the sort keeps the order of equals
    sizes: list[int] = [event.nbytes() for event in events]  # negative if memory is freed
    return max(itertools.accumulate(sizes, initial=0))


def measure_accelerator_peak(call: Callable[[], Any], device: torch.device) -> int:
    """Return by how many bytes a call raises the memory given out by the device's allocator; its peak starts anew."""
    memory = memory_reader(device)
    if memory is None:
        raise NotOfferedError(f"torch does not report the peak of the memory on {device}")
    try:
        memory.reset_peak_memory_stats(device)
        before = memory.memory_allocated(device)
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        raise NotOfferedError(f"torch does not report the peak of the memory on {device}: {error}") from error
    call()
    return int(memory.max_memory_allocated(device) - before)


class PhaseMemory:
    """The bytes allocated at the end of each phase, on all devices that report them together; nothing if none does.

    An allocator only knows the highest peak so far, and a reset would change the user's process: so a phase has a peak
    only if it is higher than all earlier ones. The peak of several devices is the sum of their own peaks.
    """

    def __init__(self, devices: Iterable[torch.device] = ()) -> None:
        #: Bytes, by the name of the phase with ``_end`` or ``_peak`` behind it.
        self.figures: dict[str, int] = {}
        readers = [(memory_reader(device), device) for device in devices]
        self._readers = [(reader, device) for reader, device in readers if reader is not None]
        self._peak = self._add_up("max_memory_allocated")

    @property
    def is_told(self) -> bool:
        """Whether a device reports its memory."""
        return bool(self._readers)

    def note(self, phase: str) -> None:
        """Note the bytes allocated at the end of a phase, and its peak."""
        if not self._readers:
            return
        self.figures[f"{phase}_end"] = self._add_up("memory_allocated")
        peak = self._add_up("max_memory_allocated")
        if peak > self._peak:
            self.figures[f"{phase}_peak"] = self._peak = peak

    def _add_up(self, figure: str) -> int:
        """Return the bytes of all devices by a function of the allocators."""
        return sum(int(getattr(reader, figure)(device)) for reader, device in self._readers)
