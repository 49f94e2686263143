"""The process around a model, beside its settings: random numbers, CUDA's streams, and hooks for all modules."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from profilerkit.process.restoring import Step, for_each

from ..compat.autograd import top_saved_tensors_hooks
from ..compat.modules import ALL_GLOBAL_HOOKS
from .process_settings import SettingsSnapshot
from .snapshots import refill

__all__ = ["note_process"]


def note_process(settings: SettingsSnapshot) -> list[Step]:
    """Note the state of the process, and return the steps that put it back, the settings with it.

    A forked child gets the settings alone: the random generators have locks, which another thread may have held.
    """
    return [*_note_random_numbers(), _note_streams(), settings.restore, _note_hooks()]


def _note_random_numbers() -> Iterator[Step]:
    python = random.getstate()
    yield lambda: random.setstate(python)
    yield _note_numpy()
    on_cpu = torch.get_rng_state()
    yield lambda: torch.set_rng_state(on_cpu)
    yield from _note_accelerators()


def _note_numpy() -> Step:
    """Note numpy's random numbers, and return what puts them back; they are drawn anew where nobody had used them.

    numpy imports its generators when they are asked for: that takes a while, and most models need none.
    """
    generators = sys.modules.get("numpy.random")
    numbers = None if generators is None else generators.get_state()

    def restore() -> None:
        if generators is not None:
            generators.set_state(numbers)
        elif "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()

    return restore


def _note_accelerators() -> Iterator[Step]:
    for module in (torch.cuda, torch.xpu):
        if module.is_available() and module.is_initialized():
            yield partial(module.set_rng_state_all, module.get_rng_state_all())
    if torch.backends.mps.is_available():
        yield partial(torch.mps.set_rng_state, torch.mps.get_rng_state())


def _note_streams() -> Step:
    """Note the current CUDA device and the current stream of each, and return what makes them current again."""
    was_used = torch.cuda.is_initialized()
    streams = _list_current_streams() if was_used else []
    device = torch.cuda.current_device() if was_used else 0

    def restore() -> None:
        if not torch.cuda.is_initialized():
            return
        before = streams or [torch.cuda.default_stream(index) for index in range(torch.cuda.device_count())]
        for stream, now in zip(before, _list_current_streams(), strict=True):
            if stream != now:
                torch.cuda.set_stream(stream)  # its device becomes the current one
        if torch.cuda.current_device() != device:
            torch.cuda.set_device(device)

    return restore


def _list_current_streams() -> list[Any]:
    return [torch.cuda.current_stream(index) for index in range(torch.cuda.device_count())]


def _note_hooks() -> Step:
    """Note the hooks for all modules and optimizers, and for saved tensors; return what gives torch these back."""
    hooks = [(hooks_of_kind, dict(hooks_of_kind)) for hooks_of_kind in ALL_GLOBAL_HOOKS]
    read_top = partial(top_saved_tensors_hooks, True)  # also where torch records what runs
    saving = read_top()

    def restore() -> None:
        for_each(refill, hooks)
        while read_top() != saving and read_top() is not None:
            _pop_saved_tensors_hooks()

    return restore


def _pop_saved_tensors_hooks() -> None:
    """Take the top ones away, as the end of any block of them does."""
    torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value).__exit__()
