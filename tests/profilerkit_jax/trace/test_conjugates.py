"""The square of the size of a complex number costs three operations, however JAX spells what holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jax")
import jax.numpy as jnp

from profilerkit import ModelInputs
from profilerkit_jax.backend import JaxBackend

N = 12
X = jnp.ones((3, 4), "complex64")


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (lambda x: (x * jnp.conj(x)).real, 3 * N),
        (lambda x: (jnp.conj(x) * x).real, 3 * N),
        (jnp.linalg.norm, 3 * N + N + 1),  # the sum of real numbers, and its root
        (jnp.var, 2 * N + 2 * N + 3 * N + N),  # sum and difference are complex
        (lambda x: x * jnp.conj(x), 6 * N),  # stays complex
        (lambda x: (x * jnp.conj(x + x)).real, 2 * N + 6 * N),
        (lambda x: (x * x).real, 6 * N),
    ],
)
def test_the_real_part_of_a_product_with_the_conjugate(function: Callable[..., Any], flops: int) -> None:
    assert JaxBackend().trace(function, ModelInputs(X)).flops == flops
