"""Modes that see every operator and every function of torch, and the modes that the caller has switched on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.backend_kit.private_names import find

from .names import find_first, require, require_class

if TYPE_CHECKING:

    class TorchDispatchMode:
        """The class of modes that see each operator, for type checkers."""

        supports_higher_order_operators: bool

        def __init__(self) -> None: ...

        def __enter__(self) -> Any: ...

        def __exit__(self, *error: Any) -> Any: ...

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any: ...

else:

    def _find_mode_class() -> Any:
        """Return the class of modes that see each operator. Without it nothing is traced: the counts are unavailable.

        In torch 2.6 operators that take functions need a rule for each class of modes, which a mode is given here when
        it is switched on. An operator that is defined later has no rule, and raises an error that says so.
        """
        plain = require_class("torch.utils._python_dispatch.TorchDispatchMode", purpose="sees the operators of a model")
        if hasattr(plain, "supports_higher_order_operators"):
            return plain

        class ModeWithRules(plain):
            supports_higher_order_operators = False

            def __enter__(self) -> Any:
                if self.supports_higher_order_operators:
                    for operator in (find("torch._ops._higher_order_ops") or {}).values():
                        operator.python_key_table[type(self)] = partial(_ask_mode, operator)
                return super().__enter__()

        return ModeWithRules

    def _ask_mode(operator: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return mode.__torch_dispatch__(operator, (), args, kwargs)

    TorchDispatchMode = _find_mode_class()


class WatchingMode(TorchDispatchMode):
    """A mode that is on while nothing is compiled; else torch would wrap each of its dispatches once more."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


@dataclass(frozen=True)
class ModeStack:
    """The modes of one kind that are on: their number, their list, the innermost last, and removing and adding one."""

    count: Callable[[], int]
    list: Callable[[], list[Any]]
    pop: Callable[[], Any]
    push: Callable[[Any], None]

    def set(self, modes: Iterable[Any]) -> None:
        """Switch these modes on and all others off."""
        for _ in range(self.count()):
            self.pop()
        for mode in modes:
            self.push(mode)

    @contextmanager
    def taken_away(self) -> Iterator[None]:
        """Switch all modes off in a block."""
        modes = self.list()
        self.set(())
        try:
            yield
        finally:
            self.set(modes)


_SWITCHED_OFF = "switches off the modes of the caller"
#: The modes that see functions. Without a step of Python the function in C below it does the same.
function_modes: ModeStack = ModeStack(
    find_first("torch._C._len_torch_function_stack", instead=lambda: len(function_modes.list())),
    require("torch.overrides._get_current_function_mode_stack", purpose=_SWITCHED_OFF),
    find_first("torch.overrides._pop_mode", "torch._C._pop_torch_function_stack"),
    find_first("torch.overrides._push_mode", "torch._C._push_on_torch_function_stack"),
)
#: The modes that see operators.
dispatch_modes: ModeStack = ModeStack(
    find_first("torch._C._len_torch_dispatch_stack", instead=lambda: len(dispatch_modes.list())),
    require("torch.utils._python_dispatch._get_current_dispatch_mode_stack", purpose=_SWITCHED_OFF),
    find_first("torch.utils._python_dispatch._pop_mode", "torch._C._pop_torch_dispatch_stack"),
    find_first("torch.utils._python_dispatch._push_mode", "torch._C._push_on_torch_dispatch_stack"),
)
#: Takes all modes that see operators away in a block, also the modes of ``torch.export``.
disable_dispatch_modes: Callable[[], AbstractContextManager[Any]] = require(
    "torch.utils._python_dispatch._disable_current_modes", purpose=_SWITCHED_OFF
)
#: Whether there is any mode that sees functions now; else each that is on is taken for seeing them.
is_function_mode_active: Callable[[], bool] = find_first(
    "torch._C._is_torch_function_mode_enabled", instead=lambda: function_modes.count() > 0
)
#: Hides functions from modes and subclasses in a block.
unseen_by_functions: Callable[[], AbstractContextManager[Any]] = require(
    "torch._C.DisableTorchFunction", purpose=_SWITCHED_OFF
)
#: Hides functions from subclasses in a block; else subclasses see them too.
unseen_by_subclasses: Callable[[], AbstractContextManager[Any]] = find_first(
    "torch._C.DisableTorchFunctionSubclass", instead=nullcontext
)
#: Whether subclasses see functions now; else it is assumed.
are_subclasses_asked: Callable[[], bool] = find_first("torch._C._is_torch_function_enabled", instead=lambda: True)

_dispatch_module: Any = find("torch.utils._python_dispatch")
_FLAG_IN_C_TOO = "_is_in_any_mode_without_ignore_compile_internals"
#: Torch's flags of whether a dispatch mode is on; each release has some of them.
_FLAGS = ("_is_in_torch_dispatch_mode", "_is_in_non_infra_torch_dispatch_mode", _FLAG_IN_C_TOO)
_set_flag_in_c: Callable[[bool], None] | None = find(
    "torch.utils._python_dispatch.set_is_in_mode_without_ignore_compile_internals"
)


def note_mode_flags() -> Callable[[], None]:
    """Return a function that restores torch's flags of whether a dispatch mode is on, which the exit of a mode sets."""
    flags = {name: getattr(_dispatch_module, name) for name in _FLAGS if hasattr(_dispatch_module, name)}

    def restore() -> None:
        for name, is_set in flags.items():
            setattr(_dispatch_module, name, is_set)
        if _set_flag_in_c is not None and _FLAG_IN_C_TOO in flags:
            _set_flag_in_c(flags[_FLAG_IN_C_TOO])

    return restore


#: Whether autocast is on for any device; else the devices are asked one by one.
is_any_autocast_enabled: Callable[[], bool] = find_first(
    "torch._C._is_any_autocast_enabled",
    instead=lambda: any(map(torch.is_autocast_enabled, ("cpu", "cuda", "xpu", "mps"))),
)
