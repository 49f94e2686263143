"""What a model returns or changes: the work on all of it is counted, and refused where JAX does not see it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

pytest.importorskip("equinox")
pytest.importorskip("flax")
import equinox
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.experimental import io_callback
from time_limits import join

from profilerkit import InputError, ModelInputs, ModelTrace, profile
from profilerkit_jax import JaxModel
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
        (lambda x: ("text", 3, None, int, range(3), np.array(["texts"]), x @ x), 1),
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


def test_a_module_with_functions_that_was_given_may_be_returned() -> None:
    """As a training step does. The gradient of the weights is a product; nothing reads the layer's own output."""
    layers = equinox.nn.MLP(4, 4, 4, 0, final_activation=lambda x: x, key=jax.random.key(0))

    @equinox.filter_jit
    def step(module: Any, x: Any) -> Any:
        gradients = equinox.filter_grad(lambda module: jnp.sum(jax.vmap(module)(x)))(module)
        return equinox.apply_updates(module, gradients), jnp.sum(x)

    trace = JaxBackend().trace(step, ModelInputs(layers, X))
    assert (trace.failure, trace.macs) == (None, ONE)


def test_a_function_that_the_model_makes_may_hide_arrays() -> None:
    trace = JaxBackend().trace(lambda add, x: partial(add, x @ x), ModelInputs(jnp.add, X))
    assert isinstance(trace.failure, InputError)


class Memory(nnx.Module):
    def __init__(self) -> None:
        self.last = nnx.Variable(X)


def put_in_module(memory: Any, x: Any) -> None:
    memory.last[...] = x @ x


def put_in_list(memory: Any, x: Any) -> None:
    memory[0] = x @ x


@pytest.mark.parametrize(("put", "memory"), [(put_in_module, Memory()), (put_in_list, [X])])
def test_the_work_on_what_is_put_into_an_input_is_counted(put: Any, memory: Any) -> None:
    inputs = ModelInputs(memory, X)
    backend = JaxBackend()
    assert backend.trace(put, inputs).macs == backend.trace_training(put, inputs).macs == ONE
    assert jax.tree.leaves(memory)[0] is X


class Listed(equinox.Module):
    memory: list[Any]

    def __call__(self, x: Any) -> None:
        self.memory[0] = x @ x


class Weights(nnx.Module):
    def __init__(self) -> None:
        self.last = nnx.Param(X)

    def __call__(self, x: Any) -> None:
        self.last[...] = x @ x


@pytest.mark.parametrize("model", [JaxModel(put_in_list, [X]), Listed([X]), Weights()])
def test_the_work_on_what_a_model_puts_in_the_place_of_a_parameter_is_counted(model: Any) -> None:
    backend = JaxBackend()
    assert backend.trace(model, ModelInputs(X)).macs == backend.trace_training(model, ModelInputs(X)).macs == ONE
    assert jax.tree.leaves(model.params if isinstance(model, JaxModel) else model)[0] is X


def test_the_work_on_parameters_that_a_layer_in_a_scan_changes_is_counted() -> None:
    """Three layers, each with one product that takes the place of its parameter."""

    class Stacked(nnx.Module):
        def __init__(self) -> None:
            make: Any = nnx.split_rngs(splits=3)(nnx.vmap(lambda rngs: Weights()))
            self.layers = make(nnx.Rngs(0))

        def __call__(self, x: Any) -> Any:
            call: Any = nnx.remat(lambda layer, y: (layer(y), y)[1])
            return nnx.scan(call, in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(self.layers, x)

    assert trace_function(Stacked()).macs == 3 * ONE


@pytest.mark.parametrize("is_given", [True, False])
def test_the_work_on_the_state_of_a_module_is_done_in_a_run(is_given: bool) -> None:
    """XLA leaves out work, a callback without effects too, on what the compiled function does not return."""
    calls: list[int] = []

    def work(x: Any) -> Any:
        calls.append(1)
        return x

    def put(memory: Any, x: Any) -> None:
        memory.last[...] = jax.pure_callback(work, jax.ShapeDtypeStruct(X.shape, X.dtype), x)

    model, inputs = (put, (Memory(), X)) if is_given else (partial(put, Memory()), (X,))
    with JaxBackend().run(model, ModelInputs(*inputs)) as run:
        before = len(calls)
        run.call()
    assert len(calls) == before + 1


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
