"""Outputs whose work is still to be done: generators, coroutines and the like, which a profiler refuses."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from .errors import InputError

__all__ = ["is_unfinished", "make_unfinished_error", "require_finished"]

#: Types of objects that have not done their work when they are returned; and modules that have only such types.
_UNFINISHED = (GeneratorType, CoroutineType, AsyncGeneratorType, map, filter, zip)
_MODULES_OF_UNFINISHED = ("itertools", "concurrent.futures._base", "_asyncio")


def is_unfinished(output: Any) -> bool:
    """Return whether the result of a model computes only when it is read or awaited."""
    kind = type(output)
    return kind in _UNFINISHED or kind.__module__ in _MODULES_OF_UNFINISHED or hasattr(kind, "__await__")


def make_unfinished_error(output: Any) -> InputError:
    """Return the error for a model that returns a generator, a coroutine or the like."""
    if isinstance(output, (GeneratorType, CoroutineType)):
        output.close()
    is_async = isinstance(output, CoroutineType) or "async" in type(output).__name__
    how = "asyncio.run(model(x))" if is_async else "list(model(x))"
    return InputError(
        f"the model returned a {type(output).__name__}, and its work is done only when that is read; give a function "
        f"that does it: call=lambda model, x: {how}"
    )


def require_finished(output: Any) -> Any:
    """Return the result of a model; raises `InputError` if its work is still to be done."""
    if is_unfinished(output):
        raise make_unfinished_error(output)
    return output
