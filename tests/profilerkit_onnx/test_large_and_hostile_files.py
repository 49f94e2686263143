"""Files of many gigabytes are counted without their weights, and no library that a file names is loaded."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_graphs import BACKEND, F, make_graph, make_model, make_unknown
from source_tree import ROOT

from profilerkit import ModelInputs, profile

#: Two weights of 1.6 GB each.
ROWS, COLUMNS = 40_000, 10_000
BYTES = 4 * ROWS * COLUMNS


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model whose weights take 3.2 GB, in a file that holds nothing but a hole of that size."""
    weights = []
    for index, dims in enumerate([(COLUMNS, ROWS), (ROWS, COLUMNS)]):
        tensor = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        tensor.dims.extend(dims)
        for key, value in {"location": "weights.bin", "offset": index * BYTES, "length": BYTES}.items():
            tensor.external_data.add(key=key, value=str(value))
        weights.append(tensor)
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["h"]), helper.make_node("MatMul", ["h", "w1"], ["y"])]
    model = make_model(nodes, {"x": (F, ["batch", COLUMNS])})
    model.graph.initializer.extend(weights)
    path = tmp_path / "large.onnx"
    path.write_bytes(model.SerializeToString())
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(2 * BYTES)
    return path


def test_external_data_of_more_than_two_gigabytes_is_not_read(large: Path) -> None:
    resource = pytest.importorskip("resource")
    assert (large.parent / "weights.bin").stat().st_size > 2**31
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = profile(large, batch_size=3, metrics=["macs", "total_params", "model_size", "memory_footprint"])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert report["macs"] == 2 * 3 * ROWS * COLUMNS
    assert report["total_params"] == 2 * ROWS * COLUMNS
    assert report["model_size"] == 2 * BYTES
    # while the second product runs: its input and output, and the input of the model, which is the caller's
    assert report["memory_footprint"] == 2 * BYTES + 3 * 4 * (COLUMNS + ROWS + COLUMNS)
    assert grown * (1 if sys.platform == "darwin" else 1024) < BYTES / 4


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A shared library that can be loaded."""
    source = pytest.importorskip("_ctypes").__file__
    path = tmp_path / "operators.so"
    shutil.copy(source, path)
    return path


def is_loaded(library: Path) -> bool:
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        pytest.skip("this system does not list what a process has loaded")
    return str(library) in maps.read_text(encoding="utf-8", errors="replace")


def test_no_library_is_loaded_that_a_file_names(library: Path) -> None:
    """In its metadata, as the domain of an operator, as an attribute, and as a graph that was compiled before."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name=str(library)),
        helper.make_node("Fancy", ["h"], ["i"], domain=str(library), library=str(library)),
        helper.make_node(
            "EPContext", ["i"], ["y"], domain="com.microsoft", embed_mode=0, ep_cache_context=str(library)
        ),
    ]
    model = make_model(nodes, {"x": np.ones((2, 3), F)}, {"w": np.ones((3, 3), F)})
    for key in ("custom_op_library", "session.custom_ops_library", "ep.share_ep_contexts", "ort_config"):
        model.metadata_props.add(key=key, value=str(library))
    path = library.with_name("model.onnx")
    onnx.save(model, path)
    report = profile(path, metrics=["macs", "execution_time"], num_iters=1)
    assert report["macs"] == 2 * 3 * 3
    assert f"{library}::Fancy (1 call)" in report.status("macs").missing
    assert report["execution_time"] is None
    assert not is_loaded(library)
    ctypes.CDLL(str(library))
    assert is_loaded(library), "a library that is loaded is seen"


def test_no_code_of_the_backend_registers_operators_of_a_library() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "backends/profilerkit_onnx").rglob("*.py"))
    assert "InferenceSession" in sources
    assert "register_custom_ops" not in sources
    assert "register_execution_provider_library" not in sources


def test_functions_that_double_are_refused_and_not_gone_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty functions of 2 kB, each of which calls the one before twice, are a million million operators."""
    monkeypatch.setattr("profilerkit_onnx.trace.walk.MOST_NODES", 1000)
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    functions = [helper.make_function("mine", "F0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], sets)]
    for index in range(1, 40):
        calls = [helper.make_node(f"F{index - 1}", [a], [b], domain="mine") for a, b in ("at", "tb")]
        functions.append(helper.make_function("mine", f"F{index}", ["a"], ["b"], calls, sets))
    x = np.ones((1, 8), F)
    model = make_model([helper.make_node("F39", ["x"], ["y"], domain="mine")], {"x": x}, functions=functions)
    status = profile(model, x, metrics="flops").status("flops")
    assert status.completeness.value == "failed"
    assert "its functions call one another more than 1,000 operators in all" in str(status)


def make_inner(inputs: int, outputs: int) -> Any:
    """Make a graph that applies a ReLU to the outer ``x`` for each of its outputs."""
    nodes = [helper.make_node("Relu", ["x"], [f"y{index}"]) for index in range(outputs)]
    return make_graph(nodes, [f"a{index}" for index in range(inputs)], [f"y{index}" for index in range(outputs)])


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "words"),
    [
        ("If", "c", {"then_branch": (0, 1)}, "has no else_branch"),
        ("If", "c", {"else_branch": (0, 1)}, "has no then_branch"),
        ("If", "c", {"then_branch": (0, 1), "else_branch": (0, 2)}, "0 inputs and 2 outputs, and must have 0 and 1"),
        ("If", "", {"then_branch": (0, 1), "else_branch": (0, 1)}, "has 0 inputs and needs 1"),
        ("Loop", "ncx", {}, "has no body"),
        ("Loop", "n", {"body": (1, 2)}, "has 1 inputs and needs 2"),
        ("Loop", "ncx", {"body": (2, 2)}, "2 inputs and 2 outputs, and must have 3 and 2"),
        ("Loop", "ncx", {"body": (3, 1)}, "3 inputs and 1 outputs, and must have 3 and 2"),
        ("Scan", "xx", {"num_scan_inputs": 1}, "has no body"),
        ("Scan", "xx", {"num_scan_inputs": 1, "body": (1, 1)}, "1 inputs and 1 outputs, and must have 2 and 1"),
        ("Scan", "xx", {"num_scan_inputs": 1, "body": (2, 0)}, "2 inputs and 0 outputs, and must have 2 and 1"),
        ("Scan", "xx", {"num_scan_inputs": 7, "body": (2, 1)}, "has 2 inputs and needs 7"),
    ],
)
def test_a_node_without_the_graphs_of_the_standard_is_a_fault_of_the_file(
    operator: str, inputs: str, attributes: dict[str, Any], words: str
) -> None:
    """An If has two branches with its outputs; bodies have the inputs of the node; a Loop's returns its condition."""
    made = {name: make_inner(*value) if isinstance(value, tuple) else value for name, value in attributes.items()}
    node = helper.make_node(operator, list(inputs), ["y"], name="odd", **made)
    given = {"c": np.asarray(True), "n": np.asarray(2), "x": np.ones(4, F)}
    status = profile(make_model([node], given), make_unknown(**given), metrics="flops").status("flops")
    assert f"the {operator} 'odd'" in str(status) and words in str(status)
    assert "the file does not follow the standard; export the model again" in str(status)


def test_a_declared_size_of_zero_is_named() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, (0, 8))})
    status = profile(model, metrics="flops").status("flops")
    assert "its input 'x' with the shape (0, 8), which has no elements; export it with a size" in str(status)
    given = profile(model, np.ones((1, 8), F), metrics="flops").status("flops")
    assert "has the shape (1, 8), and the model declares (0, 8); give an array of that shape" in str(given)


def test_a_declared_size_below_zero_is_an_open_one() -> None:
    """Exporters write -1 for a size that is open: one row if nothing is given, of 8 numbers with an operation each."""
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, (-1, 8))})
    assert profile(model, metrics="flops")["flops"] == 8
    assert profile(model, np.ones((3, 8), F), metrics="flops")["flops"] == 3 * 8


@pytest.mark.parametrize("text", ["{[]: 1}", "[1, 2", "['block'", "9" * 5000, "[" * 300, "None"])
def test_metadata_that_is_no_list_of_layers_tells_none(text: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=text)
    model = make_model([node], {"x": np.ones((1, 3), np.float32)}, {}, ["y"])
    assert profile(model, np.ones((1, 3), np.float32), metrics=["flops"])["flops"] == 3


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("OneHot", ["few", "many", "values"], ["big"]),
        helper.make_node("Pad", ["few", "pads"], ["big"]),
        helper.make_node("Resize", ["few", "", "", "size"], ["big"], coordinate_transformation_mode="asymmetric"),
        helper.make_node("HannWindow", ["many"], ["big"]),
        helper.make_node("Einsum", ["row"] * 4, ["big"], equation="a,b,c,d->abcd"),
    ],
    ids=lambda node: node.op_type,
)
def test_what_would_be_large_is_not_computed(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand million elements of a handful: their shape is enough."""
    all_weights = {
        "few": np.asarray([1, 2]),
        "many": np.asarray(10**9),
        "values": np.asarray([0, 1], F),
        "pads": np.asarray([0, 10**9]),
        "size": np.asarray([10**9]),
        "row": np.ones(1000, F),
    }
    computed: list[Any] = []
    monkeypatch.setattr("profilerkit_onnx.trace.folding._evaluate", lambda *given: computed.append(given))
    nodes = [node, helper.make_node("Gather", ["big", "x"], ["y"])]
    x = np.zeros((2,), np.int64)
    weights = {name: all_weights[name] for name in node.input if name}
    trace = BACKEND.trace(make_model(nodes, {"x": x}, weights), ModelInputs(x=x))
    assert trace.failure is None
    assert not computed
