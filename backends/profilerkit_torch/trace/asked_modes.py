"""Questions of a model about the modes around it: it learns of those that are no pass's.

A pass has function modes and dispatch modes of its own. A run has none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch.overrides import TorchFunctionMode

from profilerkit.backend_kit.private_names import find

from ..compat import FakeTensorMode, dispatch_modes, function_modes

__all__ = ["ABOUT_MODES", "FAKE_MODES", "PassMode", "asked_by_torch"]

_PACKAGE = __name__.partition(".")[0]


class PassMode(TorchFunctionMode):
    """A function mode that a pass has for itself."""


def asked_by_torch() -> bool:
    """Return whether what calls the caller of this function is torch's own code."""
    return str(sys._getframe(2).f_globals.get("__name__", "")).partition(".")[0] == "torch"


#: Those of the passes that are running.
FAKE_MODES: list[FakeTensorMode] = []


def _of_others(modes: list[Any]) -> list[Any]:
    """Return the modes that are no pass's, the outermost first."""
    return [
        mode
        for mode in modes
        if type(mode).__module__.partition(".")[0] != _PACKAGE and not any(mode is each for each in FAKE_MODES)
    ]


def _answered(stack: Callable[[], list[Any]], function: Callable[..., Any], answer: Callable[..., Any]) -> Any:
    """Return a function about a stack of modes, with what answers a model in its place.

    ``answer`` takes the modes that are no pass's, and the arguments.
    """

    @wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        if asked_by_torch():
            return function(*args, **kwargs)
        return answer(_of_others(stack()), *args, **kwargs)

    return function, ask


def _innermost(modes: list[Any]) -> Any:
    return modes[-1] if modes else None


def _at(modes: list[Any], index: int) -> Any:
    return modes[index]


def _all(modes: list[Any]) -> list[Any]:
    return modes


def _any(modes: list[Any], include_infra_modes: bool = True) -> bool:
    return any(include_infra_modes or not mode.is_infra_mode() for mode in modes)


def _any_for_compilers(modes: list[Any]) -> bool:
    return any(not mode.ignore_compile_internals() for mode in modes)


#: Releases of torch have some of them, where `find` looks for names.
_OF_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch.overrides._get_current_function_mode": _innermost,
    "torch.overrides._get_current_function_mode_stack": _all,
    "torch._C._len_torch_function_stack": len,
    "torch._C._get_function_stack_at": _at,
    "torch._C._is_torch_function_mode_enabled": bool,
}
_OF_DISPATCH: dict[str, Callable[..., Any]] = {
    "torch.utils._python_dispatch._get_current_dispatch_mode": _innermost,
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack": _all,
    "torch.utils._python_dispatch._len_torch_dispatch_stack": len,
    "torch.utils._python_dispatch._get_dispatch_stack_at": _at,
    "torch.utils._python_dispatch.is_in_torch_dispatch_mode": _any,
    "torch.utils._python_dispatch.is_in_any_mode_without_ignore_compile_internals": _any_for_compilers,
}
#: What asks about modes, and what answers in a pass.
ABOUT_MODES: tuple[tuple[Any, Any], ...] = (
    *(
        _answered(function_modes, function, answer)
        for path, answer in _OF_FUNCTIONS.items()
        if (function := find(path)) is not None
    ),
    *(
        _answered(dispatch_modes, function, answer)
        for path, answer in _OF_DISPATCH.items()
        if (function := find(path)) is not None
    ),
)
