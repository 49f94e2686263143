"""Attributes that have another value for a time: of objects, classes and modules, and the calls of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias

from ..process.restoring import restored

__all__ = ["follow_calls", "replace_attribute"]

_ABSENT = object()
#: Called in the place of a layer's ``__call__``: with that, the layer, and the arguments.
Follow: TypeAlias = Callable[[Callable[..., Any], Any, Any, Any], Any]


@contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Have an attribute of an object, class or module another value meanwhile; one from a base class is so again."""
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
    layers: Iterable[Any], follow: Follow, finish: Callable[[Any], Any] = lambda function: function
) -> Iterator[None]:
    """Let the calls of layers go through a function, by replacing ``__call__`` of the classes that define it.

    It is for frameworks without hooks.
    ``follow`` is called with all instances of these classes. ``finish`` makes the replacement of ``__call__``.
    """
    with ExitStack() as patches:
        for cls in {next(cls for cls in type(layer).__mro__ if "__call__" in cls.__dict__) for layer in layers}:
            original = cls.__dict__["__call__"]
            patches.enter_context(restored(partial(type.__setattr__, cls, "__call__", original)))
            type.__setattr__(cls, "__call__", finish(_make_call(original, follow)))
        yield


def _make_call(original: Callable[..., Any], follow: Follow) -> Callable[..., Any]:
    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
        return follow(original, layer, args, kwargs)

    __call__.__wrapped__ = original  # type: ignore[attr-defined]
    return __call__
