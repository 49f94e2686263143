"""Profile a few models of JAX without one of the names in `profilerkit_jax.compat`, and print what the reports say.

The arguments are paths, attributes, or "primitive:parameter"; with an empty one nothing is taken away.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module, reload
from pathlib import Path
from typing import Any

import absent_names
import equinox
import jax
import jax.numpy as jnp
import numpy as np
from absent_names import each_without, find_outcome, names_in
from flax import nnx
from jax import lax

from profilerkit.backend_kit import keras_layers
from profilerkit_jax import JaxModel, compat

#: The private names of Keras, which the core looks for.
OF_KERAS = names_in(Path(keras_layers.__file__))
KEYS = ("macs", "flops", "training_macs", "training_flops", "total_params", "sparsity")


def take_away(name: str) -> None:
    if not name:
        return
    primitive, _, parameter = name.partition(":")
    if name in compat.PATHS:
        module, _, last = name.rpartition(".")
        delattr(import_module(module), last)
    elif name in OF_KERAS:
        absent_names.take_away(name)
        reload(keras_layers)
    elif name in compat.ATTRIBUTES:
        read = compat.attribute
        setattr(compat, "attribute", lambda value, path: None if path == name else read(value, path))  # noqa: B010
    else:

        class Without(compat._Parameters):
            def __init__(self, equation: Any) -> None:
                super().__init__(equation)
                if equation.primitive.name == primitive:
                    self.pop(parameter, None)

        setattr(compat, "_Parameters", Without)  # noqa: B010


def scan(weight: Any, x: Any) -> Any:
    x = lax.scan(lambda carry, piece: (jnp.tanh(carry @ weight), piece * 2.0), x, jnp.ones((5, 3)))[0]
    x = lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 2, s[1] @ weight), (0, x))[1]
    return lax.while_loop(lambda s: s[0] > 1.0, lambda s: (s[0] / 2, s[1] @ weight), (jnp.float32(8), x))[1]


def branch(x: Any, is_long: Any) -> Any:
    return lax.cond(is_long, lambda: x @ x.T @ x, lambda: x)


def perceptron(params: Any, x: Any) -> Any:
    x @ params["first"] @ params["second"]  # which no output needs
    return jax.nn.elu(x @ (params["first"] * params["mask"])) @ params["second"]


def algebra(x: Any) -> Any:
    q, r = jnp.linalg.qr(x)
    return (
        *(q, r, jnp.linalg.svd(x), jnp.linalg.solve(x, x), jnp.fft.fft(x), x**3, jax.scipy.linalg.schur(x)),
        *(lax.linalg.triangular_solve(x, x, left_side=True), lax.linalg.eig(x)),
        lax.reduce(x, np.float32(0), lambda one, two: one + two * two, (0,)),
        lax.reduce_window(x, np.float32(1), lambda one, two: one * two + one, (2, 2), (1, 1), "VALID"),
        lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "VALID"),
        lax.reduce_window(x, np.inf, lax.min, (2, 2), (1, 1), "VALID"),
        lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
        x.at[0].apply(jnp.sin),
        lax.ragged_dot(x, jnp.ones((2, 4, 4)), jnp.array([1, 3])),
    )


class Network(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.convolution = nnx.Conv(2, 3, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)
        self.head = nnx.Linear(3, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.max_pool(nnx.relu(self.norm(self.convolution(x))), (2, 2))
        return self.head(x.mean((1, 2)))


def keras_model() -> Any:
    keras = import_module("keras")
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(2)])


def scans() -> tuple[Any, Any]:
    return JaxModel(scan, jnp.ones((4, 4)) + 3 * jnp.eye(4)), jnp.ones((3, 4))


def perceptrons() -> tuple[Any, Any]:
    first = jnp.ones((4, 6)).at[0].set(0.0)
    return JaxModel(perceptron, {"first": first, "mask": first, "second": jnp.ones((6, 2))}), jnp.ones((3, 4))


#: What makes each model and its inputs.
MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "scan": scans,
    "branches": lambda: (branch, (jnp.ones((3, 4)), jnp.bool_(True))),
    "perceptron": perceptrons,
    "algebra": lambda: (algebra, jax.ShapeDtypeStruct((4, 4), "float32")),
    "nnx": lambda: (Network(), jnp.ones((2, 8, 8, 2))),
    "equinox": lambda: (equinox.nn.MLP(3, 4, 5, 1, key=jax.random.key(0)), jnp.ones(3)),
}
if os.environ.get("KERAS_BACKEND") == "jax":
    MODELS["keras"] = lambda: (keras_model(), np.ones((2, 4), "float32"))


def outcome(model: Any, inputs: Any) -> dict[str, Any]:
    return find_outcome(model, inputs, KEYS, backend="jax")


def primitives_read(_: str) -> dict[str, list[str]]:
    """Return by model the primitives of which parameters are read."""
    read: list[str] = []

    class Noting(compat._Parameters):
        def __init__(self, equation: Any) -> None:
            super().__init__(equation)
            read.append(equation.primitive.name)

    setattr(compat, "_Parameters", Noting)  # noqa: B010
    found = {}
    for name, make in MODELS.items():
        read.clear()
        outcome(*make())
        found[name] = sorted(set(read))
    return found


def profiled(name: str) -> dict[str, Any]:
    """Return what the reports say; without a parameter those of models that have the primitive."""
    primitive, _, parameter = name.partition(":")
    concerned = [model for model in MODELS if not parameter or primitive in READ[model]]
    return {model: outcome(*MODELS[model]()) for model in concerned}


if __name__ == "__main__":
    READ = each_without([""], take_away, primitives_read)[""]
    sys.stdout.write(json.dumps(each_without(sys.argv[1:], take_away, profiled)) + "\n")
