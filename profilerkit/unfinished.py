"""Outputs whose work is still to be done: generators, coroutines and the like, which a profiler refuses."""

from __future__ import annotations

from concurrent.futures import Future
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from .errors import InputError

__all__ = ["is_unfinished", "make_unfinished_error", "require_finished"]


def is_unfinished(output: Any) -> bool:
    """Return whether the result of a model computes only when it is read or awaited."""
    return bool(_advise(output))


def _advise(output: Any) -> str:
    """Return an expression that does the work of an output of ``model(x)``; an empty text if it is done already."""
    if isinstance(output, CoroutineType):
        return "asyncio.run(model(x))"
    if isinstance(output, AsyncGeneratorType):
        return "asyncio.run(read(model, x)), where read is an 'async def' with 'async for' over model(x)"
    if hasattr(type(output), "__await__"):  # asyncio.run takes coroutines alone
        return "asyncio.run(read(model, x)), where read is an 'async def' with 'await model(x)'"
    if isinstance(output, Future):
        return "model(x).result()"
    if isinstance(output, (GeneratorType, map, filter, zip)) or type(output).__module__ == "itertools":
        return "list(model(x))"
    return ""


def make_unfinished_error(output: Any) -> InputError:
    """Return the error for a model that returns a generator, a coroutine or the like."""
    if isinstance(output, (GeneratorType, CoroutineType)):
        output.close()
    return InputError(
        f"the model returned a {type(output).__name__}, and its work is done only when that is read; give a function "
        f"that does it: call=lambda model, x: {_advise(output)}"
    )


def require_finished(output: Any) -> Any:
    """Return the result of a model; raises `InputError` if its work is still to be done."""
    if is_unfinished(output):
        raise make_unfinished_error(output)
    return output
