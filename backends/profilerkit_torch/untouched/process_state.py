"""The process around a model: random numbers, CUDA's streams, hooks for all modules, settings of torch and Python."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils import deterministic

from profilerkit.process.containers import refill
from profilerkit.process.restoring import Step, call_each, for_each

from ..compat.autograd import top_saved_tensors_hooks
from ..compat.modules import ALL_GLOBAL_HOOKS
from ..compat.settings import get_precision, list_settings, set_precision

__all__ = ["flushes_denormal", "note_process"]


def note_process() -> tuple[list[Step], Step]:
    """Note the state of the process; return the steps that put it back, and the one for a forked child.

    A child gets the settings that threads share alone: the random generators have locks, which another thread may have
    held.
    """
    of_thread, of_process = _note_settings(_OF_THREAD), _note_settings(_OF_PROCESS)
    steps: list[Step] = [
        partial(random.setstate, random.getstate()),
        _note_numpy(),
        partial(torch.set_rng_state, torch.get_rng_state()),
        *_note_accelerators(),
        _note_streams(),
        partial(_restore_settings, [*of_thread, *of_process]),
        _note_hooks(),
    ]
    return steps, partial(_restore_settings, of_process)


def _note_numpy() -> Step:
    """Note the state of numpy's random numbers, and return a function that restores it; a new state if it was unused.

    numpy imports its generators at their first use: that takes a while, and most models need none.
    """
    generators = sys.modules.get("numpy.random")
    numbers = None if generators is None else generators.get_state(legacy=False)

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
    """Note the current CUDA device and the current stream of each, and return a function that restores them."""
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
    """Note the hooks for all modules and optimizers, and for saved tensors; return a function that restores them."""
    hooks = [(hooks_of_kind, dict(hooks_of_kind)) for hooks_of_kind in ALL_GLOBAL_HOOKS]
    read_top = partial(top_saved_tensors_hooks, True)  # also while torch records operators
    saving = read_top()

    def restore() -> None:
        for_each(refill, hooks)
        while read_top() != saving and read_top() is not None:  # the end of any block of them takes the top ones away
            torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value).__exit__()

    return restore


# Settings: how each is read and written, and put back -----------------------------------------------------------------


class _Setting(NamedTuple):
    """How a setting is read and written."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]


#: The value of a setting that cannot be read: torch's old and new names of it were mixed, or numpy is not imported.
_UNREADABLE = object()


def _read(setting: _Setting) -> Any:
    try:
        return setting.read()
    except RuntimeError:
        return _UNREADABLE


def _note_settings(settings: Iterable[_Setting]) -> list[tuple[_Setting, Any]]:
    return [(setting, _read(setting)) for setting in settings]


def _restore_settings(before: Iterable[tuple[_Setting, Any]]) -> None:
    """Write the values of settings that have others now; all are read first, since some are names of one setting."""
    changed = [(setting, value) for setting, value in before if value is not _UNREADABLE and _read(setting) != value]
    call_each(partial(setting.write, value) for setting, value in changed)


# How some are read and written ----------------------------------------------------------------------------------------


def _make_attribute(owner: Any, name: str) -> _Setting:
    return _Setting(partial(getattr, owner, name), partial(setattr, owner, name))


#: The smallest positive number, and a factor: Python would multiply two literals when it compiles them.
_TINY, _ONE = 5e-324, 1.0


def flushes_denormal() -> bool:
    """Return whether this thread takes the smallest numbers for zero: torch has no getter for it."""
    return _TINY * _ONE == 0


def _make_autocast(device: str) -> Iterator[_Setting]:
    """Yield whether a device casts automatically, and to what dtype."""
    yield _Setting(partial(torch.is_autocast_enabled, device), partial(torch.set_autocast_enabled, device))
    yield _Setting(partial(torch.get_autocast_dtype, device), partial(torch.set_autocast_dtype, device))


def _get_autocast_depth() -> int:
    """Return in how many blocks of autocast this thread is."""
    try:
        torch.autocast_increment_nesting()
    finally:  # also if another thread raises an error here
        depth = torch.autocast_decrement_nesting()
    return depth


def _set_autocast_depth(depth: int) -> None:
    while _get_autocast_depth() > depth:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()


def _make_precisions() -> Iterator[_Setting]:
    """Yield the precision of float32 for operators of each library, where torch has that."""
    if get_precision is None or set_precision is None:
        return
    operators = [("generic", "all")]
    operators += [
        (library, operator) for library in ("cuda", "mkldnn") for operator in ("all", "matmul", "conv", "rnn")
    ]
    for library, operator in operators:
        yield _Setting(partial(get_precision, library, operator), partial(set_precision, library, operator))


def _make_numpy(name: str, write: Callable[[Any, Any], Any]) -> _Setting:
    """Return a setting of numpy's, which ``write(numpy, value)`` sets; not read where numpy is not imported."""

    def read() -> Any:
        numpy = sys.modules.get("numpy")
        return _UNREADABLE if numpy is None else getattr(numpy, name)()

    return _Setting(read, lambda value: write(sys.modules["numpy"], value))


# The settings ---------------------------------------------------------------------------------------------------------

_cuda: Any = torch.backends.cuda

#: Settings that each thread has for itself.
_OF_THREAD: tuple[_Setting, ...] = (
    _Setting(flushes_denormal, torch.set_flush_denormal),
    _Setting(torch.is_grad_enabled, torch.set_grad_enabled),
    _Setting(torch.autograd.is_multithreading_enabled, torch.autograd.set_multithreading_enabled),
    *_make_autocast("cpu"),
    *_make_autocast("cuda"),
    _Setting(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    _Setting(_get_autocast_depth, _set_autocast_depth),
    _make_numpy("geterr", lambda numpy, how: numpy.seterr(**how)),
    _make_numpy("geterrcall", lambda numpy, function: numpy.seterrcall(function)),
    _make_numpy("get_printoptions", lambda numpy, options: numpy.set_printoptions(**options)),
)
#: Settings that all threads share.
_OF_PROCESS: tuple[_Setting, ...] = (
    _Setting(torch.get_default_dtype, torch.set_default_dtype),
    _Setting(torch.get_num_threads, torch.set_num_threads),
    _Setting(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    _Setting(
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
    ),
    _make_attribute(deterministic, "fill_uninitialized_memory"),
    _Setting(torch.is_warn_always_enabled, torch.set_warn_always),
    _Setting(
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda value: torch.set_anomaly_enabled(*value),
    ),
    *(_Setting(read, write) for read, write in list_settings()),
    _make_attribute(torch.backends.cudnn, "benchmark_limit"),
    _Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    *_make_precisions(),
    _Setting(_cuda.flash_sdp_enabled, _cuda.enable_flash_sdp),
    _Setting(_cuda.mem_efficient_sdp_enabled, _cuda.enable_mem_efficient_sdp),
    _Setting(_cuda.math_sdp_enabled, _cuda.enable_math_sdp),
    _Setting(_cuda.cudnn_sdp_enabled, _cuda.enable_cudnn_sdp),
    _make_attribute(sys, "excepthook"),
    _make_attribute(sys, "unraisablehook"),
    _make_attribute(warnings, "filters"),
    _make_attribute(threading, "excepthook"),
)
