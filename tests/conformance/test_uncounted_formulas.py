"""A formula that returns `UNCOUNTED`, or what it computed from it, makes the call not counted: in every backend."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from profilerkit import ModelInputs
from profilerkit.costs import UNCOUNTED, Cost

#: What a formula may return that does not know the cost of a part.
COMPUTED: dict[str, Callable[[], Cost]] = {
    "itself": lambda: UNCOUNTED,
    "a sum": lambda: UNCOUNTED.plus(Cost(1, 2)),
    "a sum that begins with counts": lambda: Cost(1, 2).plus(UNCOUNTED),
    "a multiple": lambda: UNCOUNTED.times(2),
    "none of it": lambda: UNCOUNTED.times(0),
    "its MACs": lambda: Cost.of_macs(UNCOUNTED.macs, 3),
    "a copy": lambda: copy.copy(UNCOUNTED),
    "a deep copy": lambda: copy.deepcopy(UNCOUNTED),
    "from another process": lambda: pickle.loads(pickle.dumps(UNCOUNTED)),
}


@contextmanager
def registered(registry: Any, register: Callable[..., Any], what: Any, made: Callable[[], Cost]) -> Iterator[None]:
    with registry.scoped():
        register(what, lambda *_, **__: made(), override=True)
        yield


def of_torch_operator(made: Callable[[], Cost]) -> Any:
    torch = pytest.importorskip("torch")
    from profilerkit_torch import TorchBackend, costs

    with registered(costs.registry.COSTS, costs.register_op_cost, "aten::tanh", made):
        return TorchBackend().trace(torch.nn.Tanh(), ModelInputs(torch.ones(2, 3)))


def of_torch_module(made: Callable[[], Cost]) -> Any:
    torch = pytest.importorskip("torch")
    from profilerkit_torch import TorchBackend, costs

    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with registered(costs.registry.COSTS, costs.register_module_cost, torch.nn.Linear, made):
        return TorchBackend().trace(model, ModelInputs(torch.ones(2, 3)))


def of_jax_primitive(made: Callable[[], Cost]) -> Any:
    jax = pytest.importorskip("jax")
    from profilerkit_jax import JaxBackend, costs

    with registered(costs.registry.OPERATORS.registry, costs.register_op_cost, "tanh", made):
        return JaxBackend().trace(jax.numpy.tanh, ModelInputs(jax.numpy.ones((2, 3))))


def of_onnx_operator(made: Callable[[], Cost]) -> Any:
    onnx = pytest.importorskip("onnx")
    np = pytest.importorskip("numpy")
    from profilerkit_onnx import OnnxBackend, costs

    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    with registered(costs.registry.OPERATORS.registry, costs.register_op_cost, "Tanh", made):
        return OnnxBackend().trace(model, ModelInputs(x=np.ones((2, 3), "float32")))


def of_tensorflow_operator(made: Callable[[], Cost]) -> Any:
    tf = pytest.importorskip("tensorflow")
    from profilerkit_tensorflow import TFBackend, costs

    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Activation("tanh")])
    with registered(costs.registry.COSTS, costs.register_op_cost, "Tanh", made):
        return TFBackend().trace(model, ModelInputs(tf.ones((2, 3))))


def of_keras_layer(made: Callable[[], Cost]) -> Any:
    tf = pytest.importorskip("tensorflow")
    from profilerkit_tensorflow import TFBackend, costs

    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(3)])
    with registered(costs.registry.COSTS, costs.register_layer_cost, tf.keras.layers.Dense, made):
        return TFBackend().trace(model, ModelInputs(tf.ones((2, 3))))


def of_eager_keras_layer(made: Callable[[], Cost]) -> Any:
    tf = pytest.importorskip("tensorflow")
    from profilerkit_tensorflow import TFBackend, costs

    class Eager(tf.keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            y = self.dense(x)
            return y if float(y.numpy().sum()) == float(y.numpy().sum()) else x  # which cannot be traced

    model = Eager()
    model(tf.ones((2, 3)))
    with registered(costs.registry.COSTS, costs.register_layer_cost, tf.keras.layers.Dense, made):
        return TFBackend().trace(model, ModelInputs(tf.ones((2, 3))))


CALLS: Mapping[str, tuple[Callable[..., Any], str]] = {
    "torch operator": (of_torch_operator, "aten::tanh"),
    "torch module": (of_torch_module, "module::Linear"),
    "JAX primitive": (of_jax_primitive, "tanh"),
    "ONNX operator": (of_onnx_operator, "Tanh"),
    "TensorFlow operator": (of_tensorflow_operator, "Tanh"),
    "Keras layer": (of_keras_layer, "layer::Dense"),
    "Keras layer, eagerly": (of_eager_keras_layer, "layer::Dense"),
}


@pytest.mark.parametrize("computed", COMPUTED)
@pytest.mark.parametrize("called", CALLS)
def test_what_a_formula_does_not_know_is_not_counted(called: str, computed: str) -> None:
    trace_with, name = CALLS[called]
    trace = trace_with(COMPUTED[computed])
    assert trace.failure is None
    assert {what: count for what, count in trace.uncounted.items() if what == name} == {name: 1}
    assert [op.missing for op in trace.operators if op.missing] == [name]
    assert (trace.macs, trace.flops) == (0, 0)
