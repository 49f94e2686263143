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
from slow_ones import slow_ones

from profilerkit import InputError, profile
from profilerkit_jax import JaxModel

KEY = jax.random.key(0)


class Images(eqx.Module):
    """A convolution over a batch of images."""

    convolution: eqx.nn.Conv2d

    def __call__(self, x: jax.Array) -> Any:
        return jax.vmap(self.convolution)(x)


class Attending(eqx.Module):
    """Attention of one sequence to itself."""

    attention: eqx.nn.MultiheadAttention

    def __call__(self, x: jax.Array) -> Any:
        return self.attention(x, x, x)


def attention() -> eqx.nn.MultiheadAttention:
    return eqx.nn.MultiheadAttention(2, 8, key=KEY)


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
    "equinox, one row that is normalized": (lambda: eqx.nn.LayerNorm(8), ones(8), 1),
    "equinox, one picture that is normalized": (lambda: eqx.nn.LayerNorm((4, 8)), ones(4, 8), 1),
    "equinox, one row by its mean square": (lambda: eqx.nn.RMSNorm(8), ones(8), 1),
    "equinox, a batch of normalized rows": (lambda: eqx.filter_vmap(eqx.nn.LayerNorm(8)), ones(5, 8), 5),
    "equinox, a normalization before a product": (
        lambda: eqx.nn.Sequential([eqx.nn.LayerNorm(8), eqx.nn.Linear(8, 2, key=KEY)]),
        ones(8),
        1,
    ),
    "equinox, one sequence that attends to itself": (lambda: Attending(attention()), ones(6, 8), 1),
    "equinox, a batch of sequences": (lambda: eqx.filter_vmap(Attending(attention())), ones(3, 6, 8), 3),
    "equinox, one picture that is pooled": (lambda: eqx.nn.MaxPool2d(2), ones(3, 8, 8), 1),
    "equinox, one picture that is pooled to a size": (lambda: eqx.nn.AdaptiveAvgPool2d(2), ones(3, 8, 8), 1),
    "equinox, a batch of pooled pictures": (lambda: eqx.filter_vmap(eqx.nn.AvgPool2d(2)), ones(5, 3, 8, 8), 5),
    "equinox, one picture that is normalized in groups": (lambda: eqx.nn.GroupNorm(2, 4), ones(4, 8, 8), 1),
    "equinox, one row that is normalized in groups": (lambda: eqx.nn.GroupNorm(2, 4), ones(4), 1),
    "equinox, a pooling before a product": (
        lambda: eqx.nn.Sequential([eqx.nn.MaxPool1d(2), eqx.nn.Lambda(jax.numpy.ravel), eqx.nn.Linear(9, 2, key=KEY)]),
        ones(3, 4),
        1,
    ),
    "equinox, a batch that is normalized in groups": (
        lambda: eqx.filter_vmap(eqx.nn.GroupNorm(2, 4)),
        ones(5, 4, 8, 8),
        5,
    ),
    "nnx, a batch that is normalized in groups": (
        lambda: nnx.GroupNorm(4, num_groups=2, rngs=nnx.Rngs(0)),
        ones(3, 8, 4),
        3,
    ),
    "nnx, one row that is normalized": (lambda: nnx.LayerNorm(8, rngs=nnx.Rngs(0)), ones(8), 1),
    "nnx, a batch of normalized rows": (lambda: nnx.LayerNorm(8, rngs=nnx.Rngs(0)), ones(6, 8), 6),
    "linen, one row by its mean square": (lambda: linen(nn.RMSNorm(), ones(8)), ones(8), 1),
    "nnx, one image": (lambda: nnx.Conv(3, 8, (3, 3), rngs=nnx.Rngs(0)), ones(32, 32, 3), 1),
    "nnx, a batch": (lambda: nnx.Conv(3, 8, (3, 3), rngs=nnx.Rngs(0)), ones(6, 32, 32, 3), 6),
    "nnx, one row": (lambda: nnx.Linear(16, 4, rngs=nnx.Rngs(0)), ones(16), 1),
    "nnx, a batch of rows": (lambda: nnx.Linear(16, 4, rngs=nnx.Rngs(0)), ones(6, 16), 6),
    "nnx, a batch of sequences": (lambda: nnx.Linear(16, 4, rngs=nnx.Rngs(0)), ones(6, 2, 16), 6),
    "linen, one image": (lambda: linen(nn.Conv(8, (3, 3)), ones(32, 32, 3)), ones(32, 32, 3), 1),
    "linen, a batch": (lambda: linen(nn.Conv(8, (3, 3)), ones(6, 32, 32, 3)), ones(6, 32, 32, 3), 6),
}


#: Cases that another library, or another layer of the same kind, has too.
FURTHER = [
    "equinox, one picture that is normalized",
    "equinox, a normalization before a product",
    "equinox, a batch of sequences",
    "equinox, a batch by filter_vmap",
    "linen, one image",
    "nnx, a batch",
    "nnx, a batch of sequences",
]


@pytest.mark.parametrize("name", slow_ones(CASES, FURTHER))
def test_a_sample_without_a_batch_dimension_is_one_sample(name: str) -> None:
    build, inputs, samples = CASES[name]
    report = profile(build(), inputs, metrics=["execution_time", "throughput"], num_iters=3, warmup=0)
    assert report.batch_size == samples
    assert report["throughput"].median * report["execution_time"].median == pytest.approx(samples)


def test_a_sample_without_a_batch_dimension_makes_no_batch() -> None:
    with pytest.raises(InputError, match="takes them as one sample without a batch dimension"):
        profile(convolution(), ones(3, 32, 32), batch_size=4, metrics=["macs"], strict=True)


@pytest.mark.parametrize(
    ("model", "inputs", "is_noted"),
    [
        (lambda x: x * x, ones(8), True),  # eight samples, or one of eight numbers
        (lambda x, y: x * y, (ones(8), ones(8)), True),
        (lambda x: x * x, ones(5, 8), False),
        (lambda x: x * x, ones(1), False),
        (eqx.nn.LayerNorm(8), ones(8), False),
        (eqx.filter_vmap(eqx.nn.LayerNorm(8)), ones(5, 8), False),
        (eqx.nn.GroupNorm(2, 8), ones(8), False),
    ],
)
def test_a_batch_that_is_assumed_is_noted(model: Any, inputs: Any, is_noted: bool) -> None:
    """Without a layer that says it, one dimension is either samples or what a sample has."""
    report = profile(model, inputs, metrics=["flops"], backend="jax")
    assert any("it counts as a batch of 8, though they may be one sample" in note for note in report.notes) == is_noted
