"""Outputs whose work is still to be done: what the error advises does the work."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from profilerkit.unfinished import is_unfinished, make_unfinished_error


def generate(x: int) -> Iterator[int]:
    yield x + 1


async def compute(x: int) -> int:
    return x + 1


async def generate_later(x: int) -> AsyncIterator[int]:
    yield x + 1


class Awaitable:
    def __init__(self, x: int) -> None:
        self.x = x

    def __await__(self) -> Generator[Any, None, int]:
        yield from ()
        return self.x + 1


def submit(x: int) -> Future[int]:
    future: Future[int] = Future()
    future.set_result(x + 1)
    return future


class Promise:
    """A future of another library, with torch's methods."""

    def __init__(self, x: int) -> None:
        self.x = x

    def wait(self) -> int:
        return self.x + 1

    def then(self, callback: Callable[[Promise], Any]) -> Any:
        return callback(self)


async def read_all(model: Any, x: int) -> list[int]:
    return [value async for value in model(x)]


async def wait(model: Any, x: int) -> Any:
    return await model(x)


@pytest.mark.parametrize(
    ("model", "read", "result"),
    [
        (generate, None, [4]),
        (lambda x: itertools.chain([x + 1]), None, [4]),
        (lambda x: map(abs, [x + 1]), None, [4]),
        (compute, None, 4),
        (generate_later, read_all, [4]),
        (Awaitable, wait, 4),
        (submit, None, 4),
        (Promise, None, 4),
    ],
    ids=["generator", "itertools", "map", "coroutine", "async generator", "awaitable", "future", "promise"],
)
def test_the_advice_does_the_work(model: Callable[[int], Any], read: Any, result: Any) -> None:
    """The expression, with the function ``read`` that it describes, gives the result; without one it needs none."""
    output = model(3)
    assert is_unfinished(output)
    advice = str(make_unfinished_error(output)).partition("call=lambda model, x: ")[2]
    expression, _, description = advice.partition(", where ")
    assert bool(description) is (read is not None)
    assert eval(expression, {"asyncio": asyncio, "model": model, "x": 3, "read": read}) == result
