"""Every primitive that JAX ships is counted, free, or named with the reason why it is not counted."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

import jax
import jax._src
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive

from profilerkit import ModelInputs
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.costs import UNCOUNTED, is_known
from profilerkit_jax.costs.registry import OPERATORS
from profilerkit_jax.trace.control_flow import HANDLERS

#: Parts of JAX whose primitives stand inside kernels alone, and parts that have none or are not to be imported.
_LEFT_OUT = (
    "mosaic",
    "triton",
    "thunky",
    "pallas",
    "test",
    "export",
    "tpu",
    "cloud",
    "internal",
    "debugger",
    "tools",
    "lib.",
)


def list_shipped(package: Any = jax._src, left_out: Sequence[str] = _LEFT_OUT) -> set[str]:
    """Return the names of the primitives in the modules of JAX, or of another package."""
    names = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if any(part in module.name for part in left_out):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except Exception:  # a part for hardware or packages that are not here
            continue
        names |= {value.name for value in vars(loaded).values() if isinstance(value, Primitive)}
    return names


def test_every_primitive_of_jax_is_classified() -> None:
    names = list_shipped()
    assert {"dot_general", "scan", "cholesky", "threefry2x32", "psum"} <= names, "where JAX keeps them has changed"
    unknown = {name for name in names if not (name in HANDLERS or name in UNCOUNTED or is_known(name))}
    assert not unknown, "give each a formula, register it as free, or register_uncounted with the reason"


def test_every_primitive_of_equinox_is_classified() -> None:
    """``vprim`` only stands in for one that is made with its name."""
    equinox = pytest.importorskip("equinox")
    names = list_shipped(equinox, ())
    assert {"unvmap_any", "maybe_set", "nondifferentiable_backward", "noinline"} <= names
    assert {name for name in names if not (name in UNCOUNTED or is_known(name))} <= {"vprim"}


def test_none_is_classified_twice() -> None:
    counted = {*OPERATORS.free, *OPERATORS.elementwise, *OPERATORS.reductions}
    assert len(counted) == len(OPERATORS.free) + len(OPERATORS.elementwise) + len(OPERATORS.reductions)
    assert not counted & set(HANDLERS)
    assert not [name for name in UNCOUNTED if is_known(name) or name in HANDLERS]


def test_what_is_not_counted_is_named_with_the_reason() -> None:
    def call(x: object) -> object:
        return jax.pure_callback(lambda value: value, jax.ShapeDtypeStruct((3,), "float32"), x)

    trace = JaxBackend().trace(call, ModelInputs(jnp.ones(3)))
    assert dict(trace.uncounted) == {"pure_callback: code outside of JAX": 1}


def test_a_kernel_of_pallas_is_named() -> None:
    pallas = pytest.importorskip("jax.experimental.pallas")

    def kernel(x: object, out: object) -> None:
        out[...] = 2 * x[...]  # type: ignore[index]

    double = pallas.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((3,), "float32"), interpret=True, name="double")
    trace = JaxBackend().trace(lambda x: double(x) + 1, ModelInputs(jnp.ones(3)))
    assert dict(trace.uncounted) == {"pallas_call 'double': a kernel that the user wrote in Pallas": 1}
    assert trace.flops == 3


def test_a_primitive_that_nobody_knows_is_not_counted() -> None:
    own = Primitive("unknown_kernel")
    own.def_abstract_eval(lambda x: x)
    trace = JaxBackend().trace(own.bind, ModelInputs(jnp.ones(3)))
    assert dict(trace.uncounted) == {"unknown_kernel": 1}
