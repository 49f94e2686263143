"""One function in several frameworks: the difference of the outputs is what was put into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from profilerkit import Comparison, compare  # noqa: E402 - the framework comes first, or the tests are skipped

ABSOLUTE, RELATIVE = "output_difference", "relative_output_difference"
KEYS = [ABSOLUTE, RELATIVE]
#: Filters of a convolution, as torch has them: two channels in, three out, nine taps; and a bias of one more.
FILTERS = np.random.default_rng(0).normal(size=(3, 2, 3, 3)).astype(np.float32)
BIAS = np.array([0.0, 0.5, 0.0], np.float32)
#: What float32 rounds of sums of some ten products.
ROUNDING = 1e-5


def torch_convolution(bias: Any = None) -> Any:
    layer = torch.nn.Conv2d(2, 3, 3, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(FILTERS))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
    return layer


def keras_convolution(bias: Any = None) -> Any:
    keras = pytest.importorskip("keras")
    pytest.importorskip("tensorflow")
    layer = keras.layers.Conv2D(3, 3, use_bias=bias is not None)
    model = keras.Sequential([keras.Input((6, 5, 2)), layer])
    layer.set_weights([FILTERS.transpose(2, 3, 1, 0), *([] if bias is None else [bias])])
    return model


def onnx_convolution(bias: Any = None) -> Any:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weights = {"w": FILTERS, **({} if bias is None else {"b": bias})}
    shapes = {"x": [1, 2, 6, 5], "y": [1, 3, 4, 3]}
    given, result = (helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items())
    node = helper.make_node("Conv", ["x", *weights], ["y"], "conv")
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph([node], "convolution", [given], [result], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def openvino_convolution(bias: Any = None) -> Any:
    pytest.importorskip("openvino")
    import openvino
    from openvino import opset16 as ops

    given = ops.parameter([1, 2, 6, 5], openvino.Type.f32, name="x")
    result = ops.convolution(given, ops.constant(FILTERS), [1, 1], [0, 0], [0, 0], [1, 1])
    if bias is not None:
        result = ops.add(result, ops.constant(bias.reshape(1, 3, 1, 1)))
    return openvino.Model([result], [given], "convolution")


def litert_convolution(bias: Any = None) -> Any:
    pytest.importorskip("ai_edge_litert")
    model = keras_convolution(bias)
    from keras_to_litert import convert

    return convert(model)


def jax_convolution(bias: Any = None) -> Any:
    jax = pytest.importorskip("jax")

    def convolve(x: Any) -> Any:
        y = jax.lax.conv(x, FILTERS, (1, 1), "VALID")
        return y if bias is None else y + bias.reshape(1, 3, 1, 1)

    return jax.jit(convolve)


BUILDERS = {
    "onnx": onnx_convolution,
    "keras": keras_convolution,
    "openvino": openvino_convolution,
    "litert": litert_convolution,
    "jax": jax_convolution,
}
IMAGES = torch.randn(1, 2, 6, 5, generator=torch.Generator().manual_seed(0))


def check(*models: Any, **options: Any) -> Comparison:
    return compare(*models, names=tuple("abc"[: len(models)]), metrics=KEYS, **options)


@pytest.mark.parametrize("name", BUILDERS)
def test_the_difference_is_what_one_model_adds(name: str) -> None:
    comparison = check(torch_convolution(), BUILDERS[name](), BUILDERS[name](BIAS), inputs=IMAGES)
    with torch.no_grad():
        largest = float(torch_convolution()(IMAGES).abs().max())
    assert comparison[ABSOLUTE]["a"] == 0.0
    assert comparison[ABSOLUTE]["b"] < ROUNDING
    assert comparison[ABSOLUTE]["c"] == pytest.approx(0.5, abs=ROUNDING)
    assert comparison[RELATIVE]["c"] == pytest.approx(0.5 / largest, rel=1e-4)


@pytest.mark.parametrize("name", ["onnx", "openvino", "jax"])
def test_made_up_inputs_are_those_of_the_reference(name: str) -> None:
    assert check(torch_convolution(), BUILDERS[name](), input_shape=(2, 6, 5))[ABSOLUTE]["b"] < ROUNDING


def test_images_that_one_model_declares_reach_the_other_in_its_layout() -> None:
    assert check(keras_convolution(), litert_convolution(BIAS))[ABSOLUTE]["b"] == pytest.approx(0.5, abs=ROUNDING)
    assert check(onnx_convolution(), keras_convolution())[ABSOLUTE]["b"] < ROUNDING
    assert check(keras_convolution(), onnx_convolution())[ABSOLUTE]["b"] < ROUNDING


def test_a_quantized_model_of_onnx_differs_by_half_a_step(tmp_path: Path) -> None:
    """A weight of 0.3 in steps of 1/127 is 38/127: each of eight products of it with 1 is off by 0.3 - 38/127."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    arrays = {"q": np.full((8, 2), 38, np.int8), "s": np.array(1 / 127, np.float32)}
    given, result = (
        helper.make_tensor_value_info(name, 1, shape) for name, shape in {"x": [1, 8], "y": [1, 2]}.items()
    )
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "quantized", [given], [result], initializers)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "quantized.onnx"
    )
    model = torch.nn.Linear(8, 2, bias=False)
    torch.nn.init.constant_(model.weight, 0.3)
    comparison = check(model, tmp_path / "quantized.onnx", inputs=torch.ones(1, 8))
    assert comparison[ABSOLUTE]["b"] == pytest.approx(8 * (0.3 - 38 / 127), rel=1e-3)
    assert comparison[RELATIVE]["b"] == pytest.approx(1 - 38 / 127 / 0.3, rel=1e-3)
