"""Models from files and programs: paths, external data, damaged files, declared inputs, names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_architectures import build_mlp
from onnx_graphs import BACKEND, F, make_model

from profilerkit import InputError, Profiler, TensorSpec, profile
from profilerkit.backend_kit.numpy_data import as_tensor, random_tensor, with_batch_size
from profilerkit.models.loaders import load_model
from profilerkit.testing import ARCHITECTURES
from profilerkit_onnx import OnnxProfiler, register_op_cost
from profilerkit_onnx.costs import scoped_costs

MLP = ARCHITECTURES["mlp"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.onnx"
    onnx.save(build_mlp(), path)
    return path


def test_a_path_is_enough(path: Path) -> None:
    report = profile(str(path), metrics=["macs", "total_params", "model_size"])
    assert (report["macs"], report["total_params"], report["model_size"]) == (MLP.macs(1), MLP.params, 4 * MLP.params)
    assert profile(path, batch_size=5, metrics=["macs"])["macs"] == MLP.macs(5)
    assert load_model(str(path)).graph.name == "hand_made"


def test_nothing_is_trained_and_the_report_says_so(path: Path) -> None:
    assert " ".join(profile(path, metrics=["trainable_params"]).status("trainable_params").missing) == (
        "does not apply to this model: an ONNX model holds constants, and does not say which of them were trained"
    )


def test_external_data_is_not_read(tmp_path: Path) -> None:
    """The file with the weights is missing altogether: their shapes stand in the model."""
    path = tmp_path / "mlp.onnx"
    onnx.save(build_mlp(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    report = profile(path, metrics=["macs", "model_size"])
    assert (report["macs"], report["model_size"]) == (MLP.macs(1), 4 * MLP.params)


def test_tensors_of_the_same_bytes_beside_the_model_are_one(tmp_path: Path) -> None:
    """Two names for 3 x 3 floats at one place, as of tied weights."""
    nodes = [helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"x{index + 1}"]) for index in range(2)]
    weights = dict.fromkeys(("w0", "w1"), np.ones((3, 3), F))
    model, path = make_model(nodes, {"x0": np.ones((2, 3), F)}, weights, outputs=["x2"]), tmp_path / "tied.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    first, second = model.graph.initializer
    del second.external_data[:]
    second.external_data.extend(first.external_data)
    onnx.save(model, path)
    report = profile(path, metrics=["total_params", "model_size", "macs"])
    assert (report["total_params"], report["model_size"], report["macs"]) == (9, 9 * 4, 2 * 2 * 3 * 3)


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08"], ids=["empty", "text", "cut short"])
def test_a_file_that_is_no_model_is_said(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"the file '.*broken.onnx' (is no ONNX model|holds no graph)"):
        profile(path)


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental:UserWarning")
@pytest.mark.parametrize("content", [b"nonsense {{", b"\xff", b"graph {" + b"node { attribute { g {" * 5000])
@pytest.mark.parametrize("suffix", ["textproto", "pbtxt", "txtpb", "prototxt", "json", "onnxjson", "onnxtxt", "pb"])
def test_a_damaged_file_of_another_format_is_said(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"broken.{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"the file '.*broken.{suffix}' is no ONNX model, or is damaged: "):
        BACKEND.open_model(path)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    r"the name b'\\xff\\xff.*' is no text": lambda content: content.replace(b"first_name", b"\xff" * 10),
    "the tensor 'first_name' has the unknown dtype 44": lambda content: with_dtype(content, 44),
}


def with_dtype(content: bytes, dtype: int) -> bytes:
    model = onnx.load_from_string(content)
    model.graph.initializer[0].data_type = dtype
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("words", DAMAGES)
def test_names_and_dtypes_that_are_none_are_said(words: str, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 3), np.float32), "first_name")
    node = helper.make_node("MatMul", ["x", "first_name"], ["y"])
    x, y = (helper.make_tensor_value_info(name, 1, [2, size]) for name, size in (("x", 4), ("y", 3)))
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], [weight]))
    path = tmp_path / "model.onnx"
    path.write_bytes(DAMAGES[words](model.SerializeToString()))
    with pytest.raises(InputError, match=f"is damaged: {words}; export the model again"):
        BACKEND.open_model(path)


#: Names of `make_named`, one for every place of the format where a name may stand.
NAMES = (
    *("node_input", "node_output", "node_name", "node_type", "node_domain", "node_overload"),
    *("attribute_name", "attribute_reference", "metadata_key", "metadata_value", "inner_output", "inner_value"),
    *("graph_name", "graph_input", "graph_output", "graph_value", "size_name", "tensor_name", "sparse_name"),
    *("location_value", "quantized_name", "set_domain", "function_name", "function_input", "function_output"),
    *("function_attribute", "function_default", "function_node", "function_value", "function_domain"),
)


def make_named() -> onnx.ModelProto:
    """Return a model with each of `NAMES` in its place, and a doc string; it is there to be opened, not to be run."""
    value = helper.make_tensor_value_info
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["inner_output"])], "inner", [], [value("inner_value", 1, [2])]
    )
    node = helper.make_node("node_type", ["node_input"], ["node_output"], "node_name", "doc_text", "node_domain")
    node.overload = "node_overload"
    node.attribute.add(name="attribute_name", ref_attr_name="attribute_reference", type=onnx.AttributeProto.INT)
    node.attribute.add(name="body", g=inner, type=onnx.AttributeProto.GRAPH)
    node.metadata_props.add(key="metadata_key", value="metadata_value")
    graph = helper.make_graph(
        [node],
        "graph_name",
        [value("graph_input", 1, ["size_name"])],
        [value("graph_output", 1, [2])],
        [numpy_helper.from_array(np.ones(2, np.float32), "tensor_name")],
        value_info=[value("graph_value", 1, [2])],
    )
    graph.initializer[0].external_data.add(key="location", value="location_value")
    sparse = graph.sparse_initializer.add(dims=[2])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "sparse_name"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64)))
    graph.quantization_annotation.add(tensor_name="quantized_name")
    function = onnx.FunctionProto(name="function_name", domain="function_domain", attribute=["function_attribute"])
    function.input.append("function_input")
    function.output.append("function_output")
    function.attribute_proto.add(name="function_default", i=1, type=onnx.AttributeProto.INT)
    function.node.add(op_type="Relu", name="function_node")
    function.value_info.append(value("function_value", 1, [2]))
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("set_domain", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=sets)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_text_is_said_wherever_it_stands(name: str, tmp_path: Path) -> None:
    content = make_named().SerializeToString()
    assert content.count(name.encode()) == 1
    path = tmp_path / "model.onnx"
    path.write_bytes(content.replace(name.encode(), b"\xff" * len(name)))
    with pytest.raises(InputError, match=r"is damaged: the name b'(\\xff)+' is no text; export the model again"):
        BACKEND.open_model(path)


def test_a_doc_string_that_is_no_text_is_no_damage(tmp_path: Path) -> None:
    """Nothing reads it, so the model is counted as it was."""
    path = tmp_path / "model.onnx"
    path.write_bytes(make_named().SerializeToString().replace(b"doc_text", b"\xff" * 8))
    assert BACKEND.open_model(path).graph.node[0].op_type == "node_type"


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist or is no file; give the path of a .onnx file"):
        profile(tmp_path / "nothing.onnx")


@pytest.mark.parametrize("share", range(1, 40))
def test_a_truncated_file_is_an_error_or_the_same_numbers(share: int, path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * share // 40])
    try:
        report = profile(path, metrics=["macs"])
    except InputError:
        return
    status = report.status("macs")
    assert status.completeness.value != "complete" or status.value == MLP.macs(1)


def test_sizes_that_are_open_are_asked_for() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, ["n", "width"])})
    with pytest.raises(InputError, match="which leaves dimension 1 open; give all sizes but the batch's: input_shape="):
        Profiler(model).register_defaults().compute_status("macs")
    assert profile(model, input_shape=(7,), batch_size=2, metrics=["flops"])["flops"] == 14


def test_two_sizes_without_a_name_may_differ() -> None:
    """Many exporters write "?" for each open size."""
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, ["?", "?"])})
    assert profile(model, np.ones((2, 7), F), metrics=["flops"])["flops"] == 14


def test_initializers_among_the_inputs_are_not_asked_for() -> None:
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (F, ["n", 3])}, {"w": np.ones((3, 5), F)})
    model.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [3, 5]))
    assert profile(model, metrics=["macs"])["macs"] == 15


def test_a_profiler_of_its_own_names_models_by_their_graph(path: Path) -> None:
    assert OnnxProfiler(path).name == "Model"
    assert OnnxProfiler(make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, ["n", 3])})).name == "small"


def test_a_dtype_that_numpy_lacks_is_said() -> None:
    with pytest.raises(InputError, match="numpy has no dtype 'float31'; use a name such as"):
        random_tensor(TensorSpec((2,), "float31"), 1)


@pytest.mark.parametrize("name", ["finfo", "iinfo", "__version__"])
def test_a_name_of_ml_dtypes_that_is_no_dtype_is_said(name: str) -> None:
    with pytest.raises(InputError, match=f"numpy has no dtype '{name}'; use a name such as"):
        random_tensor(TensorSpec((2,), name), 1)


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4", "bool", "string", "i4,f4"])
def test_random_values_of_what_is_no_float_are_zeros(name: str) -> None:
    """Zero is an index of any embedding, also where numpy has the dtype from ml_dtypes; texts are empty."""
    tensor = random_tensor(TensorSpec((400,), name), 2)
    assert tensor.tobytes() == bytes(tensor.nbytes)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_random_values_of_narrow_floats_are_normal(name: str) -> None:
    values = random_tensor(TensorSpec((400,), name), 2).astype(np.float64)
    assert abs((values**2).mean() - 1) < 0.2


def test_a_scalar_has_no_batch() -> None:
    with pytest.raises(InputError, match="an input is a scalar, which has no batch"):
        with_batch_size(np.ones(()), 2)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_eight_bit_floats_of_torch_become_arrays(name: str) -> None:
    """1.5 and -0.25 are exact in both."""
    torch = pytest.importorskip("torch")
    array = as_tensor(torch.tensor([1.5, -0.25]).to(getattr(torch, name)))
    assert (array.dtype.name, array.tolist()) == (name, [1.5, -0.25])


def test_a_sparse_tensor_of_torch_is_no_array() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="a float32 tensor of torch cannot become an array: .*; give a dense one"):
        as_tensor(torch.eye(2).to_sparse())


def test_tensors_of_torch_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    assert as_tensor(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    assert as_tensor(torch.ones(2, dtype=torch.bfloat16)).dtype.name == "bfloat16"
    conjugate = torch.tensor([1 + 2j]).conj()  # torch notes a conjugate, and computes it later
    assert (as_tensor(conjugate).tolist(), as_tensor(conjugate.imag).tolist()) == ([1 - 2j], [-2])


def test_a_formula_for_an_operator_of_ones_own() -> None:
    from profilerkit_onnx import Cost

    node = helper.make_node("Fancy", ["x"], ["y"], domain="com.example")
    model: Any = make_model([node], {"x": np.ones((2, 3), F)})
    with scoped_costs():
        register_op_cost("com.example::Fancy", lambda call: Cost.of_macs(call.inputs[0].numel))
        report = profile(model, metrics=["macs"])
    assert report["macs"] == 6
    assert report.conditions == ("your own cost formulas for com.example::Fancy",)
    without = profile(model, metrics=["macs"])
    assert (without.status("macs").completeness.value, without.conditions) == ("partial", ())


def test_an_error_of_a_formula_or_of_inputs_is_not_said_to_be_the_models() -> None:
    node = helper.make_node("Fancy", ["x"], ["y"], domain="com.example")
    x = np.ones((2, 3), F)
    model: Any = make_model([node], {"x": x})
    with scoped_costs():
        register_op_cost("com.example::Fancy", lambda call: 3)  # type: ignore[type-var]
        record = profile(model, x, metrics=["macs"]).status("macs")
    assert record.missing == ("the cost formula of com.example::Fancy returned 3, which is no Cost",)
    record = profile(model, x, call=lambda model, x: model, metrics=["macs"]).status("macs")
    assert record.missing == ("call= was given, but only the model's own call can be followed here; leave it out",)
    record = profile(model, x.astype("float64"), metrics=["macs"]).status("macs")
    assert record.missing == (
        "the input 'x' is of float64, and the model declares float32; convert it, or name the dtype of a shape: "
        "TensorSpec(shape, 'float32'), or shape:float32 on the command line",
    )
