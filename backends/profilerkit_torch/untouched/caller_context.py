"""The modes that the caller has switched on around a profile, which would act on its tensors too.

Everything that profiles enters `apart`: it raises an error if torch itself is recording operators, and takes the
caller's modes away, so that the model's tensors are noted, replaced and put back as plain tensors. `as_caller` gives
the caller's function modes, such as a default device, back while the user's own code runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import torch

from profilerkit import TracingError
from profilerkit.process.restoring import restored

from ..compat.modes import disable_dispatch_modes, dispatch_modes, function_modes, note_mode_flags
from ..compat.recording import count_export_modes, find_compiler, find_transform_level, is_fx_tracing, is_making_graph
from ..compat.settings import read_default_device, set_default_device

__all__ = ["apart", "as_caller", "has_function_modes", "modes_as_they_are", "note_modes", "require_no_tracing"]


class _SetAside(threading.local):
    """The function modes that were taken away in this thread, innermost last."""

    def __init__(self) -> None:
        self.stacks: list[list[Any]] = []


_set_aside = _SetAside()


class apart:
    """Takes the caller's dispatch modes away in a ``with`` block, with ``functions`` the function modes too.

    Torch's inference mode is switched off as well. All are back at the end. Raises `TracingError` if torch is recording
    operators. It is cheap for a caller without modes, because each profile enters it many times.
    """

    def __init__(self, *, functions: bool = True) -> None:
        self._functions = functions
        self._switched_off: ExitStack | None = None

    def __enter__(self) -> None:
        """Switch off the caller's modes."""
        require_no_tracing()
        dispatch = dispatch_modes.count() or count_export_modes()
        in_functions = self._functions and function_modes.count()
        if not (dispatch or in_functions or torch.is_inference_mode_enabled()):
            return
        with ExitStack() as stack:
            stack.enter_context(restored())
            if dispatch:
                stack.enter_context(disable_dispatch_modes())
            if in_functions:
                stack.enter_context(_without_function_modes())
            if torch.is_inference_mode_enabled():  # its tensors could not be trained on
                stack.enter_context(torch.inference_mode(False))
            self._switched_off = stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Switch it on again."""
        if self._switched_off is not None:
            self._switched_off.__exit__(kind, error, traceback)


@contextmanager
def _without_function_modes() -> Iterator[None]:
    modes = function_modes.list()
    stacks = [*_set_aside.stacks]

    def restore() -> None:
        _set_aside.stacks[:] = stacks
        function_modes.set(modes)

    with restored(restore, in_child=False):
        _set_aside.stacks.append(modes)
        function_modes.set([])
        yield


def has_function_modes() -> bool:
    """Return whether `as_caller` has any function modes to give back."""
    return bool(_set_aside.stacks)


@contextmanager
def as_caller() -> Iterator[None]:
    """Give the caller's function modes back while the user's code runs, and take modes away that it leaves switched on.

    A default device "meta" is left out: it is for making models, and no model runs on it.
    """
    with modes_as_they_are():
        if _set_aside.stacks and not function_modes.count():
            for mode in _set_aside.stacks[-1]:
                if not _is_for_meta(mode):
                    function_modes.push(mode)
        yield


def _is_for_meta(mode: Any) -> bool:
    """Return whether a mode is the mode of the default device "meta"."""
    return type(mode).__name__ == "DeviceContext" and getattr(mode.device, "type", "") == "meta"


def note_modes() -> Callable[[], None]:
    """Note the modes and the device; return a function that restores exactly these."""
    dispatch, device = dispatch_modes.count(), read_default_device()
    functions = function_modes.list() if function_modes.count() else []
    restore_flags = note_mode_flags()

    def restore() -> None:
        if dispatch_modes.count() > dispatch:
            while dispatch_modes.count() > dispatch:
                dispatch_modes.pop()
            restore_flags()
        if functions or function_modes.count():
            function_modes.set(functions)
        if read_default_device() != device:
            set_default_device(device)

    return restore


def modes_as_they_are() -> restored:
    """Return a block at whose end exactly the modes are on that were on before it."""
    return restored(note_modes(), in_child=False)


# Contexts in which torch records or transforms operators: no model can be profiled inside -----------------------------


_MESSAGE = (
    "a model cannot be profiled inside {where}: torch records there what runs, the passes of profilerkit would become "
    "part of the recording, and the model would be run on tensors without values; profile it before or after, outside "
    "of {what}"
)


def require_no_tracing() -> None:
    """Raise `TracingError` if torch records or transforms operators instead of just running them."""
    if torch.compiler.is_compiling() and torch.compiler.is_exporting():
        where, what = "torch.export", "the exported forward"
    elif torch.compiler.is_compiling() or find_compiler():
        where, what = "a function that torch.compile compiles", "the compiled function"
    elif torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        where, what = "torch.jit.trace", "the traced function"
    elif is_fx_tracing() or is_making_graph():
        where, what = "torch.fx.symbolic_trace or make_fx", "the traced function"
    elif find_transform_level() is not None:
        where, what = "torch.func.vmap, grad or another transform of torch.func", "the transformed function"
    elif torch.cuda.is_initialized() and _is_capturing():
        where, what = "the capture of a CUDA graph", "the capture"
    else:
        return
    raise TracingError(_MESSAGE.format(where=where, what=what))


def _is_capturing() -> bool:
    """Return whether a CUDA graph is captured; not where a kernel has failed: this process can use the GPU no more."""
    try:
        return bool(torch.cuda.is_current_stream_capturing())
    except RuntimeError:
        return False
