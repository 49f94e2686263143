"""The scopes of Keras layers: opened by replacing ``__call__`` of their classes while a model is traced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from profilerkit.backend_kit.call_stack import CallStack
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import restored

from .scope_names import Marks

__all__ = ["follow_layers"]

#: The classes of Keras are changed while a model is traced, so only one thread does that at a time.
_one_at_a_time = Lock()
#: Called in the place of a layer's ``__call__``: with that, the layer, and the arguments.
_Follow = Callable[[Callable[..., Any], Any, Any, Any], Any]


@contextmanager
def follow_layers(layers: Sequence[tuple[str, Any]], marks: Marks | None) -> Iterator[None]:
    """Open the scope of each of these layers that is called in this thread; none without marks."""
    if marks is None:
        yield
        return
    stack, thread = CallStack(layers), threading.get_ident()

    def follow(call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
        is_ours = threading.get_ident() == thread and stack.knows(layer) and not stack.is_innermost(layer)
        if not is_ours:
            return call(layer, *args, **kwargs)
        stack.begin(layer)
        try:
            return marks.run(stack.current, layer, lambda: call(layer, *args, **kwargs), (args, kwargs))
        finally:
            stack.end()

    classes = {next(cls for cls in type(layer).__mro__ if "__call__" in cls.__dict__) for _, layer in layers}
    with _one_at_a_time.block(), ExitStack() as patches:
        for cls in classes:
            patches.enter_context(_patch_calls(cls, follow))
        yield


@contextmanager
def _patch_calls(cls: type, follow: _Follow) -> Iterator[None]:
    """Let the calls of a class's instances go through a function inside the block."""
    original = cls.__dict__["__call__"]

    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
        return follow(original, layer, args, kwargs)

    __call__.__wrapped__ = original  # type: ignore[attr-defined]
    with restored(partial(type.__setattr__, cls, "__call__", original)):
        type.__setattr__(cls, "__call__", __call__)
        yield
