"""Inputs that are cut, repeated, or made of a spec: arrays, keys of random numbers, dtypes that JAX has not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from profilerkit import InputError, TensorSpec, profile
from profilerkit_jax.backend import JaxBackend


@pytest.mark.parametrize(("batch_size", "rows"), [(1, [0]), (2, [0, 1]), (5, [0, 1, 0, 1, 0])])
def test_the_rows_of_a_batch_repeat_from_the_first(batch_size: int, rows: list[int]) -> None:
    for tensor in (np.arange(6).reshape(2, 3), jnp.arange(6).reshape(2, 3), jnp.arange(6, dtype="int4").reshape(2, 3)):
        resized = JaxBackend().with_batch_size(tensor, batch_size)
        assert isinstance(resized, np.ndarray) == isinstance(tensor, np.ndarray)
        assert resized.dtype == tensor.dtype
        np.testing.assert_array_equal(resized, np.arange(6).reshape(2, 3)[rows])


def test_keys_of_random_numbers_are_a_batch_too() -> None:
    """A product with a matrix of 4 x 4 for each sample, and noise by a key of its own."""

    def add_noise(x: Any, key: Any) -> Any:
        return x @ jnp.ones((4, 4)) + jax.random.normal(key, (4,))

    inputs = jnp.ones((2, 4)), jax.random.split(jax.random.key(0), 2)
    report = profile(jax.jit(jax.vmap(add_noise)), inputs, batch_size=6, metrics=["macs"], strict=True)
    assert report["macs"] == 6 * 4 * 4


@pytest.mark.parametrize("dtype", ["str", "object", "float33"])
def test_a_dtype_that_jax_has_not_is_named(dtype: str) -> None:
    with pytest.raises(InputError, match=f"JAX has no dtype '{dtype}'"):
        JaxBackend().random_tensor(TensorSpec((4,), dtype), 2)
