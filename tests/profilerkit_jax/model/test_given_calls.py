"""``call=``: a function of the model runs in place of its own call, in every form that a model of JAX has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flax")
import jax
import jax.numpy as jnp
from flax import linen, nnx

from profilerkit import ModelInputs, profile
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend

X = jnp.ones((3, 4))


class Twice(nnx.Module):
    def __init__(self) -> None:
        self.first, self.second = nnx.Linear(4, 8, rngs=nnx.Rngs(0)), nnx.Linear(8, 8, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return self.second(self.first(x))

    def twice(self, x: Any) -> Any:
        return self.second(self.second(self.first(x)))


class LinenTwice(linen.Module):
    def setup(self) -> None:
        self.first, self.second = linen.Dense(8), linen.Dense(8)

    def __call__(self, x: Any) -> Any:
        return self.second(self.first(x))

    def twice(self, x: Any) -> Any:
        return self.second(self.second(self.first(x)))


def equinox_twice() -> Any:
    eqx = pytest.importorskip("equinox")

    class EquinoxTwice(eqx.Module):  # type: ignore[misc, name-defined]
        first: Any
        second: Any

        def __call__(self, x: Any) -> Any:
            return jax.vmap(self.second)(jax.vmap(self.first)(x))

        def twice(self, x: Any) -> Any:
            return jax.vmap(self.second)(self(x))

    first, second = (eqx.nn.Linear(size, 8, key=jax.random.key(0)) for size in (4, 8))
    return EquinoxTwice(first, second)


MODULES: dict[str, Callable[[], Any]] = {
    "nnx": Twice,
    "linen": lambda: JaxModel(LinenTwice(), LinenTwice().init(jax.random.key(0), X)),
    "equinox": equinox_twice,
}


@pytest.mark.parametrize("form", MODULES)
def test_a_method_of_a_module_is_counted_by_layers_and_runs(form: str) -> None:
    """3 rows: 4 * 8 products once, 8 * 8 twice; backwards those of the weights, and of the second layer's inputs."""
    report = profile(
        MODULES[form](),
        X,
        call=lambda model, x: model.twice(x),
        metrics=["macs", "training_macs", "layerwise_data", "execution_time"],
        num_iters=2,
    )
    assert report["macs"] == 3 * 32 + 2 * 3 * 64
    assert report["training_macs"] == 2 * 3 * 32 + 3 * 2 * 3 * 64
    macs = {row["path"]: row["macs"] for row in report["layerwise_data"]}
    assert macs == {"": 480, "first": 96, "second": 384}
    assert len(report["execution_time"].samples) == 2


def test_a_function_gets_its_parameters_through_the_model() -> None:
    model = JaxModel(lambda params, x: x @ params, jnp.ones((4, 5)))
    call = lambda model, x: model(x) + model(2 * x)  # noqa: E731
    assert JaxBackend().trace(model, ModelInputs(X).given_to(call)).macs == 2 * 3 * 4 * 5
    bare = jax.jit(lambda x: x @ x.T)
    assert JaxBackend().trace(bare, ModelInputs(X).given_to(call)).macs == 2 * 3 * 3 * 4
    with JaxBackend().run(model, ModelInputs(X).given_to(call)) as run:
        assert run().tolist() == [[12.0] * 5] * 3
