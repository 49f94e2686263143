"""Products count in the dtype of what they multiply, also where they write a wider one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from profilerkit import profile
from profilerkit_jax import JaxModel


@pytest.mark.parametrize(
    ("multiplied", "written", "counted"),
    [
        ("bfloat16", "float32", "bfloat16"),
        ("float8_e4m3fn", "bfloat16", "float8_e4m3fn"),
        ("int8", "int32", "int8"),
        ("int32", "int32", "int32"),
        ("float32", "float32", "float32"),
    ],
)
def test_a_product_that_writes_a_wider_dtype(multiplied: str, written: str, counted: str) -> None:
    weight = jnp.ones((16, 8), multiplied)
    model = JaxModel(lambda x: jax.lax.dot(x, weight, preferred_element_type=written))
    report = profile(model, jnp.ones((4, 16), multiplied), metrics=["macs_by_dtype"])
    assert report["macs_by_dtype"] == {counted: 4 * 16 * 8}
