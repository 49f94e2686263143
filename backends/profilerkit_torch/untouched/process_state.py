"""The process around a model: what its forward pass may switch on or move, noted and put back."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils import deterministic

from profilerkit.process.restoring import for_each

from ..compat import ALL_GLOBAL_HOOKS, get_precision, set_precision, settings_of_c, top_saved_tensors_hooks
from .snapshots import refill

__all__ = ["flushes_denormal", "restorers_of_process"]

Setting = tuple[Callable[[], Any], Callable[[Any], Any]]


def restorers_of_process() -> tuple[list[Callable[[], Any]], Callable[[], None]]:
    """Note the process' state and return what puts it back: random numbers, torch's settings, hooks for all modules.

    The second puts back the settings alone that are not a thread's own. A forked child gets no more: the random
    generators have locks, which another thread may have held.
    """
    settings = _values()
    hooks = [(hooks_of_kind, dict(hooks_of_kind)) for hooks_of_kind in ALL_GLOBAL_HOOKS]
    saving = _top_saved_tensors_hooks()

    def restore_hooks() -> None:
        for_each(refill, hooks)
        while _top_saved_tensors_hooks() != saving and _top_saved_tensors_hooks() is not None:
            _pop_saved_tensors_hooks()

    steps = [
        *_random_numbers(),
        _streams_restorer(),
        lambda: for_each(_set_back, _find_changes(settings)),
        restore_hooks,
    ]
    return steps, lambda: for_each(_set_back, _find_changes(settings, len(_OF_THREAD)))


def _find_changes(before: list[Any], start: int = 0) -> list[tuple[Callable[[Any], Any], Any]]:
    """Return what sets each changed setting from an index on, with the value that it had."""
    pairs = zip(_SETTINGS[start:], _values()[start:], before[start:], strict=True)
    return [(setting[1], value) for setting, now, value in pairs if now != value and value is not _UNREADABLE]


def _random_numbers() -> Iterator[Callable[[], Any]]:
    python = random.getstate()
    yield lambda: random.setstate(python)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numbers = numpy.random.get_state()
        yield lambda: numpy.random.set_state(numbers)
    on_cpu = torch.get_rng_state()
    yield lambda: torch.set_rng_state(on_cpu)
    yield from _random_numbers_of_accelerators()


def _random_numbers_of_accelerators() -> Iterator[Callable[[], Any]]:
    for module in (torch.cuda, torch.xpu):
        if module.is_available() and module.is_initialized():
            yield partial(module.set_rng_state_all, module.get_rng_state_all())
    if torch.backends.mps.is_available():
        yield partial(torch.mps.set_rng_state, torch.mps.get_rng_state())


def _streams_restorer() -> Callable[[], None]:
    """Return what makes the current CUDA device, and the stream of each, current again."""
    was_used = torch.cuda.is_initialized()
    streams = _current_streams() if was_used else []
    device = torch.cuda.current_device() if was_used else 0

    def restore() -> None:
        if not torch.cuda.is_initialized():
            return
        before = streams or [torch.cuda.default_stream(index) for index in range(torch.cuda.device_count())]
        for stream, now in zip(before, _current_streams(), strict=True):
            if stream != now:
                torch.cuda.set_stream(stream)  # its device becomes the current one
        if torch.cuda.current_device() != device:
            torch.cuda.set_device(device)

    return restore


def _current_streams() -> list[Any]:
    return [torch.cuda.current_stream(index) for index in range(torch.cuda.device_count())]


def _values() -> list[Any]:
    """Return the values of all settings."""
    try:
        return [read() for read, _ in _SETTINGS]
    except RuntimeError:
        return [_value(read) for read, _ in _SETTINGS]


_UNREADABLE = object()


def _value(read: Callable[[], Any]) -> Any:
    """Return the value of a setting; a mark where torch cannot read it, since its old and new names were mixed."""
    try:
        return read()
    except RuntimeError:
        return _UNREADABLE


def _set_back(write: Callable[[Any], Any], value: Any) -> None:
    write(value)


def _pop_saved_tensors_hooks() -> None:
    """Take the top ones away, as the end of any block of them does."""
    torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value).__exit__()


def _top_saved_tensors_hooks() -> Any:
    return top_saved_tensors_hooks(True)


def _attribute(owner: Any, name: str) -> Setting:
    return partial(getattr, owner, name), partial(setattr, owner, name)


def _autocast(device: str) -> Iterator[Setting]:
    yield partial(torch.is_autocast_enabled, device), partial(torch.set_autocast_enabled, device)
    yield partial(torch.get_autocast_dtype, device), partial(torch.set_autocast_dtype, device)


def _precision(backend: str, operator: str) -> Iterator[Setting]:
    """Yield how the precision of float32 is read and set for some operators of a library, where torch has that."""
    if get_precision is not None and set_precision is not None:
        yield partial(get_precision, backend, operator), partial(set_precision, backend, operator)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _autocast_depth() -> int:
    """Return in how many blocks of autocast this thread is."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _set_autocast_depth(depth: int) -> None:
    while _autocast_depth() > depth:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()


_attention: Any = torch.backends.cuda
_TINY, _ONE = 5e-324, 1.0


def flushes_denormal() -> bool:
    """Return whether this thread takes the smallest numbers for zero: torch has no getter for it."""
    return _TINY * _ONE == 0


#: Settings that each thread has for itself.
_OF_THREAD: list[Setting] = [
    (flushes_denormal, torch.set_flush_denormal),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.autograd.is_multithreading_enabled, torch.autograd.set_multithreading_enabled),
    *(setting for device in ("cpu", "cuda") for setting in _autocast(device)),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (_autocast_depth, _set_autocast_depth),
]
_OF_PROCESS: list[Setting] = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (_deterministic, lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1])),
    _attribute(deterministic, "fill_uninitialized_memory"),
    (torch.is_warn_always_enabled, torch.set_warn_always),
    (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda value: torch.set_anomaly_enabled(*value),
    ),
    *settings_of_c(),
    _attribute(torch.backends.cudnn, "benchmark_limit"),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    *(
        setting
        for backend, operator in (
            ("generic", "all"),
            *(("cuda", operator) for operator in ("all", "matmul", "conv", "rnn")),
            *(("mkldnn", operator) for operator in ("all", "matmul", "conv", "rnn")),
        )
        for setting in _precision(backend, operator)
    ),
    (_attention.flash_sdp_enabled, _attention.enable_flash_sdp),
    (_attention.mem_efficient_sdp_enabled, _attention.enable_mem_efficient_sdp),
    (_attention.math_sdp_enabled, _attention.enable_math_sdp),
    (_attention.cudnn_sdp_enabled, _attention.enable_cudnn_sdp),
    *(_attribute(sys, name) for name in ("excepthook", "unraisablehook")),
    _attribute(warnings, "filters"),
    _attribute(threading, "excepthook"),
]
_SETTINGS = [*_OF_THREAD, *_OF_PROCESS]
