"""Functions of one family each, and how many of each elementary function one element takes, worked out by hand.

Each is spelt in PyTorch and in TensorFlow. The recipes are read off the definitions, not off the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["PROBES", "Probe"]

N = 12  # elements of every input: 3 x 4


@dataclass(frozen=True)
class Probe:
    """One function of a 3 x 4 tensor x (and y of the same shape), and what it takes in all.

    Attributes:
        torch: The function over torch's tensors; None where the framework has no such operator.
        tensorflow: The function over TensorFlow's.
        takes: How many of each elementary function all elements take together.
        onnx: The type of the ONNX node that computes it, of x, or of x and y.
        jax: The function over JAX's arrays, given the module ``jax``.
        openvino: The type of OpenVINO's node.
        litert: The type of LiteRT's operator.
    """

    torch: Callable[..., Any] | None
    tensorflow: Callable[..., Any] | None
    takes: Mapping[str, int]
    onnx: str | None = None
    jax: Callable[..., Any] | None = None
    openvino: str | None = None
    litert: str | None = None


def _make_probe(constant: str, torch_name: str | None, tensorflow_name: str | None) -> Probe:
    """Return the probe of an elementary function of one tensor."""

    def in_torch(torch: Any, x: Any, y: Any) -> Any:
        return getattr(torch, torch_name or "")(x)

    def in_tensorflow(tf: Any, x: Any, y: Any) -> Any:
        return getattr(tf.raw_ops, tensorflow_name or "")(x=x)

    return Probe(in_torch if torch_name else None, in_tensorflow if tensorflow_name else None, {constant: N})


def _softplus(**further: int) -> dict[str, int]:
    return _each(EXP=1, ADD=1, LOG=1, **further)


def _each(**counts: int) -> dict[str, int]:
    return {name: count * N for name, count in counts.items()}


PROBES: dict[str, Probe] = {
    "exp": _make_probe("EXP", "exp", "Exp"),
    "expm1": _make_probe("EXP", "expm1", "Expm1"),
    "log": _make_probe("LOG", "log", "Log"),
    "log1p": _make_probe("LOG", "log1p", "Log1p"),
    "sqrt": _make_probe("SQRT", "sqrt", "Sqrt"),
    "rsqrt": _make_probe("RSQRT", "rsqrt", "Rsqrt"),
    "sin": _make_probe("SINE", "sin", "Sin"),
    "cos": _make_probe("SINE", "cos", "Cos"),
    "erf": _make_probe("ERF", "erf", "Erf"),
    "tanh": _make_probe("TANH", "tanh", "Tanh"),
    "sigmoid": _make_probe("SIGMOID", "sigmoid", "Sigmoid"),
    "abs": _make_probe("ABSOLUTE", "abs", "Abs"),
    "angle": _make_probe("ANGLE", "angle", None),
    "neg": _make_probe("NEGATE", "neg", "Neg"),
    "sign": _make_probe("SIGN", "sign", "Sign"),
    "floor": _make_probe("ROUND", "floor", "Floor"),
    "reciprocal": _make_probe("DIVIDE", "reciprocal", "Reciprocal"),
    "square": _make_probe("POWER", "square", "Square"),
    "lgamma": _make_probe("SPECIAL", "lgamma", "Lgamma"),
    "atan": _make_probe("SPECIAL", "atan", "Atan"),
    "relu": Probe(lambda t, x, y: t.relu(x), lambda t, x, y: t.nn.relu(x), _each(COMPARE=1)),
    "add": Probe(lambda t, x, y: x + y, lambda t, x, y: x + y, _each(ADD=1)),
    "sub": Probe(lambda t, x, y: x - y, lambda t, x, y: x - y, _each(SUBTRACT=1)),
    "mul": Probe(lambda t, x, y: x * y, lambda t, x, y: x * y, _each(MULTIPLY=1)),
    "div": Probe(lambda t, x, y: x / y, lambda t, x, y: x / y, _each(DIVIDE=1)),
    "maximum": Probe(lambda t, x, y: t.maximum(x, y), lambda t, x, y: t.maximum(x, y), _each(COMPARE=1)),
    "sum": Probe(lambda t, x, y: x.sum(), lambda t, x, y: t.reduce_sum(x), _each(ADD=1)),
    "mean": Probe(lambda t, x, y: x.mean(), lambda t, x, y: t.reduce_mean(x), _each(ADD=1)),
    "max": Probe(lambda t, x, y: t.amax(x), lambda t, x, y: t.reduce_max(x), _each(COMPARE=1)),
    "prod": Probe(lambda t, x, y: x.prod(), lambda t, x, y: t.reduce_prod(x), _each(MULTIPLY=1)),
    "softmax": Probe(
        lambda t, x, y: x.softmax(-1),
        lambda t, x, y: t.nn.softmax(x),
        _each(COMPARE=1, SUBTRACT=1, EXP=1, ADD=1, DIVIDE=1),
    ),
    "log_softmax": Probe(
        lambda t, x, y: x.log_softmax(-1),
        lambda t, x, y: t.nn.log_softmax(x),
        _each(COMPARE=1, SUBTRACT=2, EXP=1, ADD=1),
    ),
    "softplus": Probe(
        lambda t, x, y: t.nn.functional.softplus(x), lambda t, x, y: t.raw_ops.Softplus(features=x), _softplus()
    ),
    "silu": Probe(lambda t, x, y: t.nn.functional.silu(x), None, _each(SIGMOID=1, MULTIPLY=1)),
    "mish": Probe(lambda t, x, y: t.nn.functional.mish(x), None, _softplus(TANH=1, MULTIPLY=1)),
    "elu": Probe(
        lambda t, x, y: t.nn.functional.elu(x),
        lambda t, x, y: t.raw_ops.Elu(features=x),
        _each(COMPARE=1, EXP=1, SUBTRACT=1, MULTIPLY=1),
    ),
    "gelu by erf": Probe(lambda t, x, y: t.nn.functional.gelu(x), None, _each(MULTIPLY=2, ADD=1, ERF=1, DIVIDE=1)),
    "gelu by tanh": Probe(
        lambda t, x, y: t.nn.functional.gelu(x, approximate="tanh"),
        None,
        _each(MULTIPLY=4, ADD=2, TANH=1, POWER=1),
    ),
    "leaky relu": Probe(
        lambda t, x, y: t.nn.functional.leaky_relu(x),
        lambda t, x, y: t.raw_ops.LeakyRelu(features=x),
        _each(COMPARE=1, MULTIPLY=1),
    ),
    "hard swish": Probe(
        lambda t, x, y: t.nn.functional.hardswish(x), None, _each(ADD=1, COMPARE=2, DIVIDE=1, MULTIPLY=1)
    ),
    "logsumexp": Probe(lambda t, x, y: x.logsumexp(-1), None, _each(COMPARE=1, SUBTRACT=1, EXP=1, ADD=1)),
    "layer norm": Probe(
        lambda t, x, y: t.nn.functional.layer_norm(x, (4,)), None, _each(ADD=2, SUBTRACT=1, POWER=1, MULTIPLY=1)
    ),
    "matmul": Probe(  # 3 x 4 with 4 x 3
        lambda t, x, y: x @ y.T, lambda t, x, y: t.matmul(x, y, transpose_b=True), {"MULTIPLY": 36, "ADD": 36}
    ),
    "relu gradient": Probe(
        lambda t, x, y: t.ops.aten.threshold_backward(x, y, 0),
        lambda t, x, y: t.raw_ops.ReluGrad(gradients=x, features=y),
        _each(ELEMENTARY_GRADIENT=1),
    ),
    "tanh gradient": Probe(
        lambda t, x, y: t.ops.aten.tanh_backward(x, y),
        lambda t, x, y: t.raw_ops.TanhGrad(y=x, dy=y),
        _each(ELEMENTARY_GRADIENT=1),
    ),
    "gelu gradient": Probe(
        lambda t, x, y: t.ops.aten.gelu_backward(x, y),
        None,
        # cdf: x / sqrt(2), erf, 1 +, 0.5 *; pdf: x ** 2, -0.5 *, exp, k *; x * pdf, +, dy *
        _each(DIVIDE=1, ERF=1, ADD=2, MULTIPLY=5, POWER=1, EXP=1),
    ),
    "gelu gradient by tanh": Probe(
        lambda t, x, y: t.ops.aten.gelu_backward(x, y, approximate="tanh"),
        None,
        # (1 + t): times dy, 0.5 *; dy * 0.5 x, through tanh, k *; 0.044715 *, 3 *, x ** 2, *; two sums
        _each(MULTIPLY=7, ELEMENTARY_GRADIENT=1, POWER=1, ADD=2),
    ),
    "nextafter": Probe(
        lambda t, x, y: t.nextafter(x, y), lambda t, x, y: t.raw_ops.NextAfter(x1=x, x2=y), _each(SPECIAL=1)
    ),
    "transform": Probe(  # 3 transforms of 4 points: 12 * log2(4) doublings, half of them for real points
        lambda t, x, y: t.fft.fft(t.complex(x, y)), lambda t, x, y: t.signal.fft(t.complex(x, y)), {"FOURIER_POINT": 24}
    ),
    "named nowhere": Probe(lambda t, x, y: t.nan_to_num(x), None, _each(ELEMENTWISE=1)),
}

#: Nodes of ONNX with one input or two.
_NODES = {
    **{name: name.title() for name in ("exp", "log", "sqrt", "sin", "cos", "erf", "tanh", "sigmoid", "abs", "neg")},
    **{name: name.title() for name in ("sign", "floor", "reciprocal", "relu", "add", "sub", "mul", "div")},
    "softmax": "Softmax",
    "log_softmax": "LogSoftmax",
    "softplus": "Softplus",
    "elu": "Elu",
}


#: Those of OpenVINO and LiteRT with the same number of inputs.
_OPENVINO = {
    **{name: name.title() for name in ("exp", "log", "sqrt", "sin", "cos", "erf", "tanh", "sigmoid", "abs", "sign")},
    "neg": "Negative",
    "floor": "Floor",
    "relu": "Relu",
    "add": "Add",
    "sub": "Subtract",
    "mul": "Multiply",
    "div": "Divide",
    "softmax": "Softmax",
    "log_softmax": "LogSoftmax",
    "softplus": "SoftPlus",
    "elu": "Elu",
}
_LITERT = {
    **{name: name.upper() for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "abs", "neg", "sign", "floor")},
    "relu": "RELU",
    "add": "ADD",
    "sub": "SUB",
    "mul": "MUL",
    "div": "DIV",
    "elu": "ELU",
    "sigmoid": "LOGISTIC",
    "softmax": "SOFTMAX",
    "log_softmax": "LOG_SOFTMAX",
}


def _in_jax() -> dict[str, Callable[..., Any]]:
    """Return the functions that JAX spells with as many elementary functions as the other frameworks."""
    of_numpy = (
        *("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "abs", "sign", "floor", "reciprocal"),
        *("square", "sum", "mean", "max", "prod"),
    )
    of_lax = {"rsqrt": "rsqrt", "erf": "erf", "sigmoid": "logistic", "neg": "neg", "lgamma": "lgamma", "atan": "atan"}
    functions: dict[str, Callable[..., Any]] = {
        "relu": lambda jax, x, y: jax.nn.relu(x),
        "add": lambda jax, x, y: x + y,
        "sub": lambda jax, x, y: x - y,
        "mul": lambda jax, x, y: x * y,
        "div": lambda jax, x, y: x / y,
        "maximum": lambda jax, x, y: jax.numpy.maximum(x, y),
        "softmax": lambda jax, x, y: jax.nn.softmax(x),
        "silu": lambda jax, x, y: jax.nn.silu(x),
        "gelu by tanh": lambda jax, x, y: jax.nn.gelu(x, approximate=True),
        "matmul": lambda jax, x, y: x @ y.T,
        "nextafter": lambda jax, x, y: jax.lax.nextafter(x, y),
    }
    for name in of_numpy:
        functions[name] = lambda jax, x, y, name=name: getattr(jax.numpy, name)(x)
    for name, primitive in of_lax.items():
        functions[name] = lambda jax, x, y, primitive=primitive: getattr(jax.lax, primitive)(x)
    return functions


PROBES = {
    name: replace(
        probe,
        onnx=_NODES.get(name),
        jax=_in_jax().get(name),
        openvino=_OPENVINO.get(name),
        litert=_LITERT.get(name),
    )
    for name, probe in PROBES.items()
}
