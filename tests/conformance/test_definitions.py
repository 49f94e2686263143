"""What an operation costs on complex numbers and on integers: by hand, and the same in each framework.

Torch and TensorFlow are called beside each definition; JAX and ONNX where they can spell it, under its name.

A complex multiplication is 4 real ones and 2 additions, a complex addition is 2. So a complex multiply-accumulate is 4
real ones, and 8 operations. Of integers the multiply-accumulates count, with two operations each, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from profilerkit import ModelInputs
from profilerkit.costs import Cost, Numbers, apply_formula, constants, convention
from profilerkit.costs.complex_numbers import OPERATIONS

N = 12  # elements of 3 x 4


@dataclass(frozen=True)
class Definition:
    """An operation in both frameworks, its arguments, and its MACs and FLOPs by hand."""

    torch: Callable[..., Any] | None
    tensorflow: Callable[..., Any] | None
    inputs: tuple[np.ndarray[Any, Any], ...]
    macs: int
    flops: int


def z(*shape: int) -> np.ndarray[Any, Any]:
    return (np.ones(shape) + 1j * np.ones(shape)).astype("complex64")


def whole(*shape: int, dtype: str = "int32") -> np.ndarray[Any, Any]:
    return np.ones(shape, dtype)


def real(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, "float32")


def make_elementwise(name: str, flops: int, tensorflow_name: str | None = "", operands: int = 1) -> Definition:
    """Return an operation of so many real operations for each of 3 x 4 elements."""

    def in_tensorflow(tf: Any, *x: Any) -> Any:
        return getattr(tf.math, tensorflow_name or name)(*x)

    return Definition(
        lambda torch, *x: getattr(torch, name)(*x),
        None if tensorflow_name is None else in_tensorflow,
        (z(3, 4),) * operands,
        0,
        flops * N,
    )


DEFINITIONS = {
    # 3 x 4 with 4 x 5: 60 complex multiply-accumulates
    "complex product": Definition(lambda t, a, b: a @ b, lambda t, a, b: a @ b, (z(3, 4), z(4, 5)), 240, 480),
    "complex products in a batch": Definition(
        lambda t, a, b: a @ b, lambda t, a, b: a @ b, (z(2, 3, 4), z(2, 4, 5)), 480, 960
    ),
    "complex einsum": Definition(
        lambda t, a, b: t.einsum("ij,jk->ik", a, b),
        lambda t, a, b: t.einsum("ij,jk->ik", a, b),
        (z(3, 4), z(4, 5)),
        240,
        480,
    ),
    # and 15 complex additions
    "complex product with a bias": Definition(
        lambda t, a, b, c: t.addmm(c, a, b), lambda t, a, b, c: a @ b + c, (z(3, 4), z(4, 5), z(5)), 240, 480 + 30
    ),
    "complex linear": Definition(
        lambda t, a, b, c: t.nn.functional.linear(a, b, c), None, (z(3, 4), z(5, 4), z(5)), 240, 480 + 30
    ),
    # 2 channels of 6 x 6 to 3 of 4 x 4 by 3 x 3: 48 outputs of 18 complex multiply-accumulates and a bias
    "complex convolution": Definition(
        lambda t, x, w, b: t.nn.functional.conv2d(x, w, b),
        None,
        (z(1, 2, 6, 6), z(3, 2, 3, 3), z(3)),
        4 * 48 * 18,
        8 * 48 * 18 + 2 * 48,
    ),
    "complex scalar product": Definition(lambda t, x, y: t.dot(x, y), None, (z(7), z(7)), 28, 56),
    "x * conj(x)": Definition(lambda t, x: x * t.conj(x), lambda t, x: x * t.math.conj(x), (z(3, 4),), 0, 6 * N),
    "conj(x) * x": Definition(lambda t, x: t.conj(x) * x, lambda t, x: t.math.conj(x) * x, (z(3, 4),), 0, 6 * N),
    "conj(x) * y": Definition(
        lambda t, x, y: t.conj(x) * y, lambda t, x, y: t.math.conj(x) * y, (z(3, 4),) * 2, 0, 6 * N
    ),
    # the product is a complex one, whatever is used of it
    "real(x * conj(x))": Definition(
        lambda t, x: t.real(x * t.conj(x)), lambda t, x: t.math.real(x * t.math.conj(x)), (z(3, 4),), 0, 6 * N
    ),
    "imag(x * conj(x))": Definition(
        lambda t, x: t.imag(x * t.conj(x)), lambda t, x: t.math.imag(x * t.math.conj(x)), (z(3, 4),), 0, 6 * N
    ),
    "sum of x * conj(x), then its real part": Definition(
        lambda t, x: (x * t.conj(x)).sum().real,
        lambda t, x: t.math.real(t.reduce_sum(x * t.math.conj(x))),
        (z(3, 4),),
        0,
        6 * N + 2 * N,
    ),
    "real(x) ** 2 + imag(x) ** 2": Definition(
        lambda t, x: x.real**2 + x.imag**2,
        lambda t, x: t.math.real(x) ** 2 + t.math.imag(x) ** 2,
        (z(3, 4),),
        0,
        3 * N,
    ),
    "abs(x) ** 2": Definition(lambda t, x: t.abs(x) ** 2, lambda t, x: t.abs(x) ** 2, (z(3, 4),), 0, (4 + 1) * N),
    "scalar product with a conjugate": Definition(
        lambda t, x, y: t.vdot(x, y), lambda t, x, y: t.tensordot(t.math.conj(x), y, 1), (z(7), z(7)), 28, 56
    ),
    "scalar product with itself": Definition(
        lambda t, x: t.vdot(x, x), lambda t, x: t.tensordot(t.math.conj(x), x, 1), (z(7),), 28, 56
    ),
    # 3 x 4 with 4 x 3: 36 complex multiply-accumulates
    "product with the adjoint": Definition(
        lambda t, x: x @ x.mH, lambda t, x: t.matmul(x, x, adjoint_b=True), (z(3, 4),), 144, 288
    ),
    # 3 x 4 complex multiply-accumulates
    "einsum with a conjugate": Definition(
        lambda t, x: t.einsum("ij,ij->i", x, x.conj()),
        lambda t, x: t.einsum("ij,ij->i", x, t.math.conj(x)),
        (z(3, 4),),
        48,
        96,
    ),
    "x / conj(y)": Definition(
        lambda t, x, y: x / t.conj(y), lambda t, x, y: x / t.math.conj(y), (z(3, 4),) * 2, 0, 11 * N
    ),
    "x / 2": Definition(lambda t, x: x / 2, lambda t, x: x / 2, (z(3, 4),), 0, 11 * N),
    "x * 2j": Definition(lambda t, x: x * 2j, lambda t, x: x * 2j, (z(3, 4),), 0, 6 * N),
    "x ** 2": Definition(lambda t, x: x**2, lambda t, x: x**2, (z(3, 4),), 0, 17 * N),
    "outer product": Definition(
        lambda t, x, y: t.outer(x, y), lambda t, x, y: x[:, None] * y[None], (z(3), z(4)), 0, 6 * N
    ),
    "cumulative sum": Definition(lambda t, x: t.cumsum(x, 0), lambda t, x: t.cumsum(x, 0), (z(3, 4),), 0, 2 * N),
    "x + y": make_elementwise("add", 2, operands=2),
    "x - y": make_elementwise("sub", 2, "subtract", operands=2),
    "x * y": make_elementwise("mul", 6, "multiply", operands=2),  # 4 products, a difference, a sum
    "x / y": make_elementwise("div", 11, "divide", operands=2),  # x * conj(y), of 6; c * c + d * d, of 3; 2 quotients
    "1 / x": make_elementwise("reciprocal", 11),
    "-x": make_elementwise("neg", 2, "negative"),
    "abs": make_elementwise("abs", 4),  # two squares, a sum, a root
    "angle": make_elementwise("angle", 1),
    "sign": make_elementwise("sgn", 6, None),  # abs(x), two quotients
    "exp": make_elementwise("exp", 5),  # exp, cos, sin, two products
    "log": make_elementwise("log", 6),  # abs(x), its log, the angle
    "sqrt": make_elementwise("sqrt", 9),  # abs(x); + a, / 2, root; 2 * t, b / it
    "rsqrt": make_elementwise("rsqrt", 20),
    "sin": make_elementwise("sin", 6),  # sin, cos, sinh, cosh, two products
    "cosh": make_elementwise("cosh", 6),
    "tanh": make_elementwise("tanh", 9),  # 2 a, 2 b; sinh, cosh, sin, cos; a sum; two quotients
    "sigmoid": make_elementwise("sigmoid", 20),  # -x, exp, 1 + it, 1 / it
    "asinh": make_elementwise("asinh", 25),  # x * x, + 1, root, + x, log
    "x ** y": make_elementwise("pow", 17, operands=2),  # log, times y, exp
    "sum": make_elementwise("sum", 2, "reduce_sum"),
    "mean": make_elementwise("mean", 2, "reduce_mean"),
    "prod": make_elementwise("prod", 6, "reduce_prod"),
    "variance": make_elementwise("var", 8, None),  # mean, difference; a * a + b * b; a real sum
    # of several operators: mean, difference; x * conj(x) of 6; a real sum
    "variance of several operators": Definition(
        None, lambda t, x: t.math.reduce_variance(x), (z(3, 4),), 0, (2 + 2 + 6 + 1) * N
    ),
    "norm": Definition(lambda t, x: t.linalg.vector_norm(x), None, (z(3, 4),), 0, 4 * N),
    "x + value * a * b": make_elementwise("addcmul", 14, None, operands=3),
    "a real factor is converted first": Definition(lambda t, x, y: x * y, None, (z(3, 4), real(3, 4)), 0, 6 * N),
    "made of real numbers": Definition(
        lambda t, x, y: t.complex(x, y), lambda t, x, y: t.complex(x, y), (real(3, 4), real(3, 4)), 0, 0
    ),
    "from polar coordinates": Definition(lambda t, x, y: t.polar(x, y), None, (real(3, 4), real(3, 4)), 0, 4 * N),
    "rotary embedding": Definition(
        lambda t, x, w: t.view_as_real(t.view_as_complex(x) * w), None, (real(3, 4, 2), z(3, 4)), 0, 6 * N
    ),
    # 3 transforms of 4 points: 5 * 12 * 2, of complex points already
    "transform": Definition(lambda t, x: t.fft.fft(x), lambda t, x: t.signal.fft(x), (z(3, 4),), 0, 120),
    # 2 n ** 3 / 3 + 2 n ** 2 of real numbers, n = 3: 36; four times as many
    "solution": Definition(lambda t, a, b: t.linalg.solve(a + 0, b), None, (z(3, 3), z(3, 1)), 0, 4 * 36 + 2 * 9),
    "integer product": Definition(lambda t, a, b: a @ b, lambda t, a, b: a @ b, (whole(3, 4), whole(4, 5)), 60, 120),
    "integer product with a bias": Definition(
        lambda t, a, b, c: t.addmm(c, a, b),
        lambda t, a, b, c: a @ b + c,
        (whole(3, 4), whole(4, 5), whole(5)),
        60,
        120,
    ),
    "integer einsum": Definition(
        lambda t, a, b: t.einsum("ij,jk->ik", a, b),
        lambda t, a, b: t.einsum("ij,jk->ik", a, b),
        (whole(3, 4), whole(4, 5)),
        60,
        120,
    ),
    "integer convolution": Definition(
        lambda t, x, w, b: t.nn.functional.conv1d(x, w, b),
        None,
        (whole(1, 2, 6, dtype="int64"), whole(3, 2, 3, dtype="int64"), whole(3, dtype="int64")),
        72,
        144,
    ),
    "integer sum": Definition(lambda t, x: x.sum(), lambda t, x: t.reduce_sum(x), (whole(3, 4),), 0, 0),
    "integer x * y": Definition(lambda t, x, y: x * y, lambda t, x, y: x * y, (whole(3, 4), whole(3, 4)), 0, 0),
}


#: The same in JAX, called with ``jax`` and the arguments.
JAX: dict[str, Callable[..., Any]] = {
    "complex product": lambda jax, a, b: a @ b,
    "complex products in a batch": lambda jax, a, b: a @ b,
    "complex einsum": lambda jax, a, b: jax.numpy.einsum("ij,jk->ik", a, b),
    "complex product with a bias": lambda jax, a, b, c: a @ b + c,
    "complex linear": lambda jax, a, b, c: a @ b.T + c,
    "complex convolution": lambda jax, x, w, b: (
        jax.lax.conv_general_dilated(x, w, (1, 1), "VALID") + b[None, :, None, None]
    ),
    "complex scalar product": lambda jax, x, y: jax.numpy.dot(x, y),
    "x * conj(x)": lambda jax, x: x * jax.numpy.conj(x),
    "conj(x) * x": lambda jax, x: jax.numpy.conj(x) * x,
    "conj(x) * y": lambda jax, x, y: jax.numpy.conj(x) * y,
    "real(x * conj(x))": lambda jax, x: (x * jax.numpy.conj(x)).real,
    "imag(x * conj(x))": lambda jax, x: (x * jax.numpy.conj(x)).imag,
    "sum of x * conj(x), then its real part": lambda jax, x: (x * jax.numpy.conj(x)).sum().real,
    "real(x) ** 2 + imag(x) ** 2": lambda jax, x: x.real**2 + x.imag**2,
    "abs(x) ** 2": lambda jax, x: jax.numpy.abs(x) ** 2,
    "scalar product with a conjugate": lambda jax, x, y: jax.numpy.vdot(x, y),
    "scalar product with itself": lambda jax, x: jax.numpy.vdot(x, x),
    "product with the adjoint": lambda jax, x: x @ x.conj().T,
    "einsum with a conjugate": lambda jax, x: jax.numpy.einsum("ij,ij->i", x, x.conj()),
    "x / conj(y)": lambda jax, x, y: x / jax.numpy.conj(y),
    "x / 2": lambda jax, x: x / 2,
    "x * 2j": lambda jax, x: x * 2j,
    "x ** 2": lambda jax, x: x**2,
    "outer product": lambda jax, x, y: jax.numpy.outer(x, y),
    "cumulative sum": lambda jax, x: jax.numpy.cumsum(x, 0),
    "x + y": lambda jax, x, y: x + y,
    "x - y": lambda jax, x, y: x - y,
    "x * y": lambda jax, x, y: x * y,
    "x / y": lambda jax, x, y: x / y,
    "1 / x": lambda jax, x: jax.numpy.reciprocal(x),
    "-x": lambda jax, x: -x,
    "abs": lambda jax, x: jax.numpy.abs(x),
    "angle": lambda jax, x: jax.numpy.angle(x),
    "sign": lambda jax, x: jax.numpy.sign(x),
    "exp": lambda jax, x: jax.numpy.exp(x),
    "log": lambda jax, x: jax.numpy.log(x),
    "sqrt": lambda jax, x: jax.numpy.sqrt(x),
    "rsqrt": lambda jax, x: jax.lax.rsqrt(x),
    "sin": lambda jax, x: jax.numpy.sin(x),
    "cosh": lambda jax, x: jax.numpy.cosh(x),
    "tanh": lambda jax, x: jax.numpy.tanh(x),
    "sigmoid": lambda jax, x: jax.nn.sigmoid(x),
    "asinh": lambda jax, x: jax.numpy.arcsinh(x),
    "x ** y": lambda jax, x, y: jax.numpy.power(x, y),
    "sum": lambda jax, x: jax.numpy.sum(x),
    "mean": lambda jax, x: jax.numpy.mean(x),
    "prod": lambda jax, x: jax.numpy.prod(x),
    "variance of several operators": lambda jax, x: jax.numpy.var(x),
    "x + value * a * b": lambda jax, x, a, b: x + 0.5 * a * b,
    "a real factor is converted first": lambda jax, x, y: x * y,
    "made of real numbers": lambda jax, x, y: jax.lax.complex(x, y),
    "rotary embedding": lambda jax, x, w: jax.lax.complex(x[..., 0], x[..., 1]) * w,
    "transform": lambda jax, x: jax.numpy.fft.fft(x),
    "solution": lambda jax, a, b: jax.numpy.linalg.solve(a + a, b),
    "integer product": lambda jax, a, b: a @ b,
    "integer product with a bias": lambda jax, a, b, c: a @ b + c,
    "integer einsum": lambda jax, a, b: jax.numpy.einsum("ij,jk->ik", a, b),
    "integer convolution": lambda jax, x, w, b: jax.lax.conv_general_dilated(x, w, (1,), "VALID") + b[None, :, None],
    "integer sum": lambda jax, x: jax.numpy.sum(x),
    "integer x * y": lambda jax, x, y: x * y,
}
#: The same as one operator of ONNX, with its attributes; it has no arithmetic of complex numbers but transforms.
ONNX: dict[str, tuple[str, Callable[..., tuple[Any, ...]], dict[str, Any]]] = {
    "transform": ("DFT", lambda x: (np.stack([x.real, x.imag], -1),), {}),
    "integer product": ("MatMul", lambda a, b: (a, b), {}),
    "integer product with a bias": ("Gemm", lambda a, b, c: (a, b, c), {}),
    "integer einsum": ("Einsum", lambda a, b: (a, b), {"equation": "ij,jk->ik"}),
    "integer convolution": ("ConvInteger", lambda x, w, b: (x.astype("uint8"), w.astype("uint8")), {}),
    "integer sum": ("ReduceSum", lambda x: (x,), {}),
    "integer x * y": ("Mul", lambda x, y: (x, y), {}),
}


@pytest.mark.parametrize("name", [name for name, definition in DEFINITIONS.items() if definition.torch])
def test_in_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    from profilerkit_torch import TorchBackend

    definition = DEFINITIONS[name]

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *x: Any) -> Any:
            assert definition.torch is not None
            return definition.torch(torch, *x)

    trace = TorchBackend().trace(Net(), ModelInputs(*map(torch.as_tensor, definition.inputs)))
    assert (trace.failure, dict(trace.uncounted)) == (None, {})
    assert (trace.macs, trace.flops) == (definition.macs, definition.flops)


@pytest.mark.parametrize("name", [name for name, definition in DEFINITIONS.items() if definition.tensorflow])
def test_in_tensorflow(name: str) -> None:
    tf = pytest.importorskip("tensorflow")
    from profilerkit_tensorflow import TFBackend

    definition = DEFINITIONS[name]

    class Net(tf.Module):  # type: ignore[misc, name-defined]
        def __call__(self, *x: Any) -> Any:
            assert definition.tensorflow is not None
            return definition.tensorflow(tf, *x)

    trace = TFBackend().trace(Net(), ModelInputs(*map(tf.constant, definition.inputs)))
    assert (trace.failure, dict(trace.uncounted)) == (None, {})
    assert (trace.macs, trace.flops) == (definition.macs, definition.flops)


@pytest.mark.parametrize("name", JAX)
def test_in_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    from profilerkit_jax.backend import JaxBackend

    definition = DEFINITIONS[name]
    inputs = ModelInputs(*map(jax.numpy.asarray, definition.inputs))
    trace = JaxBackend().trace(lambda *x: JAX[name](jax, *x), inputs)
    assert (trace.failure, dict(trace.uncounted)) == (None, {})
    assert (trace.macs, trace.flops) == (definition.macs, definition.flops)


@pytest.mark.parametrize("name", ONNX)
def test_in_onnx(name: str) -> None:
    pytest.importorskip("onnx")
    from onnx_graphs import trace_node

    definition, (operator, arguments, attributes) = DEFINITIONS[name], ONNX[name]
    trace = trace_node(operator, *arguments(*definition.inputs), **attributes)
    assert dict(trace.uncounted) == {}
    assert (trace.macs, trace.flops) == (definition.macs, definition.flops)


@pytest.mark.parametrize(("dtype", "macs", "flops"), [("complex64", 160, 330), ("int32", 40, 80), ("float32", 40, 85)])
def test_in_the_numpy_example(dtype: str, macs: int, flops: int) -> None:
    """One sample of 8 numbers to 5: 40 multiply-accumulates, and 5 additions."""
    pytest.importorskip("profilerkit_numpy")
    from profilerkit_numpy.backend import NumpyBackend
    from profilerkit_numpy.layers import Sequential, dense

    layer = dense(8, 5)
    layer.weights = {name: array.astype(dtype) for name, array in layer.weights.items()}
    trace = NumpyBackend().trace(Sequential(layer), ModelInputs(np.ones((1, 8), dtype)))
    assert (trace.macs, trace.flops) == (macs, flops)


def test_every_constant_is_one_of_complex_numbers_too() -> None:
    assert set(OPERATIONS) == {name for name in vars(convention) if name.isupper()}


def test_the_constants_of_complex_numbers_are_sums_of_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPERATIONS:
        monkeypatch.setattr(convention, name, 100 * getattr(convention, name))
    assert apply_formula(Cost.of_macs, Numbers.COMPLEX, 1) == (4, 800)
    assert apply_formula(lambda: Cost(0, constants.EXP), Numbers.COMPLEX) == (0, 500)
    assert apply_formula(lambda: Cost(0, constants.EXP), Numbers.REAL) == (0, 100)


def test_a_formula_that_raises_leaves_the_numbers_real() -> None:
    with pytest.raises(ZeroDivisionError):
        apply_formula(lambda: Cost(0, 1 // 0), Numbers.COMPLEX)
    assert Cost.of_macs(1, constants.ADD) == (1, 3)


@pytest.mark.parametrize(
    ("arguments", "results", "numbers"),
    [
        (["complex64"], ["float32"], Numbers.COMPLEX),
        (["float32", "complex128"], ["complex128"], Numbers.COMPLEX),
        (["float32"], ["complex64"], Numbers.REAL),
        (["int8"], ["bfloat16"], Numbers.REAL),
        (["qint8", "int32"], ["qint32"], Numbers.INTEGER),
        ([], ["float16"], Numbers.REAL),
        (["bool"], ["bool"], Numbers.INTEGER),
    ],
)
def test_numbers_by_the_names_of_dtypes(arguments: list[str], results: list[str], numbers: Numbers) -> None:
    assert Numbers.of(arguments, results) is numbers
