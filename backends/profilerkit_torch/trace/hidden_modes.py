"""Replacements of functions of torch by which a model would notice that it runs in a pass.

No mode of the pass sees these calls, so the names are rebound to other functions, in torch and in the model's files:

- ``has_torch_function`` would see the function modes of the pass. Copies of torch's own functions call it: they would
  bypass these modes, and attention would be composed of operators. Torch's own functions in Python would be called for
  a second time by the mode, while the first call holds the arguments: a temporary tensor would live on.
- ``isinstance(x, FakeTensor)`` would tell transformers that it is being recorded: then it makes masks that a run does
  not make.
- ``to_dlpack``, which is written in C, asks the mode of the pass.

The rest of torch's own code still gets the true answers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from profilerkit.process.restoring import restored

from ..compat.modes import function_modes, unseen_by_functions
from ..compat.modules import call_hooks
from ..compat.tensors import FAKE_NAMESPACE, FakeTensor
from ..model.inventory import Inventory

__all__ = ["PassMode", "find_namespaces", "hide_modes"]


class PassMode(TorchFunctionMode):
    """A function mode that a pass has for itself."""


class _Binding(NamedTuple):
    """Where a name stands for an original: the namespace and the name, and what replaces the original."""

    space: dict[str, Any]
    name: str
    original: Any
    replacement: Any


@contextmanager
def hide_modes(namespaces: Iterable[dict[str, Any]], fake_mode: Any = None) -> Iterator[None]:
    """Have names of torch and of these namespaces answer as in a run, except for tensors of a fake mode."""
    names = (*_IN_TORCH, *_find_bindings(namespaces))
    # A pass around this one may have replaced some already.
    bindings = [binding for binding in names if binding.space.get(binding.name) is binding.original]
    modes = [*_fake_modes]

    def restore() -> None:
        _fake_modes[:] = modes
        for space, name, original, replacement in bindings:
            if space.get(name) is replacement:  # the model may have bound it again
                space[name] = original

    with restored(restore):
        _fake_modes.append(fake_mode)
        for space, name, _, replacement in bindings:
            space[name] = replacement
        yield


def _find_bindings(namespaces: Iterable[dict[str, Any]]) -> list[_Binding]:
    """Return where namespaces have one of the originals."""
    return [
        _Binding(space, name, value, _REPLACEMENTS[id(value)])
        for space in namespaces
        for name, value in list(space.items())  # another thread may add a name
        if id(value) in _REPLACEMENTS
    ]


def find_namespaces(inventory: Inventory, function: Any = None) -> list[dict[str, Any]]:
    """Return the namespaces of the files that the model's classes and its hooks, or a function, come from."""
    bases = {base for kind in inventory.kinds for base in kind.__mro__}
    classes = [base for base in bases if base.__module__.partition(".")[0] not in ("torch", "builtins")]
    functions = [function, *(vars(kind).get("forward") for kind in classes)]
    for module, _ in inventory.further_attributes:
        for hooks in call_hooks(module):
            functions += hooks.values()
    spaces = [vars(sys.modules[kind.__module__]) for kind in classes if kind.__module__ in sys.modules]
    spaces += [code.__globals__ for code in functions if isinstance(code, FunctionType)]
    return list({id(space): space for space in spaces}.values())


# The replacements, which give torch's own code the true answers -------------------------------------------------------

#: Where torch has functions in Python, which call each other and functions in C++.
_FUNCTIONS = (vars(torch.nn.functional), vars(torch.functional))
#: The modes of the fake tensors of the passes that are running.
_fake_modes: list[Any] = []


def _is_asked_by_torch() -> bool:
    """Return whether a replacement, which calls this function, was called by torch's own code, but for `_FUNCTIONS`."""
    namespace = sys._getframe(2).f_globals
    is_torchs = str(namespace.get("__name__", "")).partition(".")[0] == "torch"
    return is_torchs and not any(namespace is functions for functions in _FUNCTIONS)


def _ignore_pass_modes(function: Callable[..., bool]) -> Callable[..., bool]:
    """Return ``has_torch_function`` or one of its forms, which passes the modes of a pass by."""

    @wraps(function)
    def answer(*args: Any) -> bool:
        modes = function_modes.list()
        if _is_asked_by_torch() or not all(isinstance(mode, PassMode) for mode in modes):
            return function(*args)
        with function_modes.taken_away():
            return function(*args)

    return answer


def _ask_pass_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is written in C, and that no mode sees, which asks the mode of a pass."""

    @wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        modes: list[Any] = [mode for mode in function_modes.list() if isinstance(mode, PassMode)]
        if not modes or _is_asked_by_torch():
            return function(*args, **kwargs)
        with unseen_by_functions():
            return modes[-1].__torch_function__(function, (), args, kwargs)

    return ask


class _FakeTensorCheck(type):
    """Has the fake tensors of a pass be no instances of `FakeTensor`."""

    def __instancecheck__(cls, value: Any) -> bool:
        if not isinstance(value, FakeTensor):
            return False
        return _is_asked_by_torch() or not any(value.fake_mode is mode for mode in _fake_modes)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, FakeTensor)

    def __getattr__(cls, name: str) -> Any:
        return getattr(FakeTensor, name)


class _FakeTensor(metaclass=_FakeTensorCheck):
    """Stands for `FakeTensor`."""


_HAS_TORCH_FUNCTION: tuple[Any, ...] = (
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
)
_TO_DLPACK: Any = vars(torch.utils.dlpack)["to_dlpack"]
#: By the ``id`` of the original: other values in a namespace may have no hash.
_REPLACEMENTS: dict[int, Any] = {
    **{id(function): _ignore_pass_modes(function) for function in _HAS_TORCH_FUNCTION},
    id(_TO_DLPACK): _ask_pass_modes(_TO_DLPACK),
    id(FakeTensor): _FakeTensor,
}
#: Where others find the originals in torch. ``torch._subclasses.fake_tensor`` makes tensors by a name of its own.
_IN_TORCH = _find_bindings((vars(torch), vars(torch.overrides), vars(torch.utils.dlpack), FAKE_NAMESPACE, *_FUNCTIONS))
