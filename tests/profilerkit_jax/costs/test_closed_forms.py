"""Closed forms of primitives, worked out by hand: each function is traced, and its MACs and FLOPs are compared.

``x`` has 3 x 4 elements, 12 in all, ``square`` 5 x 5, ``tall`` 6 x 4. The expected numbers are written as they are
worked out: from the shapes, by the definition of the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from profilerkit import ModelInputs, ModelTrace
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.costs.registry import OPERATORS, PrimitiveCall, Shape, Shapes

S = jax.ShapeDtypeStruct
X, SQUARE, TALL = S((3, 4), "float32"), S((5, 5), "float32"), S((6, 4), "float32")
IMAGE, COMPLEX, WORDS = S((2, 8, 8, 3), "float32"), S((3, 4), "complex64"), S((3, 4), "int32")
NHWC = ("NHWC", "HWIO", "NHWC")


def trace_function(function: Callable[..., Any], *inputs: Any) -> ModelTrace:
    trace = JaxBackend().trace(function, ModelInputs(*inputs))
    assert trace.failure is None, trace.failure
    return trace


class Case(NamedTuple):
    """A function of some inputs, the MACs and FLOPs that it takes, and the primitive that the case is about."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    macs: int
    flops: int
    primitive: str = ""


def one(primitive: str, function: Callable[..., Any], flops: int = 12, *inputs: Any) -> tuple[str, Case]:
    """Return the case of an element-wise function of x: one operation for each of 12 elements, unless said."""
    return primitive, Case(function, inputs or (X,), 0, flops, primitive)


#: A function that is applied to the four elements of a row.
APPLIED = dict(
    [
        one("x.at[].apply(sin)", lambda x: x.at[0].apply(jnp.sin), 4),
        one("x.at[].apply, two steps", lambda x: x.at[0].apply(lambda item: jnp.exp(item) + 1.0), 2 * 4),
        one("x.at[].apply, all rows", lambda x: x.at[:].apply(jnp.tanh), 12),
        one("x.at[].apply, moved", lambda x: x.at[0].apply(lambda item: item), 0),
        one("x.at[].apply, vmap", jax.vmap(lambda row: row.at[1:3].apply(jnp.sin)), 3 * 2),
        one("x.at[].apply, integers", lambda x: x.at[0].apply(lambda item: item * 2), 0, S((3, 4), "int32")),
        # JAX raises all 12 to powers, which a product for each of the four has made 2.
        one("x.at[].power", lambda x: x.at[0].power(2.0), 12 + 4),
    ]
)
APPLIED = {name: case._replace(primitive="") for name, case in APPLIED.items()}

#: Functions of ``jax.lax`` of one array, and of two, that are one primitive of the same name.
UNARY = """
    abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2
    expm1 floor lgamma log log1p logistic neg round rsqrt sign sin sinh sqrt square tan tanh
"""
BINARY = "add atan2 div igamma igammac max min mul nextafter polygamma pow rem sub zeta"
#: One elementary function for each of the 12 elements.
ELEMENTWISE = dict(
    [
        *(one(name, getattr(lax, name)) for name in UNARY.split()),
        *(one(name, getattr(lax, name), 12, X, X) for name in BINARY.split()),
        one("clamp", lambda x: lax.clamp(0.0, x, 6.0), 2 * 12),  # a comparison for each bound
        one("integer_pow", lambda x: lax.integer_pow(x, 3)),
        one("regularized_incomplete_beta", lambda x: lax.betainc(x, x, x)),
    ]
)

#: What moves, chooses or compares, and work on integers: nothing.
FREE = dict(
    [
        one("argmax", lambda x: jnp.argmax(x, 0), 0),
        one("broadcast_in_dim", lambda x: jnp.broadcast_to(x, (2, 3, 4)), 0),
        one("concatenate", lambda x: jnp.concatenate([x, x]), 0),
        one("convert_element_type", lambda x: x.astype(jnp.bfloat16), 0),
        one("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 4)), 0, X, S((), "int32")),
        one("gather", lambda x, i: x[i], 0, X, S((5,), "int32")),
        one("gt", lambda x: x > 0, 0),
        one("integer_pow", lambda x: lax.integer_pow(x, 0), 0),  # ones
        one("iota", lambda x: x.at[0].set(jnp.arange(4.0)), 0),
        one("pad", lambda x: jnp.pad(x, 1), 0),
        one("random_bits", lambda key: jax.random.bits(key, (3, 4)), 0, jax.random.key(0)),
        one("rev", lambda x: x[::-1], 0),
        one("scatter", lambda x: x.at[0].set(1.0), 0),
        one("select_n", lambda x: jnp.where(x > 0, x, 0.0), 0),
        one("slice", lambda x: x[:2], 0),
        one("sort", jnp.sort, 0),
        one("top_k", lambda x: lax.top_k(x, 2), 0),
        one("transpose", lambda x: x.T, 0),
    ]
)

REDUCTIONS = dict(
    [
        one("reduce_sum", jnp.sum),
        one("reduce_max", lambda x: lax.reduce_max(x, (0,))),
        one("reduce_min", lambda x: lax.reduce_min(x, (1,))),
        one("reduce_prod", lambda x: lax.reduce_prod(x, (1,))),
        one("cumsum", jnp.cumsum),
        one("cummax", lambda x: lax.cummax(x, 1)),
        one("cummin", lambda x: lax.cummin(x, 0)),
        one("cumprod", lambda x: lax.cumprod(x, 0)),
        one("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 0), 4 * 12),  # maximum, difference, exponential, addition
        one("reduce", lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + 1.0, (0,)), 2 * 12),
        one("reduce_window", lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 2), "VALID"), 2 * 2 * 4),
        one("reduce_window_sum", lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 2), "VALID"), 4 * 4),
        one("reduce_window_max", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (1, 1), "VALID"), 4 * 3),
        one("reduce_window_min", lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 4), (1, 1), "VALID"), 3 * 4),
        one("scatter-add", lambda x, i: x.at[i].add(jnp.ones((5, 4))), 5 * 4, X, S((5,), "int32")),
        one("scatter-mul", lambda x, i: x.at[i].multiply(x[:2]), 2 * 4, X, S((2,), "int32")),
        one("scatter-max", lambda x, i: x.at[i].max(x[:1]), 1 * 4, X, S((1,), "int32")),
        one("scatter-min", lambda x, i: x.at[i].min(x[:1]), 1 * 4, X, S((1,), "int32")),
    ]
)


def product(primitive: str, function: Callable[..., Any], macs: int, *inputs: Any, further: int = 0) -> Case:
    return Case(function, inputs, macs, 2 * macs + further, primitive)


#: 8 x 8 images of 3 channels in a batch of 2; windows of 3 x 3.
KERNEL, DEPTHWISE = S((3, 3, 3, 6), "float32"), S((3, 3, 1, 6), "float32")


def convolution(padding: str, stride: int, macs: int, kernel: S = KERNEL, **options: Any) -> Case:
    def convolve(image: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(image, kernel, (stride, stride), padding, dimension_numbers=NHWC, **options)

    return product("conv_general_dilated", convolve, macs, IMAGE, kernel)


PRODUCTS = {
    "matrix": product("dot_general", jnp.matmul, 3 * 4 * 5, X, S((4, 5), "float32")),
    "batched": product("dot_general", jnp.matmul, 7 * 3 * 4 * 5, S((7, 3, 4), "float32"), S((7, 4, 5), "float32")),
    "einsum": product("dot_general", lambda a, b: jnp.einsum("ij,kj->ik", a, b), 3 * 6 * 4, X, TALL),
    "integers": product("dot_general", jnp.matmul, 3 * 4 * 3, WORDS, S((4, 3), "int32")),
    # a complex multiply-accumulate is four, and eight FLOPs
    "complex": product("dot_general", jnp.matmul, 4 * 3 * 4 * 5, COMPLEX, S((4, 5), "complex64")),
    "outer": Case(jnp.outer, (S((3,), "float32"), S((4,), "float32")), 0, 12, ""),
    "with a bias": product(
        "dot_general", lambda a, w, b: a @ w + b, 60, X, S((4, 5), "float32"), S((5,), "float32"), further=15
    ),
    "ragged": product("ragged_dot_general", lax.ragged_dot, 6 * 4 * 5, TALL, S((2, 4, 5), "float32"), S((2,), "int32")),
    "ragged, summed": product(
        "ragged_dot_general",
        lambda a, b, sizes: lax.ragged_dot_general(
            a, b, sizes, lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
        ),
        6 * 4 * 5,  # each of the 6 rows belongs to one group
        *(TALL, S((6, 5), "float32"), S((2,), "int32")),
    ),
    "convolution": convolution("SAME", 1, 2 * 8 * 8 * 6 * 27),
    "strided": convolution("VALID", 2, 2 * 3 * 3 * 6 * 27),
    "dilated": convolution("VALID", 1, 2 * 4 * 4 * 6 * 27, rhs_dilation=(2, 2)),  # windows reach over 5 x 5
    "grouped": convolution("SAME", 1, 2 * 8 * 8 * 6 * 9, kernel=DEPTHWISE, feature_group_count=3),
    "transposed": product(  # each input element meets a filter of 6 channels and 3 x 3
        "conv_general_dilated",
        lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=NHWC),
        2 * 8 * 8 * 3 * 6 * 9,
        *(IMAGE, KERNEL),
    ),
    "one dimension": product(
        "conv_general_dilated",
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")),
        2 * 6 * 5 * (3 * 4),
        *(S((2, 8, 4), "float32"), S((3, 4, 5), "float32")),
    ),
}

#: By Golub and Van Loan, of 5 x 5 and 6 x 4 matrices.
DECOMPOSITIONS = dict(
    [
        one("cholesky", lambda a: lax.linalg.cholesky(a, symmetrize_input=False), round(5**3 / 3), SQUARE),
        one("lu", lax.linalg.lu, round(2 * 5**3 / 3), SQUARE),
        one("qr", lambda a: lax.linalg.qr(a, full_matrices=False), round(2 * (2 * 4**2 * (6 - 4 / 3))), TALL),
        one("svd", lambda a: lax.linalg.svd(a, compute_uv=False), round(4 * 6 * 4**2 - 4 * 4**3 / 3), TALL),
        one("eigh", lambda a: lax.linalg.eigh(a, symmetrize_input=False), 9 * 5**3, SQUARE),
        one("eig", lambda a: lax.linalg.eig(a, compute_left_eigenvectors=False), 25 * 5**3, SQUARE),
        one("schur", lax.linalg.schur, 25 * 5**3, SQUARE),
        one("hessenberg", lax.linalg.hessenberg, round(10 * 5**3 / 3), SQUARE),
        one("tridiagonal", lax.linalg.tridiagonal, round(4 * 5**3 / 3), SQUARE),
        one(
            *("triangular_solve", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), 5**2 * 7),
            *(SQUARE, S((5, 7), "float32")),
        ),
        one(
            *("tridiagonal_solve", lambda d, b: lax.linalg.tridiagonal_solve(d, d, d, b), 3 * 5 + 5 * 5 * 2),
            *(S((5,), "float32"), S((5, 2), "float32")),
        ),
        one("fft", jnp.fft.fft, round(5 * 12 * log2(4)), COMPLEX),
        one("rfft2", jnp.fft.rfft2, round(5 / 2 * 12 * log2(12))),
    ]
)
DECOMPOSITIONS["rfft2"] = DECOMPOSITIONS["rfft2"]._replace(primitive="fft")

#: Primitives that JAX 0.12 has added: ``1 - x * x`` as ``(1 + x) * (1 - x)``, and Horner's rule, two steps for a
#: polynomial of the second degree.
ADDED: dict[str, Case] = {}
newest: Any = lax
if hasattr(lax, "polynomial"):
    ADDED = dict(
        [
            one("one_minus_square", newest.one_minus_square, 3 * 12),
            one("polynomial", lambda x: newest.polynomial(x, [1.0, 2.0, 3.0]), 2 * 2 * 12),
            one("log2", jnp.log2),
        ]
    )

CASES = {**ELEMENTWISE, **APPLIED, **FREE, **REDUCTIONS, **PRODUCTS, **DECOMPOSITIONS, **ADDED}


@pytest.mark.parametrize("name", CASES)
def test_closed_form(name: str) -> None:
    case = CASES[name]
    trace = trace_function(case.function, *case.inputs)
    assert not trace.uncounted
    assert (trace.macs, trace.flops) == (case.macs, case.flops)
    if case.primitive:
        assert case.primitive in {op.operator for op in trace.operators}


def test_there_are_closed_forms_of_sixty_primitives_at_least() -> None:
    with_work = {case.primitive for case in CASES.values() if case.flops and case.primitive}
    assert len(with_work) >= 60


# What the convention leaves out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (lambda x: x + 0.0, 0),
        (lambda x: x * 1.0, 0),
        (lambda x: x / 1.0, 0),
        (lambda x: x - 0.0, 0),
        (lambda x: 0.0 - x, 12),  # that is a difference
        (lambda x: 1.0 / x, 12),
        (lambda x: lax.max(x, -jnp.inf), 0),
        (lambda x: lax.max(x, jnp.inf), 12),
    ],
)
def test_a_neutral_operand_is_no_work(function: Callable[[Any], Any], flops: int) -> None:
    assert trace_function(function, X).flops == flops


def test_the_division_of_a_mean_is_not_counted() -> None:
    assert trace_function(lambda x: jnp.mean(x, 0), X).flops == 12
    assert trace_function(lambda x: jnp.sum(x, 0) / 5.0, X).flops == 12 + 4, "another divisor is no mean's"


def test_a_variance_takes_four_operations_for_each_element() -> None:
    """The mean, a difference, a square and an addition; its divisor is a number that is known before it runs."""
    assert trace_function(lambda x: jnp.var(x, 0), X).flops == 4 * 12


def test_a_softmax_takes_five() -> None:
    assert trace_function(jax.nn.softmax, X).flops == 5 * 12


@pytest.mark.parametrize("shape", [(), (1, 1), (3, 4)])
@pytest.mark.parametrize(
    ("function", "operations"),
    [
        (jax.nn.elu, 4),  # subtract, multiply, compare, exp
        (jax.nn.leaky_relu, 2),  # multiply, compare
        (jax.nn.softplus, 3),  # exp, add, log
        (jax.nn.mish, 5),  # softplus, tanh, multiply
        (jax.nn.hard_tanh, 2),  # a comparison for each bound
        (jax.nn.log_sigmoid, 5),  # negate, softplus, negate
        (lambda x: jnp.fmax(x, x), 1),
        (lambda x: jnp.heaviside(x, 0.5), 1),
        (lambda x: x // 2, 1),
        (lambda x: x % 2, 1),
        (jnp.trunc, 1),
        (jnp.sinc, 1),
    ],
)
def test_an_activation_takes_as_much_of_one_element_as_of_each_of_many(
    function: Any, operations: int, shape: tuple[int, ...]
) -> None:
    assert trace_function(function, jnp.ones(shape)).flops == operations * prod(shape)


@pytest.mark.parametrize("other", [S((), "float32"), S((4,), "float32"), X])
@pytest.mark.parametrize(
    ("function", "operations"),
    [
        *((jax.nn.celu, 4), (jax.nn.elu, 4), (jax.nn.leaky_relu, 2), (jnp.fmax, 1), (jnp.fmin, 1), (jnp.heaviside, 1)),
        *((jnp.floor_divide, 1), (jnp.remainder, 1), (jnp.hypot, 1), (jnp.copysign, 1)),
    ],
)
def test_a_function_of_two_arrays_takes_as_much_however_one_is_spread(function: Any, operations: int, other: S) -> None:
    assert trace_function(function, X, other).flops == operations * 12


def test_a_function_of_two_arrays_of_integers_is_no_work() -> None:
    assert trace_function(jnp.fmax, WORDS, WORDS).flops == 0
    assert trace_function(jnp.floor_divide, WORDS, WORDS).flops == 0


@pytest.mark.parametrize(("function", "operations"), [(jax.nn.elu, 4), (jax.nn.leaky_relu, 2), (jax.nn.hard_tanh, 2)])
def test_the_forward_pass_of_a_step_has_the_work_of_an_activation(function: Any, operations: int) -> None:
    model = JaxModel(lambda weight, x: function(weight * x), jnp.ones((3, 4)))
    step = JaxBackend().trace_training(model, ModelInputs(jnp.ones((3, 4))))
    assert sum(op.flops for op in step.operators if op.phase == "forward") == 12 + operations * 12


def test_a_gelu_takes_five() -> None:
    """``0.5 * x * erfc(-x / sqrt(2))``: two products, a negation, a product by a constant and the function."""
    assert trace_function(lambda x: jax.nn.gelu(x, approximate=False), X).flops == 5 * 12


def test_attention_costs_its_products_scale_and_softmax() -> None:
    query, pair = S((2, 7, 3, 8), "float32"), S((2, 9, 3, 8), "float32")
    scores = 2 * 3 * 7 * 9
    trace = trace_function(jax.nn.dot_product_attention, query, pair, pair)
    assert trace.macs == 2 * scores * 8
    assert trace.flops == 2 * trace.macs + scores * (1 + 5)


@pytest.mark.parametrize("is_paged", [False, True])
def test_attention_of_cudnn_reads_all_pages_of_the_keys(is_paged: bool) -> None:
    """2 sequences of 16 queries and 64 keys, which lie in 8 pages of 8, with 4 heads of 32."""
    keys, table = ((16, 8, 4, 32), (2, 1, 8, 1)) if is_paged else ((2, 64, 4, 32), (0,))
    shapes = [(2, 16, 4, 32), keys, keys, (0,), (2,), (2,), (0,), (0,), table, table]
    call = PrimitiveCall(
        "dot_product_attention_fwd",
        inputs=Shapes([Shape(shape) for shape in shapes]),
        outputs=Shapes([Shape((2, 16, 4, 32))]),
        params={"layout": 0, "variadic_args": (False, False), "dropout_rate": 0.0},
    )
    cost = OPERATORS.cost(call)
    assert cost is not None
    assert cost.macs == 2 * (2 * 4 * 16 * 64) * 32


@pytest.mark.parametrize(("way", "operations"), [("fwd", 2), ("bwd", 1)])
def test_attention_of_cudnn_drops_some_scores(way: str, operations: int) -> None:
    """``x * mask * scale`` for each score, as in torch; backwards it is ``dx * mask``, whose scale is a constant."""
    inputs = Shapes([Shape(shape) for shape in [(2, 16, 4, 32), (2, 64, 4, 32), (2, 64, 4, 32)]])
    flops = []
    for rate in (0.0, 0.1):
        params = {"layout": 0, "variadic_args": (False, False), "dropout_rate": rate}
        call = PrimitiveCall(
            f"dot_product_attention_{way}",
            inputs=inputs,
            outputs=inputs,
            input_dtypes=("float16",) * 3,
            output_dtypes=("float16",) * 3,
            params=params,
        )
        cost = OPERATORS.cost(call)
        assert cost is not None
        flops.append(cost.flops)
    assert flops[1] - flops[0] == operations * (2 * 4 * 16 * 64)


@pytest.mark.parametrize(
    ("window", "stride", "padding", "flops"),
    [
        (2, 2, "VALID", 4 * 4 * 2 * 4),
        (3, 2, "VALID", 3 * 3 * 2 * 9),  # 8 elements and windows of 3 leave one element out
        (3, 1, "VALID", 6 * 6 * 2 * 9),
        (3, 2, "SAME", 4 * 4 * 2 * 9),
    ],
)
def test_the_gradient_of_average_pooling_counts_no_zeros(window: int, stride: int, padding: str, flops: int) -> None:
    """Each gradient is added to each element of its window; the zeros around and between gradients are no work."""

    def pool(x: Any) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, (1, window, window, 1), (1, stride, stride, 1), padding).sum()

    assert trace_function(jax.grad(pool), S((1, 8, 8, 2), "float32")).flops == flops


def test_a_solution_is_a_decomposition_and_two_triangles() -> None:
    trace = trace_function(jnp.linalg.solve, SQUARE, S((5, 2), "float32"))
    assert not trace.uncounted
    assert trace.flops == round(2 * 5**3 / 3) + 2 * (5**2 * 2)


def test_work_on_integers_is_none_but_products() -> None:
    assert trace_function(lambda x: jnp.sum(x * x + 1), WORDS).flops == 0


def test_complex_numbers_count_their_real_operations() -> None:
    assert trace_function(jnp.multiply, COMPLEX, COMPLEX).flops == 12 * 6
    assert trace_function(jnp.add, COMPLEX, COMPLEX).flops == 12 * 2
