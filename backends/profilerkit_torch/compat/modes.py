"""Modes: what sees every operator and every function of torch, and what the caller has switched on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.backend_kit.private_names import find

from .names import find_first, require_class

if TYPE_CHECKING:

    class TorchDispatchMode:
        """What type checkers know of the class of modes that see each operator."""

        supports_higher_order_operators: bool

        def __init__(self) -> None: ...

        def __enter__(self) -> Any: ...

        def __exit__(self, *error: Any) -> Any: ...

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any: ...

else:
    #: The class of modes that see each operator. Without it nothing is traced: the counts are unavailable.
    TorchDispatchMode = require_class(
        "torch.utils._python_dispatch.TorchDispatchMode", purpose="sees the operators of a model"
    )

    if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        _PlainMode = TorchDispatchMode

        class TorchDispatchMode(_PlainMode):  # type: ignore[no-redef,valid-type,misc]
            """A mode of torch 2.6, where operators that take functions ask each class of modes for a rule of its own.

            One that appears while the mode is on has none, and raises an error that says so.
            """

            supports_higher_order_operators = False

            def __enter__(self) -> Any:
                if self.supports_higher_order_operators:
                    for operator in (find("torch._ops._higher_order_ops") or {}).values():
                        operator.python_key_table[type(self)] = partial(_ask_mode, operator)
                return super().__enter__()

        def _ask_mode(operator: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
            return mode.__torch_dispatch__(operator, (), args, kwargs)


class WatchingMode(TorchDispatchMode):
    """A mode that is on while nothing is compiled, for which torch would wrap each dispatch of it once more."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


#: The modes of functions that are on, the innermost last; else they are read one by one.
list_function_modes: Callable[[], list[Any]] = find_first(
    "torch.overrides._get_current_function_mode_stack",
    instead=lambda: [find("torch._C._get_function_stack_at")(index) for index in range(count_function_modes())],
)
#: How many there are; else the list is measured, which is slower.
count_function_modes: Callable[[], int] = find_first(
    "torch._C._len_torch_function_stack", instead=lambda: len(list_function_modes())
)
_are_functions_unseen: Callable[[], bool] = find_first(
    "torch._C._is_torch_function_all_disabled", instead=lambda: False
)
#: Whether there is any that sees functions now.
is_function_mode_active: Callable[[], bool] = find_first(
    "torch._C._is_torch_function_mode_enabled",
    instead=lambda: count_function_modes() > 0 and not _are_functions_unseen(),
)
#: Takes the innermost away, and puts it back.
pop_function_mode: Callable[[], Any] = find_first("torch.overrides._pop_mode", "torch._C._pop_torch_function_stack")
push_function_mode: Callable[[Any], None] = find_first(
    "torch.overrides._push_mode", "torch._C._push_on_torch_function_stack"
)
#: The same for the modes that see operators.
list_dispatch_modes: Callable[[], list[Any]] = find_first(
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack",
    instead=lambda: [find("torch._C._get_dispatch_stack_at")(index) for index in range(count_dispatch_modes())],
)
count_dispatch_modes: Callable[[], int] = find_first(
    "torch._C._len_torch_dispatch_stack", instead=lambda: len(list_dispatch_modes())
)
pop_dispatch_mode: Callable[[], Any] = find_first(
    "torch.utils._python_dispatch._pop_mode", "torch._C._pop_torch_dispatch_stack"
)
_push_dispatch_mode: Callable[[Any], None] = find_first(
    "torch.utils._python_dispatch._push_mode", "torch._C._push_on_torch_dispatch_stack"
)


@contextmanager
def _without_modes(count: Callable[[], int], pop: Callable[[], Any], push: Callable[[Any], None]) -> Iterator[None]:
    modes = [pop() for _ in range(count())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            push(mode)


#: Takes all modes that see operators away in a block; else they are taken away one by one.
disable_dispatch_modes: Callable[[], AbstractContextManager[Any]] = find_first(
    "torch.utils._python_dispatch._disable_current_modes",
    instead=partial(_without_modes, count_dispatch_modes, pop_dispatch_mode, _push_dispatch_mode),
)
#: Takes all modes of functions away in a block.
without_function_modes: Callable[[], AbstractContextManager[Any]] = partial(
    _without_modes, count_function_modes, pop_function_mode, push_function_mode
)
#: Keeps functions from being seen by modes and subclasses in a block; else by modes alone, taken away one by one.
unseen_by_functions: Callable[[], AbstractContextManager[Any]] = find_first(
    "torch._C.DisableTorchFunction", instead=without_function_modes
)
#: Keeps functions from being seen by subclasses in a block; else they are asked too.
unseen_by_subclasses: Callable[[], AbstractContextManager[Any]] = find_first(
    "torch._C.DisableTorchFunctionSubclass", instead=nullcontext
)
#: Whether subclasses are asked now; else they are taken to be.
are_subclasses_asked: Callable[[], bool] = find_first("torch._C._is_torch_function_enabled", instead=lambda: True)

_dispatch_module: Any = find("torch.utils._python_dispatch")
#: Torch's notes of whether a dispatch mode is active, which the exit of a mode puts back; a release has some of them.
_MODE_FLAGS = tuple(
    name
    for name in (
        "_is_in_torch_dispatch_mode",
        "_is_in_non_infra_torch_dispatch_mode",
        "_is_in_any_mode_without_ignore_compile_internals",
    )
    if hasattr(_dispatch_module, name)
)
_set_flag_in_c: Callable[[bool], None] | None = find(
    "torch.utils._python_dispatch.set_is_in_mode_without_ignore_compile_internals"
)


def read_mode_flags() -> list[bool]:
    """Return torch's notes of whether modes are active."""
    return [getattr(_dispatch_module, name) for name in _MODE_FLAGS]


def set_mode_flags(flags: Sequence[bool]) -> None:
    """Put torch's notes back."""
    for name, flag in zip(_MODE_FLAGS, flags, strict=True):
        setattr(_dispatch_module, name, flag)
    if _set_flag_in_c is not None and flags:
        _set_flag_in_c(flags[-1])


#: Whether autocast is on for any device; else the devices are asked one by one.
is_any_autocast_enabled: Callable[[], bool] = find_first(
    "torch._C._is_any_autocast_enabled",
    instead=lambda: any(map(torch.is_autocast_enabled, ("cpu", "cuda", "xpu", "mps"))),
)
