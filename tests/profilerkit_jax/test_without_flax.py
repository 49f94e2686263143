"""JAX alone is enough: Flax, Equinox and optax are needed for their own models only."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("jax")

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
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"{3 * 4 * 2}\n", 0), done.stderr
