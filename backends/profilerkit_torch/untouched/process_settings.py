"""The settings of torch and of Python that a forward pass may switch: how each is read and written, and put back."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils import deterministic

from profilerkit.process.restoring import call_each

from ..compat.settings import get_precision, list_settings, set_precision

__all__ = ["SettingsSnapshot", "flushes_denormal"]


class _Setting(NamedTuple):
    """How a setting is read and written."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]


class SettingsSnapshot:
    """The values of all settings."""

    def __init__(self) -> None:
        self._of_thread = _read_all(_OF_THREAD)
        self._of_process = _read_all(_OF_PROCESS)

    def restore(self) -> None:
        """Put back what has changed."""
        _restore([*self._of_thread, *self._of_process])

    def restore_of_process(self) -> None:
        """Put back what has changed of the settings that all threads share."""
        _restore(self._of_process)


#: The value of a setting that torch cannot read, since its old and new names were mixed.
_UNREADABLE = object()


def _read_all(settings: Iterable[_Setting]) -> list[tuple[_Setting, Any]]:
    return [(setting, _read(setting)) for setting in settings]


def _read(setting: _Setting) -> Any:
    try:
        return setting.read()
    except RuntimeError:
        return _UNREADABLE


def _restore(before: Iterable[tuple[_Setting, Any]]) -> None:
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
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _set_autocast_depth(depth: int) -> None:
    while _get_autocast_depth() > depth:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()


def _is_deterministic() -> tuple[bool, bool]:
    """Return whether torch refuses operators that are not deterministic, and whether it warns of them alone."""
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _detects_anomalies() -> tuple[bool, bool]:
    """Return whether autograd looks for errors, and whether for NaN too."""
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


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
)
#: Settings that all threads share.
_OF_PROCESS: tuple[_Setting, ...] = (
    _Setting(torch.get_default_dtype, torch.set_default_dtype),
    _Setting(torch.get_num_threads, torch.set_num_threads),
    _Setting(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    _Setting(_is_deterministic, lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1])),
    _make_attribute(deterministic, "fill_uninitialized_memory"),
    _Setting(torch.is_warn_always_enabled, torch.set_warn_always),
    _Setting(_detects_anomalies, lambda value: torch.set_anomaly_enabled(*value)),
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
