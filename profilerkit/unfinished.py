"""Outputs whose work is still to be done: generators, coroutines, futures and the like, which a profiler refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from typing import Any

from .arguments.structures import tensors_in
from .errors import InputError

__all__ = ["is_unfinished", "make_unfinished_error", "require_all_finished", "require_finished"]

#: By the kind of an output of ``model(x)``, an expression that does its work. The first kind that fits counts.
_WORK: dict[type, str] = {
    Coroutine: "asyncio.run(model(x))",
    AsyncIterator: "asyncio.run(read(model, x)), where read is an 'async def' with 'async for' over model(x)",
    Awaitable: "asyncio.run(read(model, x)), where read is an 'async def' with 'await model(x)'",
    Future: "model(x).result()",
    Iterator: "list(model(x))",
}
_KINDS = tuple(_WORK)
#: That for a future of another library, such as torch's, which has this method and ``then``.
_WORK_OF_FUTURES = "model(x).wait()"


def is_unfinished(output: Any) -> bool:
    """Return whether the result of a model computes only when it is read or awaited."""
    return isinstance(output, _KINDS) or (hasattr(type(output), "then") and hasattr(type(output), "wait"))


def make_unfinished_error(output: Any) -> InputError:
    """Return the error for a model that returns a generator, a coroutine or the like."""
    if isinstance(output, (Generator, Coroutine)):
        output.close()
    work = next((expression for kind, expression in _WORK.items() if isinstance(output, kind)), _WORK_OF_FUTURES)
    return InputError(
        f"the model returned a {type(output).__name__}, and its work is done only when that is read; give a function "
        f"that does it: call=lambda model, x: {work}"
    )


def require_finished(output: Any) -> Any:
    """Return the result of a model; raises `InputError` if its work is still to be done."""
    if is_unfinished(output):
        raise make_unfinished_error(output)
    return output


def require_all_finished(outputs: Any) -> None:
    """Raise `InputError` for a structure of results in which the work of one is still to be done."""
    unfinished = next(tensors_in(outputs, is_unfinished), None)
    if unfinished is not None:
        raise make_unfinished_error(unfinished)
