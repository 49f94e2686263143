"""The settings of JAX that change numbers: how each is read, its default, and whether counts depend on it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from profilerkit.backend_kit.settings import Setting

__all__ = ["SETTINGS"]


def _make_setting(name: str, default: Any, counts: bool = False) -> Setting:
    return Setting(name, partial(_read, name), default, counts)


def _read(name: str) -> Any:
    """Return a value of ``jax.config`` as text where it is an option of several; the values of this thread count."""
    value = getattr(jax.config, name) if hasattr(jax.config, name) else jax.config.values[name]
    return getattr(value, "value", value)


SETTINGS: tuple[Setting, ...] = (
    _make_setting("jax_enable_x64", False, counts=True),
    _make_setting("jax_numpy_dtype_promotion", "standard", counts=True),
    _make_setting("jax_default_prng_impl", "threefry2x32", counts=True),
    _make_setting("jax_enable_custom_prng", False, counts=True),
    _make_setting("jax_threefry_partitionable", True, counts=True),
    _make_setting("jax_softmax_custom_jvp", False, counts=True),
    _make_setting("jax_default_matmul_precision", None),
    _make_setting("jax_disable_jit", False),
    _make_setting("jax_debug_nans", False),
    _make_setting("jax_debug_infs", False),
    _make_setting("jax_enable_checks", False),
    _make_setting("jax_check_tracer_leaks", False),
    _make_setting("jax_disable_most_optimizations", False),
    _make_setting("jax_compiler_enable_remat_pass", True),
    _make_setting("jax_allow_f16_reductions", True),
)
