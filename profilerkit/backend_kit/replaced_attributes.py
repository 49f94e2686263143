"""Attributes that have another value for a time: of objects, classes and modules, and the calls of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import getattr_static
from typing import Any, TypeAlias

from ..process.restoring import restored

__all__ = ["follow_calls", "replace_attribute"]

_ABSENT = object()
#: Called in the place of a layer's ``__call__``: with that, the layer, and the arguments.
Follow: TypeAlias = Callable[[Callable[..., Any], Any, Any, Any], Any]


@contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute another value inside the block; one that came from a base class comes from there again.

    The owner is an object, a class or a module. A property or a slot of an object is refused: it keeps its value
    elsewhere.
    """
    if hasattr(getattr_static(type(owner), name, None), "__set__"):
        raise TypeError(f"{name} of {type(owner).__name__} is a property or a slot, which cannot be put back")
    before = vars(owner).get(name, _ABSENT)

    def restore() -> None:
        if before is not _ABSENT:
            setattr(owner, name, before)
        elif name in vars(owner):
            delattr(owner, name)

    with restored(restore):
        setattr(owner, name, value)
        yield


@contextmanager
def follow_calls(
    layers: Iterable[Any], follow: Follow, decorate: Callable[[Any], Any] = lambda function: function
) -> Iterator[None]:
    """Let the calls of layers go through a function, by replacing ``__call__`` of the classes that define it.

    It is for frameworks without hooks.
    ``follow`` is called with all instances of these classes. ``decorate`` is applied to each function that replaces a
    ``__call__``.
    """
    with ExitStack() as patches:
        for cls in set(map(_find_calling_class, layers)):
            original = cls.__dict__["__call__"]
            patches.enter_context(restored(partial(type.__setattr__, cls, "__call__", original)))
            type.__setattr__(cls, "__call__", decorate(_make_call(original, follow)))
        yield


def _find_calling_class(layer: Any) -> type:
    """Return the class that defines how a layer is called."""
    for cls in type(layer).__mro__:
        if "__call__" in vars(cls):
            return cls
    raise TypeError(f"{type(layer).__name__} has no __call__, so that its calls cannot be followed")


def _make_call(original: Callable[..., Any], follow: Follow) -> Callable[..., Any]:
    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
        return follow(original, layer, args, kwargs)

    __call__.__wrapped__ = original  # type: ignore[attr-defined]
    return __call__
