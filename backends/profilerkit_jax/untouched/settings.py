"""The settings of JAX that change numbers: how each is read, its default, and whether counts depend on it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from profilerkit.backend_kit.settings import Setting

__all__ = ["SETTINGS"]


def _of_config(name: str, default: Any, counts: bool = False) -> Setting:
    return Setting(name, partial(_read, name), default, counts)


def _read(name: str) -> Any:
    """Return a value of ``jax.config`` as text where it is an option of several; the values of this thread count."""
    value = getattr(jax.config, name) if hasattr(jax.config, name) else jax.config.values[name]
    return getattr(value, "value", value)


SETTINGS: tuple[Setting, ...] = (
    _of_config("jax_enable_x64", False, counts=True),
    _of_config("jax_numpy_dtype_promotion", "standard", counts=True),
    _of_config("jax_default_prng_impl", "threefry2x32", counts=True),
    _of_config("jax_enable_custom_prng", False, counts=True),
    _of_config("jax_threefry_partitionable", True, counts=True),
    _of_config("jax_softmax_custom_jvp", False, counts=True),
    _of_config("jax_default_matmul_precision", None),
    _of_config("jax_disable_jit", False),
    _of_config("jax_debug_nans", False),
    _of_config("jax_debug_infs", False),
    _of_config("jax_enable_checks", False),
    _of_config("jax_check_tracer_leaks", False),
    _of_config("jax_disable_most_optimizations", False),
    _of_config("jax_compiler_enable_remat_pass", True),
    _of_config("jax_allow_f16_reductions", True),
)
