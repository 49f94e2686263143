"""Outputs whose work is still to be done: generators, coroutines and the like, which a profiler refuses."""

from __future__ import annotations

from concurrent.futures import Future
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
    return InputError(
        f"the model returned a {type(output).__name__}, and its work is done only when that is read; give a function "
        f"that does it: call=lambda model, x: {_advise(output)}"
    )


def _advise(output: Any) -> str:
    """Return an expression that does the work of an output of ``model(x)``."""
    if isinstance(output, CoroutineType):
        return "asyncio.run(model(x))"
    if isinstance(output, AsyncGeneratorType):
        return "asyncio.run(read(model, x)), where read is an 'async def' with 'async for' over model(x)"
    if hasattr(type(output), "__await__"):  # asyncio.run takes coroutines alone
        return "asyncio.run(read(model, x)), where read is an 'async def' with 'await model(x)'"
    return "model(x).result()" if isinstance(output, Future) else "list(model(x))"


def require_finished(output: Any) -> Any:
    """Return the result of a model; raises `InputError` if its work is still to be done."""
    if is_unfinished(output):
        raise make_unfinished_error(output)
    return output
