"""Samples without a batch dimension, as layers of Equinox and Flax take them; a batch by ``jax.vmap``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import numpy as np
import pytest
from flax import nnx

from profilerkit import InputError, profile
from profilerkit_jax import JaxModel

KEY = jax.random.key(0)


class Images(eqx.Module):
    """A convolution over a batch of images."""

    convolution: eqx.nn.Conv2d

    def __call__(self, x: jax.Array) -> Any:
        return jax.vmap(self.convolution)(x)


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def convolution() -> eqx.nn.Conv2d:
    return eqx.nn.Conv2d(3, 8, 3, key=KEY)


def linen(module: nn.Module, inputs: Any) -> JaxModel:
    return JaxModel(module, module.init(KEY, inputs))


CASES: dict[str, tuple[Callable[[], Any], Any, int]] = {
    "equinox, one image": (convolution, ones(3, 32, 32), 1),
    "equinox, a batch": (lambda: Images(convolution()), ones(5, 3, 32, 32), 5),
    "equinox, a batch by filter_vmap": (lambda: eqx.filter_vmap(convolution()), ones(5, 3, 32, 32), 5),
    "equinox, one row": (lambda: eqx.nn.MLP(16, 4, 8, 1, key=KEY), ones(16), 1),
    "equinox, one step": (lambda: eqx.nn.GRUCell(16, 4, key=KEY), (ones(16), ones(4)), 1),
    "nnx, one image": (lambda: nnx.Conv(3, 8, (3, 3), rngs=nnx.Rngs(0)), ones(32, 32, 3), 1),
    "nnx, a batch": (lambda: nnx.Conv(3, 8, (3, 3), rngs=nnx.Rngs(0)), ones(6, 32, 32, 3), 6),
    "nnx, one row": (lambda: nnx.Linear(16, 4, rngs=nnx.Rngs(0)), ones(16), 1),
    "nnx, a batch of rows": (lambda: nnx.Linear(16, 4, rngs=nnx.Rngs(0)), ones(6, 16), 6),
    "nnx, a batch of sequences": (lambda: nnx.Linear(16, 4, rngs=nnx.Rngs(0)), ones(6, 2, 16), 6),
    "linen, one image": (lambda: linen(nn.Conv(8, (3, 3)), ones(32, 32, 3)), ones(32, 32, 3), 1),
    "linen, a batch": (lambda: linen(nn.Conv(8, (3, 3)), ones(6, 32, 32, 3)), ones(6, 32, 32, 3), 6),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sample_without_a_batch_dimension_is_one_sample(name: str) -> None:
    build, inputs, samples = CASES[name]
    report = profile(build(), inputs, metrics=["execution_time", "throughput"], num_iters=3, warmup=0)
    assert report.batch_size == samples
    assert report["throughput"].median * report["execution_time"].median == pytest.approx(samples)


def test_a_sample_without_a_batch_dimension_makes_no_batch() -> None:
    with pytest.raises(InputError, match="takes them as one sample without a batch dimension"):
        profile(convolution(), ones(3, 32, 32), batch_size=4, metrics=["macs"], strict=True)
