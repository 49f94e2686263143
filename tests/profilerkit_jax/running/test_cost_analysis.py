"""Where XLA's `cost_analysis` differs from the counts of the jaxpr: the cases of the documentation, numbers by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from profilerkit import ModelInputs
from profilerkit_jax import JaxModel, compiled_analysis
from profilerkit_jax.backend import JaxBackend

S = jax.ShapeDtypeStruct
SQUARE, X = S((8, 8), "float32"), S((3, 4), "float32")
ONE = 2 * 8**3
IMAGE, KERNEL = S((2, 8, 8, 3), "float32"), S((3, 3, 3, 6), "float32")


def convolve(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


#: A program, its inputs, the FLOPs that we count, and the range of those that XLA does.
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, tuple[int, int]]] = {
    # one turn, and the counting of turns
    "loop": (
        lambda x: lax.scan(lambda carry, _: (carry @ carry, None), x, None, length=10)[0],
        (SQUARE,),
        10 * ONE,
        (ONE, ONE + 20),
    ),
    "loop in a loop": (
        lambda x: lax.fori_loop(0, 3, lambda _, a: lax.fori_loop(0, 4, lambda _, b: b @ x, a), x),
        (SQUARE,),
        12 * ONE,
        (ONE, ONE + 20),
    ),
    "exponential": (jnp.exp, (X,), 12, (0, 0)),
    "sum": (jnp.sum, (X,), 12, (11, 11)),
    # along each side, 6 windows of 3 elements and 2 of 2: 22 of 24
    "padded convolution": (convolve, (IMAGE, KERNEL), 2 * 2 * 6 * 3 * 24 * 24, (2 * 2 * 6 * 3 * 22 * 22,) * 2),
    "custom call": (lambda a: lax.linalg.svd(a, compute_uv=False), (S((6, 4), "float32"),), 299, (0, 10)),
    "choice": (lambda x: jnp.where(x > 0, x, 1.0), (X,), 0, (24, 24)),
    "complex product": (jnp.matmul, (S((3, 4), "complex64"), S((4, 5), "complex64")), 8 * 60, (2 * 60, 2 * 60)),
    # 1 / (1 + exp(-x)): a negation, an addition and a division of each
    "sigmoid": (lax.logistic, (X,), 12, (3 * 12, 3 * 12)),
    # rows by every matrix, and the rest masked
    "ragged product": (
        lax.ragged_dot,
        (S((6, 4), "float32"), S((2, 4, 5), "float32"), S((2,), "int32")),
        2 * 6 * 4 * 5,
        (2 * 2 * 6 * 4 * 5, 4 * 2 * 6 * 4 * 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_where_xla_differs(name: str) -> None:
    if jax.default_backend() != "cpu":
        pytest.skip("the figures are those of XLA for the CPU")
    function, inputs, ours, (low, high) = CASES[name]
    trace = JaxBackend().trace(JaxModel(function), ModelInputs(*inputs))
    analysis = compiled_analysis(JaxModel(function), *inputs)
    assert (trace.failure, trace.flops) == (None, ours)
    assert low <= (analysis.flops or 0) <= high


def test_what_xla_does_not_know_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA for a GPU answers -1 where it does not count."""
    answers = {"flops": -1.0, "transcendentals": 0.0, "bytes accessed": -2.0}
    monkeypatch.setattr(jax.stages.Compiled, "cost_analysis", lambda compiled: answers)
    analysis = compiled_analysis(JaxModel(jnp.exp), X)
    assert (analysis.flops, analysis.transcendentals, analysis.bytes_accessed) == (None, 0.0, None)


def test_transcendentals_stand_apart() -> None:
    assert compiled_analysis(JaxModel(jnp.exp), X).transcendentals == 12


@pytest.mark.parametrize("function", [jnp.matmul, jnp.multiply], ids=["product", "element by element"])
def test_where_both_agree(function: Callable[..., Any]) -> None:
    trace = JaxBackend().trace(JaxModel(function), ModelInputs(SQUARE, SQUARE))
    assert trace.flops == compiled_analysis(JaxModel(function), SQUARE, SQUARE).flops


def test_of_two_branches_both_count_the_dearest() -> None:
    def either(x: Any) -> Any:
        return lax.cond(x[0, 0] > 0, lambda: x @ x @ x, lambda: x @ x)

    trace, analysis = JaxBackend().trace(JaxModel(either), ModelInputs(SQUARE)), compiled_analysis(either, SQUARE)
    assert trace.flops == 2 * ONE
    assert 2 * ONE <= (analysis.flops or 0) <= 2 * ONE + 10
