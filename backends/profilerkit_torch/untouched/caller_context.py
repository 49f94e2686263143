"""What the caller has switched on around a profile: modes, which would act on its tensors too, and recordings.

`apart` is entered by everything that profiles: it refuses where torch itself records what runs, and takes
the caller's modes away, so that the model's tensors are noted, replaced and put back as plain ones. `as_caller` gives
the caller's function modes back for as long as the user's own code runs: a default device is one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import torch
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _device, _python_dispatch
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _disable_current_modes

from profilerkit import TracingError
from profilerkit.process.restoring import restored

from ..compat import is_fx_tracing

__all__ = ["apart", "as_caller", "has_function_modes", "modes_as_they_are", "require_no_tracing", "restorer_of_modes"]

_function_modes: Callable[[], int] = torch._C._len_torch_function_stack
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_pop_dispatch_mode: Callable[[], Any] = _python_dispatch._pop_mode
#: Torch's notes of whether a dispatch mode is active, which the exit of a mode puts back; some releases have fewer.
_MODE_FLAGS = tuple(
    name
    for name in (
        "_is_in_torch_dispatch_mode",
        "_is_in_non_infra_torch_dispatch_mode",
        "_is_in_any_mode_without_ignore_compile_internals",
    )
    if hasattr(_python_dispatch, name)
)
_global_device: Any = torch._GLOBAL_DEVICE_CONTEXT
_compiler: Callable[[], Any] = torch._C._dynamo.eval_frame.get_eval_frame_callback
_MESSAGE = (
    "a model cannot be profiled inside {where}: torch records there what runs, the passes of profilerkit would become "
    "part of the recording, and the model would be run on tensors without values; profile it before or after, outside "
    "of {what}"
)


def require_no_tracing() -> None:
    """Raise `TracingError` where torch records or transforms what runs, instead of just running it."""
    if torch.compiler.is_compiling() and torch.compiler.is_exporting():
        names = ("torch.export", "the exported forward")
    elif torch.compiler.is_compiling() or _compiler():
        names = ("a function that torch.compile compiles", "the compiled function")
    elif torch._C._get_tracing_state() is not None:
        names = ("torch.jit.trace", "the traced function")
    elif is_fx_tracing() or torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY):
        names = ("torch.fx.symbolic_trace or make_fx", "the traced function")
    elif torch._C._functorch.peek_interpreter_stack() is not None:
        names = ("torch.func.vmap, grad or another transform of torch.func", "the transformed function")
    elif torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        names = ("the capture of a CUDA graph", "the capture")
    else:
        return
    raise TracingError(_MESSAGE.format(where=names[0], what=names[1]))


class _SetAside(threading.local):
    """The function modes that were taken away in this thread, innermost last."""

    def __init__(self) -> None:
        self.stacks: list[list[Any]] = []


_set_aside = _SetAside()


class apart:
    """Takes the caller's dispatch modes away in a ``with`` block, with ``functions`` the function modes too.

    Torch's inference mode is switched off as well. At the end all are back. Raises `TracingError` where torch records
    what runs. Most callers have switched nothing on: for them it costs little, as each profile enters it many times.
    """

    def __init__(self, *, functions: bool = True) -> None:
        self._functions = functions
        self._switched_off: ExitStack | None = None

    def __enter__(self) -> None:
        """Switch off what the caller has switched on."""
        require_no_tracing()
        dispatch = _dispatch_modes() or _len_torch_dispatch_stack_pre_dispatch()
        in_functions = self._functions and _function_modes()
        if not (dispatch or in_functions or torch.is_inference_mode_enabled()):
            return
        with ExitStack() as stack:
            stack.enter_context(restored())
            if dispatch:
                stack.enter_context(_disable_current_modes())
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
    modes = _get_current_function_mode_stack()
    stacks = [*_set_aside.stacks]

    def restore() -> None:
        _set_aside.stacks[:] = stacks
        for _ in range(_function_modes()):
            _pop_mode()
        for mode in modes:
            _push_mode(mode)

    with restored(restore, in_child=False):
        _set_aside.stacks.append([*reversed(modes)])
        for _ in modes:
            _pop_mode()
        yield


def has_function_modes() -> bool:
    """Return whether `as_caller` has any function modes to give back."""
    return bool(_set_aside.stacks)


@contextmanager
def as_caller() -> Iterator[None]:
    """Give the caller's function modes back while code of the user's runs, and take away what that leaves switched on.

    A default device "meta" is left out: it is for making models, and no model runs on it.
    """
    with modes_as_they_are():
        if not _function_modes():
            for mode in reversed(_set_aside.stacks[-1] if _set_aside.stacks else ()):
                if not (isinstance(mode, DeviceContext) and mode.device.type == "meta"):
                    _push_mode(mode)
        yield


def restorer_of_modes() -> Callable[[], None]:
    """Return what takes away modes that are left switched on, and puts the function modes and the device back."""
    dispatch, device = _dispatch_modes(), _current_device()
    functions = _get_current_function_mode_stack() if _function_modes() else []
    flags = [getattr(_python_dispatch, name) for name in _MODE_FLAGS]

    def restore() -> None:
        if _dispatch_modes() > dispatch:
            while _dispatch_modes() > dispatch:
                _pop_dispatch_mode()
            _set_mode_flags(flags)
        if functions or _function_modes():
            for _ in range(_function_modes()):
                _pop_mode()
            for mode in functions:
                _push_mode(mode)
        if _current_device() != device:
            _device.CURRENT_DEVICE, _global_device.device_context = device

    return restore


def modes_as_they_are() -> restored:
    """Return a block that takes away what modes are left switched on inside, and puts the others back."""
    return restored(restorer_of_modes(), in_child=False)


def _set_mode_flags(flags: list[bool]) -> None:
    for name, flag in zip(_MODE_FLAGS, flags, strict=True):
        setattr(_python_dispatch, name, flag)
    in_c = getattr(_python_dispatch, "set_is_in_mode_without_ignore_compile_internals", None)
    if in_c is not None:
        in_c(flags[-1])


def _current_device() -> tuple[Any, Any]:
    return _device.CURRENT_DEVICE, getattr(_global_device, "device_context", None)
