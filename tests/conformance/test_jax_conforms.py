"""The JAX backend passes the conformance suite, over modules of Flax's nnx."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax_architectures import BUILDERS, KINDS, Mlp

from profilerkit.testing import BackendConformance
from profilerkit_jax.backend import JaxBackend


class Raising(Mlp):
    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def __call__(self, x: Any) -> Any:
        super().__call__(x)
        raise ValueError(self.message)


class Uncounted(Mlp):
    def __call__(self, x: Any) -> Any:
        scores = super().__call__(x)
        return jax.pure_callback(np.negative, jax.ShapeDtypeStruct(scores.shape, scores.dtype), scores)


class Quantized(nnx.Module):
    """Matrices of 8-bit integers, which are multiplied with floats."""

    def __init__(self) -> None:
        model = Mlp()
        layers: list[Any] = [model.first, model.second, model.classifier]
        self.matrices = nnx.List([nnx.Param(jnp.round(layer.kernel[...]).astype(jnp.int8)) for layer in layers])
        self.biases = nnx.List([nnx.Param(layer.bias[...]) for layer in layers])

    def __call__(self, x: Any) -> Any:
        for index, (matrix, bias) in enumerate(zip(self.matrices, self.biases, strict=True)):
            x = x @ matrix[...].astype(jnp.float32) + bias[...]
            x = nnx.relu(x) if index < 2 else x
        return x


class TestJax(BackendConformance):
    backend, builders, kinds = JaxBackend(), BUILDERS, KINDS
    data_format = "channels_last"
    integer_dtype = "int32"

    def snapshot(self, model: Any) -> Any:
        """Return every variable and attribute by its path, the objects and their values; keys by their numbers."""
        facts: dict[str, Any] = {}
        for path, node in nnx.iter_graph(model):
            where = ".".join(map(str, path))
            facts[where] = id(node)
            if isinstance(node, nnx.Variable):
                value = node[...]
                is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
                facts[f"{where} values"] = np.asarray(jax.random.key_data(value) if is_key else value).tolist()
            elif isinstance(node, nnx.Module):
                plain = (bool, int, float, str)
                facts.update(
                    {f"{where}.{name}": content for name, content in vars(node).items() if isinstance(content, plain)}
                )
                facts[f"{where} attributes"] = sorted(vars(node))
        return facts

    def change_a_parameter(self, model: Any) -> None:
        model.first.kernel[...] = model.first.kernel[...] + 1

    def low_precision_model(self, dtype: str) -> Any:
        return Mlp(jnp.bfloat16) if dtype == "bfloat16" else Quantized()

    def threads(self) -> int:
        """Return what XLA takes from the process when that begins: one for each of its processors."""
        return os.cpu_count() or 1

    def raising_model(self, message: str) -> Any:
        return Raising(message)

    def uncounted_model(self) -> Any:
        return Uncounted()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a value": lambda model: model.classifier.kernel.set_value(model.classifier.kernel[...] * 2),
    "a parameter": lambda model: setattr(model.classifier, "kernel", nnx.Param(model.classifier.kernel[...])),
    "a mode": lambda model: setattr(model.dropout, "deterministic", True),
    "a layer": lambda model: setattr(model, "dropout", nnx.Dropout(0.5)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_compared_before_and_after_holds_all_of_a_module(what: str) -> None:
    model, suite = Mlp(), TestJax()
    before = suite.snapshot(model)
    assert suite.snapshot(model) == before
    CHANGES[what](model)
    assert suite.snapshot(model) != before
