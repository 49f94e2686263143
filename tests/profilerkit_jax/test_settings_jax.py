"""Each setting of JAX that changes numbers is named in the reports that it changes, and in no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from profilerkit import profile
from profilerkit.backend_kit.settings import Setting
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.untouched.settings import SETTINGS

#: Other values than the default, of those that are no switch.
OTHERS = {
    "jax_numpy_dtype_promotion": "strict",
    "jax_default_prng_impl": "rbg",
    "jax_default_matmul_precision": "float32",
}
#: Words in the names of the options that change nothing in a report, or only where JAX keeps and says things.
_WORDS = """
    backend cache cluster compilation compiler_detailed debug_key debug_leaked debug_log device distributed dump
    embedded error_checking exec_time export hlo include log mesh mock optimization_level pjrt platform pgle pallas
    pprint preemption profile raise recover send serialization share sort source topology trac transfer transport
    transform warn report static_indices scan3 remat3 custom_vjp3 seed_offset legacy direct_linearize
    simplified_jaxpr size_one vma explicit_x64 auto_pcast rank_promotion emit_pipeline bcoo eager_constant
    no_execution vmap_shmap mutable_array refs_to_pins bwd_checks unsafe_xla garbage thread_guard shardy magma
    memory_fitting collectives gumbel ragged_dot accurate_erf custom_jvp3 mtls remat_barrier rgv3 shard_args proxy
    async_dispatch gpu_kernel_lowering jax2tf mosaic partitioning explain residuals disallow xla
"""
LEFT_OUT = _WORDS.split()


def _square(x: Any) -> Any:
    return x @ x


def conditions(*metrics: str) -> tuple[str, ...]:
    timing: dict[str, Any] = {"num_iters": 2, "warmup": 0} if "execution_time" in metrics else {}
    report = profile(_square, np.ones((3, 3), "float32"), metrics=metrics, backend="jax", **timing)
    return report.conditions


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting.name)
def setting(request: pytest.FixtureRequest) -> Setting:
    setting: Setting = request.param
    return setting


@pytest.fixture
def before() -> object:
    return JaxBackend().fingerprint(_square)


@pytest.fixture
def value(setting: Setting) -> Iterator[Any]:
    previous, value = setting.read(), OTHERS.get(setting.name, not setting.default)
    jax.config.update(setting.name, value)
    yield value
    jax.config.update(setting.name, previous)
    assert setting.read() == setting.default


def test_nothing_is_switched_at_first() -> None:
    assert conditions("macs", "execution_time") == ()


def test_a_setting_is_named_where_it_changes_something(setting: Setting, value: Any) -> None:
    words = f"{setting.name}: {value}"
    assert words in conditions("macs", "execution_time")
    assert (words in conditions("macs")) is setting.counts


def test_a_profiler_does_not_remember_values_under_another_setting(before: object, value: Any) -> None:
    assert JaxBackend().fingerprint(_square) != before


def test_every_option_of_jax_is_in_the_table_or_left_out() -> None:
    """An option that a new release adds is noticed here."""
    table = {setting.name for setting in SETTINGS}
    new = {name for name in jax.config.values if name not in table and not any(word in name for word in LEFT_OUT)}
    assert new == set()
