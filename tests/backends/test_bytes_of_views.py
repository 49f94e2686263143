"""An operator that gives a tensor another shape, without a copy, moves no bytes: in each backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from profilerkit import profile  # noqa: E402 - numpy comes first, or the tests are skipped
from profilerkit.models.loaders import load_model  # noqa: E402

X = np.ones((2, 4), np.float32)
#: All 8 numbers are read and written once, by the activation.
BYTES = (8 * 4, 8 * 4)


def build_torch() -> Any:
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.ReLU())


def build_keras() -> Any:
    keras = pytest.importorskip("tensorflow").keras
    given = keras.Input((4,), batch_size=2)
    return keras.Model(given, keras.layers.ReLU()(keras.layers.Reshape((2, 2))(given)))


def build_jax() -> Any:
    jax = pytest.importorskip("jax")
    return jax.jit(lambda x: jax.lax.tanh(x.reshape(8)))


def build_onnx() -> Any:
    pytest.importorskip("onnx")
    from onnx import helper
    from onnx_graphs import make_model

    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Identity", ["flat"], ["same"]),
        helper.make_node("Relu", ["same"], ["y"]),
    ]
    return make_model(nodes, {"x": X}, {"shape": np.array([8])})


def build_openvino() -> Any:
    openvino = pytest.importorskip("openvino")
    from openvino import opset16 as ops

    given = ops.parameter([2, 4], np.float32)
    return openvino.Model([ops.relu(ops.reshape(given, ops.constant(np.array([8])), False))], [given])


def build_litert(folder: Path) -> Any:
    pytest.importorskip("ai_edge_litert")
    from litert_models import GraphBuilder, write_model

    main = GraphBuilder()
    flat = main.add("RESHAPE", [main.input("x", (2, 4)), main.constant("shape", np.array([8], np.int32))], (8,))
    path = folder / "net.tflite"
    path.write_bytes(write_model([main], [main.add("RELU", [flat], (8,))]))
    return load_model(str(path))


BUILDERS: dict[str, Callable[[], Any]] = {
    "torch": build_torch,
    "keras": build_keras,
    "jax": build_jax,
    "onnx": build_onnx,
    "openvino": build_openvino,
}


def read_bytes(model: Any) -> list[tuple[int, int]]:
    """Return the bytes of the operators that move some."""
    report = profile(model, X, metrics=["flops"], static=True)
    moved = [(row["bytes_read"], row["bytes_written"]) for row in report.operators or ()]
    return [pair for pair in moved if any(pair)]


@pytest.mark.parametrize("name", BUILDERS)
def test_another_shape_moves_no_bytes(name: str) -> None:
    assert read_bytes(BUILDERS[name]()) == [BYTES]


def test_another_shape_moves_no_bytes_in_a_file_of_litert(tmp_path: Path) -> None:
    assert read_bytes(build_litert(tmp_path)) == [BYTES]


def test_a_part_of_a_batch_moves_no_bytes_in_tensorflow() -> None:
    """A split of 4 rows of 16 floats is in the buffer of all, as 64 bytes keep the alignment; a ReLU of it is not."""
    tf = pytest.importorskip("tensorflow")

    class Split(tf.Module):  # type: ignore[misc, name-defined]
        @tf.function  # type: ignore[untyped-decorator, unused-ignore]
        def __call__(self, x: Any) -> Any:
            first, _ = tf.split(x, 2, axis=0)
            return tf.nn.relu(first)

    operators = profile(Split(), tf.ones((4, 16)), metrics=["flops"], static=True).operators or ()
    assert [(row["operator"], row["bytes_read"], row["bytes_written"]) for row in operators] == [
        ("Split", 0, 0),
        ("Relu", 2 * 16 * 4, 2 * 16 * 4),
    ]
