"""JAX alone is enough: Flax, Equinox and optax are needed for their own models only."""

from __future__ import annotations

import pytest
from time_limits import run_python

ALONE = """
import sys
for name in ("flax", "equinox", "optax"):
    sys.modules[name] = None  # what is None there cannot be imported
import jax.numpy as jnp
from profilerkit import profile
from profilerkit_jax import JaxModel
print(profile(JaxModel(lambda weight, x: x @ weight, jnp.ones((4, 2))), jnp.ones((3, 4)))["macs"])
"""


@pytest.mark.slow
def test_a_function_is_profiled_without_the_libraries_of_modules() -> None:
    done = run_python(ALONE, check=False)
    assert (done.stdout, done.returncode) == (f"{3 * 4 * 2}\n", 0), done.stderr
