"""Arrays that a model returns where JAX does not see them: the work on them is counted, and what waits is refused."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from time_limits import join

from profilerkit import InputError, ModelInputs, ModelTrace, profile
from profilerkit_jax.backend import JaxBackend

#: The multiply-accumulates of a product of two such matrices.
X, ONE = jnp.ones((4, 4)), 4 * 4 * 4


def trace_function(function: Any) -> ModelTrace:
    return JaxBackend().trace(function, ModelInputs(X))


def generated(x: Any) -> Iterator[Any]:
    for _ in range(3):
        yield x @ x


@dataclass
class Outputs:
    first: Any
    others: list[Any]


@pytest.mark.parametrize(
    ("function", "products"),
    [
        (lambda x: {"a": [x @ x], "b": (x @ x, x @ x)}, 3),
        (lambda x: ("text", 3, None, int, x @ x), 1),
        (lambda x: [None, "nothing"], 0),
    ],
)
def test_the_work_on_all_arrays_of_an_output_is_counted(function: Any, products: int) -> None:
    trace = trace_function(function)
    assert (trace.failure, trace.macs) == (None, products * ONE)


@pytest.mark.parametrize(
    "hide",
    [
        lambda product: Outputs(product, []),
        lambda product: {"all": [Outputs(1, [product])]},
        lambda product: deque([product]),
        lambda product: MappingProxyType({"a": product}),
        lambda product: partial(jnp.add, product),
        lambda product: lambda: product,
    ],
)
def test_an_object_in_which_jax_sees_no_arrays_is_refused(hide: Any) -> None:
    """Work on its arrays would be none that an output needs, and would count as nothing."""
    failure = trace_function(lambda x: hide(x @ x)).failure
    assert isinstance(failure, InputError)
    assert "in which JAX sees no arrays; register its class" in str(failure)


async def awaited(x: Any) -> Any:
    return x @ x


async def asynchronously(x: Any) -> AsyncIterator[Any]:
    yield x @ x


@pytest.mark.parametrize(
    ("function", "work"),
    [
        (generated, "list(model(x))"),
        (lambda x: {"all": generated(x), "one": x @ x}, "list(model(x))"),
        (lambda x: map(jnp.matmul, [x, x], [x, x]), "list(model(x))"),
        (awaited, "asyncio.run(model(x))"),
        (asynchronously, "asyncio.run(read(model, x))"),
    ],
)
def test_work_that_is_not_done_yet_is_refused(function: Any, work: str) -> None:
    failure = trace_function(function).failure
    assert isinstance(failure, InputError)
    assert f"give a function that does it: call=lambda model, x: {work}" in str(failure)


def in_a_thread(x: Any) -> Any:
    products: list[Any] = []

    def multiply() -> None:
        try:
            products.append(x @ x)
        except Exception as error:
            products.append(error)

    thread = threading.Thread(target=multiply)
    thread.start()
    join(thread)
    if isinstance(products[0], Exception):
        raise products[0]
    return products[0]


def in_a_pool(x: Any) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda _: x @ x, range(3)))


def by_numpy(x: Any) -> Any:
    return jnp.asarray(np.asarray(x) @ np.ones((4, 4), "float32"))


@pytest.mark.parametrize("function", [in_a_thread, in_a_pool, by_numpy])
def test_work_that_jax_cannot_trace_is_no_number(function: Any) -> None:
    """JAX itself refuses threads and numpy on traced arrays."""
    report = profile(function, X, backend="jax", metrics=["macs"])
    assert report.statuses["macs"].completeness.value == "failed"


@pytest.mark.parametrize(
    ("function", "counted", "named"),
    [
        (lambda x: jax.pure_callback(lambda v: v @ v, jax.ShapeDtypeStruct((4, 4), "float32"), x), 0, "pure_callback"),
        (lambda x: (io_callback(lambda v: None, None, x @ x), x)[1], ONE, "io_callback"),
    ],
)
def test_values_that_leave_jax_make_the_number_a_lower_bound(function: Any, counted: int, named: str) -> None:
    report = profile(function, X, backend="jax", metrics=["macs"])
    status = report.statuses["macs"]
    assert (status.value, status.completeness.value) == (counted, "partial")
    assert named in str(status.missing)
