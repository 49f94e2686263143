"""Which operators read which: a product, an activation, and a sum with the product around it, in each backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from profilerkit import Report, profile  # noqa: E402 - numpy comes first, or the tests are skipped
from profilerkit.backend_kit.graph_records import list_reads  # noqa: E402
from profilerkit.models.loaders import load_model  # noqa: E402

X = np.ones((2, 4), np.float32)
WEIGHT = np.ones((4, 4), np.float32)


def build_torch() -> Any:
    torch = pytest.importorskip("torch")

    class Residual(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act = torch.nn.Linear(4, 4, bias=False), torch.nn.ReLU()

        def forward(self, x: Any) -> Any:
            product = self.first(x)
            return self.act(product) + product.view(2, 4)

    return Residual()


def build_keras() -> Any:
    keras = pytest.importorskip("tensorflow").keras
    given = keras.Input((4,), batch_size=2)
    product = keras.layers.Dense(4, use_bias=False, name="first")(given)
    return keras.Model(given, keras.layers.Add()([keras.layers.ReLU(name="act")(product), product]))


def build_jax() -> Any:
    jax = pytest.importorskip("jax")

    def residual(x: Any) -> Any:
        product = x @ WEIGHT
        return jax.lax.tanh(product) + product

    return jax.jit(residual)


def build_onnx() -> Any:
    pytest.importorskip("onnx")
    from onnx import helper
    from onnx_graphs import make_model

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["a"]),
        helper.make_node("Add", ["a", "p"], ["y"]),
    ]
    return make_model(nodes, {"x": X}, {"w": WEIGHT})


def build_openvino() -> Any:
    openvino = pytest.importorskip("openvino")
    from openvino import opset16 as ops

    given = ops.parameter([2, 4], np.float32)
    product = ops.matmul(given, ops.constant(WEIGHT), False, False)
    return openvino.Model([ops.add(ops.relu(product), product)], [given])


def build_litert(folder: Path) -> Any:
    pytest.importorskip("ai_edge_litert")
    from litert_models import GraphBuilder, options, write_model

    main = GraphBuilder()
    product = main.add(
        "FULLY_CONNECTED",
        [main.input("x", (2, 4)), main.constant("w", WEIGHT), -1],
        (2, 4),
        options=options("FullyConnected"),
    )
    result = main.add("ADD", [main.add("RELU", [product], (2, 4)), product], (2, 4), options=options("Add"))
    path = folder / "net.tflite"
    path.write_bytes(write_model([main], [result]))
    return load_model(str(path))


BUILDERS: dict[str, Callable[[], Any]] = {
    "torch": build_torch,
    "keras": build_keras,
    "jax": build_jax,
    "onnx": build_onnx,
    "openvino": build_openvino,
}
#: The product reads the input, the activation the product, and the sum both.
READS = [(-1,), (0,), (0, 1)]


def read_table(model: Any) -> list[tuple[int, ...]]:
    report = profile(model, X, metrics=["macs"], static=True)
    assert report["macs"] == 2 * 4 * 4
    return [row["reads"] for row in report.operators or ()]


@pytest.mark.parametrize("name", BUILDERS)
def test_a_sum_reads_both_of_its_terms(name: str) -> None:
    assert read_table(BUILDERS[name]()) == READS


def test_a_sum_reads_both_of_its_terms_in_a_file_of_litert(tmp_path: Path) -> None:
    assert read_table(build_litert(tmp_path)) == READS


def test_an_operator_that_overwrites_its_input_is_what_is_read_then() -> None:
    torch = pytest.importorskip("torch")

    class Overwriting(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            product = x * 2
            product.relu_()
            return product + x

    report = profile(Overwriting(), torch.ones(3), metrics=["flops"])
    assert [(row["operator"], row["reads"]) for row in report.operators or ()] == [
        ("aten.mul.Tensor", (-1,)),
        ("aten.relu_.default", (0,)),
        ("aten.add.Tensor", (-1, 1)),
    ]


def test_what_reports_do_not_show_hands_on_what_it_reads() -> None:
    """Values 10 and 20 are given; 11 is a product of them, 12 its other shape, and 13 the sum of that and of 20."""

    def values(*numbers: int) -> list[Any]:
        return [SimpleNamespace(number=number) for number in numbers]

    numbers = [([10, 20], [11]), ([11], [12]), ([12, 20], [13]), ([99], [14])]
    steps = [SimpleNamespace(inputs=values(*reads), outputs=values(*makes)) for reads, makes in numbers]
    assert list_reads(steps, values(10, 20), hidden={1}) == [(-1,), (-1, 0), ()]
    assert list_reads(steps, values(10, 20)) == [(-1,), (0,), (-1, 1), ()]


def test_saved_reports_keep_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    report = profile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.ones(1, 4), metrics=["macs"])
    report.save(tmp_path / "report.json")
    loaded = Report.load(tmp_path / "report.json")
    assert loaded.operators == report.operators
    text = (tmp_path / "report.json").read_text()
    assert [row["reads"] for row in loaded.operators or ()] == [(-1,), (0,)]
    assert "reads" in text
