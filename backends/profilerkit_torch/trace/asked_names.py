"""Questions that a model asks of torch's functions and classes, which no mode sees: they are answered as in a run.

A pass has function modes of its own, and may have fake tensors. Code that asks ``has_torch_function((x,))`` or
``isinstance(x, FakeTensor)``, as transformers does before it makes a mask, would learn of them. So for as long as code
of the model's runs, these names lead to answers that leave out what belongs to a pass. Torch's own code gets the truth.
The types of tensors (``torch.FloatTensor``) know what a tensor is in a run, and ``to_dlpack``, which is written in C,
asks the modes of the pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any

import torch
from torch import nn

from profilerkit.process.locks import Lock
from profilerkit.process.restoring import restored

from ..compat import (
    ASKED_NAMESPACES,
    SET_DEFAULT_TYPE,
    FakeTensor,
    FakeTensorMode,
    function_modes,
    pop_function_mode,
    push_function_mode,
    tensor_classes,
    unseen_by_functions,
)
from .asked_modes import ABOUT_MODES, FAKE_MODES, PassMode, asked_by_torch

__all__ = ["answered_names", "namespaces_of"]


def _without_pass_modes(function: Callable[..., bool]) -> Callable[..., bool]:
    """Return ``has_torch_function`` or one of its forms, which passes the modes of a pass by."""

    @wraps(function)
    def answer(*args: Any) -> bool:
        modes = function_modes()
        if asked_by_torch() or not all(isinstance(mode, PassMode) for mode in modes):
            return function(*args)
        for _ in modes:
            pop_function_mode()
        try:
            return function(*args)
        finally:
            for mode in modes:
                push_function_mode(mode)

    return answer


def _seen_by_passes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is written in C, and that no mode sees, which asks the mode of a pass."""

    @wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        modes: list[Any] = [mode for mode in function_modes() if isinstance(mode, PassMode)]
        if not modes or asked_by_torch():
            return function(*args, **kwargs)
        with unseen_by_functions():
            return modes[-1].__torch_function__(function, (), args, kwargs)

    return ask


class _WithoutThoseOfPasses(type):
    """Has the fake tensors of a pass be no instances of `FakeTensor`."""

    def __instancecheck__(cls, value: Any) -> bool:
        if not isinstance(value, FakeTensor):
            return False
        return asked_by_torch() or not any(value.fake_mode is mode for mode in FAKE_MODES)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, FakeTensor)

    def __getattr__(cls, name: str) -> Any:
        return getattr(FakeTensor, name)


class _FakeTensor(metaclass=_WithoutThoseOfPasses):
    """Stands for `FakeTensor`."""


class _TypeOfTensors(type):
    """Has the tensors that a pass has in place of those of a run be instances of a type such as `torch.FloatTensor`."""

    original: Any

    def __instancecheck__(cls, value: Any) -> bool:
        if isinstance(value, cls.original) or asked_by_torch() or not isinstance(value, torch.Tensor):
            return isinstance(value, cls.original)
        return bool(value.type() == cls.__name__)  # a mode of the pass answers

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        with unseen_by_functions():  # as no mode sees it, what records its operators would be answered
            return cls.original(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)

    def __eq__(cls, other: object) -> bool:
        return bool(cls.original is _ORIGINALS.get(id(other), other))

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __repr__(cls) -> str:
        return repr(cls.original)


def _type_of_tensors(original: Any) -> _TypeOfTensors:
    """Return what stands for a type of tensors; ``Tensor.type`` takes it by its name."""
    return _TypeOfTensors(f"{original.__module__}.{original.__name__}", (), {"original": original})


def _with_originals(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch's that takes nothing but the types themselves."""

    @wraps(function)
    def call(*args: Any) -> Any:
        return function(*(_ORIGINALS.get(id(each), each) for each in args))

    return call


_FUNCTIONS = (
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
)
_TO_DLPACK: Any = vars(torch.utils.dlpack)["to_dlpack"]
#: ``torch.FloatTensor`` and the like.
_TYPES: tuple[Any, ...] = tensor_classes
#: What a name leads to outside of a pass, and in one.
_PAIRS: tuple[tuple[Any, Any], ...] = (
    *((each, _without_pass_modes(each)) for each in _FUNCTIONS),
    *ABOUT_MODES,
    (FakeTensor, _FakeTensor),
    (_TO_DLPACK, _seen_by_passes(_TO_DLPACK)),
    *((each, _with_originals(each)) for each in SET_DEFAULT_TYPE),
    *((kind, _type_of_tensors(kind)) for kind in _TYPES),
)
_ANSWERS: dict[int, Any] = {id(original): answer for original, answer in _PAIRS}
_ORIGINALS: dict[int, Any] = {id(answer): original for original, answer in _PAIRS}
#: Where others find these names in torch. ``torch._subclasses.fake_tensor`` makes tensors by a name of its own.
_OF_TORCH: tuple[tuple[dict[str, Any], str], ...] = (
    *(
        (space, name)
        for space in (
            vars(torch.overrides),
            *ASKED_NAMESPACES,
        )
        for name, value in space.items()
        if id(value) in _ANSWERS
    ),
    (vars(torch), "to_dlpack"),
    (vars(torch.utils.dlpack), "to_dlpack"),
    *((vars(sys.modules[kind.__module__]), kind.__name__) for kind in _TYPES if kind.__module__ in sys.modules),
)


def namespaces_of(modules: Iterable[nn.Module], function: Any = None) -> list[dict[str, Any]]:
    """Return the namespaces of the files that the model's classes and its hooks, or a function, come from."""
    modules = list(modules)
    files = {id(space): space for kind in set(map(type, modules)) for space in _files_of(kind)}
    for module in modules:
        for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
            if isinstance(space := getattr(hook, "__globals__", None), dict):
                files[id(space)] = space
    if isinstance(function, FunctionType):
        files[id(function.__globals__)] = function.__globals__
    return list(files.values())


def _files_of(kind: type) -> Iterator[dict[str, Any]]:
    for base in kind.__mro__:
        if base.__module__.startswith("torch."):  # so are its bases, or they are Python's
            return
        if base.__module__ != "builtins":
            forward = base.__dict__.get("forward")
            if isinstance(forward, FunctionType):
                yield forward.__globals__
            elif base.__module__ in sys.modules:
                yield vars(sys.modules[base.__module__])


@contextmanager
def answered_names(namespaces: Iterable[dict[str, Any]], fake_mode: Any = None) -> Iterator[None]:
    """Answer as in a run what is asked by names of torch's or of these namespaces, but for tensors of a fake mode."""
    imported = len(sys.modules)
    replaced: list[tuple[int, str]] = []

    def restore() -> None:
        _restore(replaced)
        if len(sys.modules) > imported:
            _restore_in(list(sys.modules.values())[imported:])
        FAKE_MODES[:] = [mode for mode in FAKE_MODES if mode is not fake_mode]

    with restored(restore, in_child=_restore_all):
        if isinstance(fake_mode, FakeTensorMode):
            FAKE_MODES.append(fake_mode)
        _replace(namespaces, replaced)
        yield


class _Name:
    """A name that leads to an answer for as long as at least one pass needs it."""

    def __init__(self, namespace: dict[str, Any], name: str) -> None:
        self.namespace, self.name, self.original = namespace, name, namespace[name]
        self.passes = 0

    def restore(self) -> None:
        if self.namespace.get(self.name) is _ANSWERS.get(id(self.original)):
            self.namespace[self.name] = self.original


def _replace(namespaces: Iterable[dict[str, Any]], replaced: list[tuple[int, str]]) -> None:
    """Replace the names; ``replaced`` gets each before it is."""
    with _lock:
        asked = [*_OF_TORCH]
        for space in namespaces:
            asked += [
                (space, name) for name, value in space.items() if id(value) in _ANSWERS or id(value) in _ORIGINALS
            ]
        for space, name in asked:
            key = id(space), name
            replaced.append(key)
            if key not in _names:
                _names[key] = _Name(space, name)
            _names[key].passes += 1
            space[name] = _ANSWERS.get(id(space[name]), space[name])


def _restore(replaced: list[tuple[int, str]]) -> None:
    with _lock:
        while replaced:
            name = _names.get(replaced[-1])
            if name is not None and name.passes <= 1:
                name.restore()
                _names.pop(replaced[-1], None)
            elif name is not None:
                name.passes -= 1
            replaced.pop()


def _restore_in(modules: Iterable[Any]) -> None:
    """Restore the names in modules that were imported while a pass ran, and have taken them over."""
    for module in modules:
        space = getattr(module, "__dict__", {})
        for name in [name for name, value in list(space.items()) if id(value) in _ORIGINALS]:
            space[name] = _ORIGINALS[id(space[name])]


def _restore_all() -> None:
    """Restore the names in a forked child, where no other thread's pass goes on."""
    while _names:
        _names.popitem()[1].restore()
    FAKE_MODES.clear()


_lock = Lock()
_names: dict[tuple[int, str], _Name] = {}
