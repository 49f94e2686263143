"""What is found in graphs: layers by torch's names, weights as they are stored, control flow, bytes alive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino")
import numpy as np
import openvino
from openvino import opset16 as ops

from profilerkit import BackendNotFoundError, ModelInputs, compare, profile
from profilerkit.errors import ProfilerKitError
from profilerkit_openvino import OpenvinoBackend, OpenvinoProfiler

COUNTS = ["macs", "flops", "total_params", "model_size"]


def numbers(*values: int) -> Any:
    return ops.constant(np.array(values, np.int64))


def linear(x: Any, weight: Any, name: str = "") -> Any:
    product = ops.matmul(x, weight, False, True)
    if name:
        product.set_friendly_name(name)
    return product


def model(result: Any, *given: Any) -> Any:
    return openvino.Model([result] if not isinstance(result, list) else result, list(given), "net")


def test_a_model_made_of_a_part_of_another_is_counted_by_itself() -> None:
    """Both share the first matrix, of 5 x 3, which the other model also scales; the second one is of 4 x 5."""
    given = ops.parameter([2, 3], np.float32)
    weight = ops.constant(np.ones((5, 3), np.float32))
    first = linear(given, weight)
    second = linear(ops.relu(first), ops.constant(np.ones((4, 5), np.float32)))
    whole = model([second, ops.multiply(weight, np.float32(2))], given)
    reports = [profile(one, np.ones((2, 3), np.float32), metrics=COUNTS) for one in (whole, model(first, given))]
    assert [report["macs"] for report in reports] == [2 * 3 * 5 + 2 * 5 * 4, 2 * 3 * 5]
    assert [report["total_params"] for report in reports] == [15 + 20, 15]


def test_a_weight_that_many_sums_are_made_of_is_one_weight() -> None:
    """Each of 60 sums reads the one before twice: there are 2 ** 60 ways from the matrix to its product."""
    given = ops.parameter([2, 3], np.float32)
    weight = ops.constant(np.ones((5, 3), np.float32))
    for _ in range(60):
        weight = ops.add(weight, weight)
    report = profile(model(linear(given, weight), given), np.ones((2, 3), np.float32), metrics=COUNTS)
    assert (report["macs"], report["total_params"]) == (2 * 3 * 5, 15)


# Weights --------------------------------------------------------------------------------------------------------------


def narrow_weight(element: Any, zero_point: bool = False) -> Any:
    """Return a weight of 6 x 8 narrow integers, converted and scaled row by row."""
    packed = openvino.Tensor(np.zeros(6 * 8 * element.bitwidth // 8, np.uint8), [6, 8], element)
    values = ops.convert(ops.constant(packed), "f32")
    if zero_point:
        zero = openvino.Tensor(np.zeros(6 * element.bitwidth // 8, np.uint8), [6, 1], element)
        values = ops.subtract(values, ops.convert(ops.constant(zero), "f32"))
    return ops.multiply(values, ops.constant(np.ones((6, 1), np.float32)))


@pytest.mark.parametrize(
    ("element", "zero_point", "stored"),
    [
        (openvino.Type.i8, False, 48 + 24),  # a byte each, and a scale for each row
        (openvino.Type.u8, True, 48 + 6 + 24),
        (openvino.Type.i4, False, 24 + 24),
        (openvino.Type.u4, True, 24 + 3 + 24),
    ],
)
def test_quantized_weights_count_as_what_they_stand_for(element: Any, zero_point: bool, stored: int) -> None:
    given = ops.parameter([2, 8], np.float32)
    report = profile(model(linear(given, narrow_weight(element, zero_point)), given), metrics=COUNTS)
    assert (report["total_params"], report["model_size"]) == (48, stored)
    assert (report["macs"], report["flops"]) == (2 * 48, 4 * 48)  # what is made of constants alone is none


def test_quantized_weights_may_be_turned_before_they_are_converted() -> None:
    """As the ONNX operator DynamicQuantizeLSTM becomes: 48 bytes, 6 scales of four bytes, an order of 2 x 8 bytes."""
    given = ops.parameter([2, 8], np.float32)
    turned = ops.convert(ops.transpose(ops.constant(np.ones((8, 6), np.int8)), numbers(1, 0)), np.float32)
    weight = ops.multiply(turned, ops.constant(np.ones((6, 1), np.float32)))
    report = profile(model(linear(given, weight), given), metrics=COUNTS)
    assert (report["total_params"], report["model_size"], report["macs"]) == (48, 48 + 24 + 16, 2 * 48)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_numbers_that_an_image_of_bytes_is_scaled_with_are_no_scales_of_a_weight(dtype: Any) -> None:
    """Three means and three factors, of four bytes each, as for an image of floats."""
    given = ops.parameter([1, 3, 5, 5], dtype)
    mean, factor = (ops.constant(np.full((1, 3, 1, 1), value, np.float32)) for value in (128, 0.5))
    scaled = ops.multiply(ops.subtract(ops.convert(given, np.float32), mean), factor)
    report = profile(model(scaled, given), np.ones((1, 3, 5, 5), dtype), metrics=COUNTS)
    assert (report["total_params"], report["model_size"]) == (6, 24)


@pytest.mark.parametrize("converted", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integers_that_are_a_factor_of_a_product_count_as_a_weight(dtype: Any, converted: bool) -> None:
    """As the ONNX operators ConvInteger and MatMulInteger become; the shape, two integers of 64 bits, is none."""
    given, weight = ops.parameter([2, 8], np.float32 if converted else dtype), ops.constant(np.ones((8, 6), dtype))
    shaped = ops.reshape(ops.convert(weight, np.float32) if converted else weight, numbers(6, 8), False)
    report = profile(model(linear(given, shaped), given), metrics=COUNTS)
    assert (report["total_params"], report["macs"]) == (48, 2 * 48)
    assert report["model_size"] == 48 * np.dtype(dtype).itemsize + 16


def test_the_shape_of_what_a_transposed_convolution_makes_is_no_weight() -> None:
    """3 x 5 filters of 2 x 2; the shape is two integers of 64 bits."""
    given, weight = ops.parameter([1, 3, 4, 4], np.float32), ops.constant(np.ones((3, 5, 2, 2), np.float32))
    made = ops.convolution_backprop_data(given, weight, [2, 2], output_shape=numbers(8, 8))
    report = profile(model(made, given), metrics=COUNTS)
    assert (report["total_params"], report["model_size"], report["macs"]) == (60, 4 * 60 + 16, 48 * 20)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_weight_may_be_a_single_number(dtype: Any) -> None:
    """A matrix, its bias, a slope, a scale and a shift; an epsilon is none. They may be stored in half precision."""
    given = ops.parameter([2, 1, 1], np.float32)

    def one(*shape: int) -> Any:
        constant = ops.constant(np.full(shape, 0.25, dtype))
        return constant if dtype is np.float32 else ops.convert(constant, np.float32)

    bent = ops.prelu(ops.add(linear(given, one(1, 1)), one(1)), one(1))
    normal = ops.group_normalization(bent, one(1), one(1), 1, 1e-5)
    report = profile(model(ops.add(normal, one(1)), given), metrics=COUNTS)
    assert (report["total_params"], report["model_size"]) == (5, 5 * np.dtype(dtype).itemsize)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize(("features", "parameters"), [(1, 3 + 1), (4, 12)])
def test_a_single_number_is_a_bias_of_a_single_feature(shape: tuple[int, ...], features: int, parameters: int) -> None:
    """Added to several features it is a number of the model's code, as is the constant bias of a forget gate."""
    given, image = ops.parameter([2, 3], np.float32), ops.parameter([2, 3, 4, 4], np.float32)
    product = linear(given, ops.constant(np.ones((features, 3), np.float32)))
    filters = ops.constant(np.ones((features, 3, 1, 1), np.float32))
    convolution = ops.convolution(image, filters, [1, 1], [0, 0], [0, 0], [1, 1])
    for made, read in ((product, given), (convolution, image)):
        added = ops.add(made, ops.constant(np.full(shape, 2, np.float32)))
        assert profile(model(added, read), metrics=COUNTS)["total_params"] == parameters


@pytest.mark.parametrize("given", [[3], [2, 3], openvino.PartialShape.dynamic()])
@pytest.mark.parametrize(
    ("weight", "is_transposed", "parameters"),
    [((3,), False, 3 + 1), ((3, 1), False, 3 + 1), ((1, 3), True, 3 + 1), ((3, 4), False, 12), ((4, 3), True, 12)],
)
def test_the_second_factor_of_a_product_has_its_features(
    given: Any, weight: tuple[int, ...], is_transposed: bool, parameters: int
) -> None:
    """Also of a product of vectors, and of one whose result may have any number of dimensions."""
    x = ops.parameter(given, np.float32)
    product = ops.matmul(x, ops.constant(np.ones(weight, np.float32)), False, is_transposed)
    added = ops.add(product, ops.constant(np.float32(2)))
    shape = given if isinstance(given, list) else [2, 3]
    report = profile(model(added, x), np.ones(shape, np.float32), metrics=COUNTS)
    assert report["total_params"] == parameters


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64, np.bool_]
)
def test_integers_that_are_added_are_a_weight_if_they_are_narrow(dtype: Any) -> None:
    """Four of them, converted: integers of a byte stand for wider numbers, others are buffers."""
    given = ops.parameter([4], np.float32)
    added = ops.add(given, ops.convert(ops.constant(np.ones(4, dtype)), np.float32))
    report = profile(model(added, given), metrics=COUNTS)
    assert report["total_params"] == (4 if dtype in (np.uint8, np.int8) else 0)
    assert report["model_size"] == 4 * np.dtype(dtype).itemsize


def test_a_weight_whose_shape_makes_the_first_state_is_still_a_weight() -> None:
    """As the reader of ONNX makes zeros for a GRU without a state: weights of 15 x 4 and 15 x 5, biases of 20."""
    given, recurrent = ops.parameter([2, 3, 4], np.float32), ops.constant(np.ones((1, 15, 5), np.float32))
    units = ops.gather(ops.shape_of(recurrent), numbers(2), numbers(0))
    state = ops.broadcast(np.float32(0), ops.concat([numbers(2, 1), units], 0))
    weight, bias = (ops.constant(np.ones(shape, np.float32)) for shape in ((1, 15, 4), (1, 20)))
    parts = ops.constant(np.array([3, 3], np.int32)), weight, recurrent, bias
    made = ops.gru_sequence(given, state, *parts, 5, "forward", ["sigmoid", "tanh"], [], [], 0.0, True).output(0)
    assert profile(model(made, given), metrics=COUNTS)["total_params"] == 60 + 75 + 20


def test_a_scale_of_a_batch_norm_that_stands_for_its_variance_too_is_a_parameter() -> None:
    given, scale, shift = ops.parameter([2, 4], np.float32), *(ops.constant(np.full(4, n, np.float32)) for n in (1, 2))
    made = ops.batch_norm_inference(given, scale, shift, shift, scale, 1e-5)
    assert profile(model(made, given), metrics=COUNTS)["total_params"] == 2 * 4


def test_a_quantized_table_may_be_converted_after_its_rows_are_looked_up() -> None:
    """As onnxruntime quantizes embeddings: 9 rows of 4 bytes, and a scale of four bytes."""
    given = ops.parameter([2, 3], np.int64)
    rows = ops.gather(ops.constant(np.ones((9, 4), np.uint8)), given, ops.constant(np.int64(0)))
    scaled = ops.multiply(ops.convert(rows, np.float32), ops.constant(np.float32(0.1)))
    report = profile(model(scaled, given), np.ones((2, 3), np.int64), metrics=COUNTS)
    assert (report["total_params"], report["model_size"]) == (36, 36 + 4)


def test_weights_of_float16_are_stored_so(tmp_path: Path) -> None:
    given = ops.parameter([2, 8], np.float32, name="x")
    path = tmp_path / "net.xml"
    openvino.save_model(model(linear(given, ops.constant(np.ones((6, 8), np.float32))), given), path)
    report = profile(path, metrics=COUNTS)
    assert (report["total_params"], report["model_size"], report["macs"]) == (48, 96, 96)


def test_a_stored_constant_that_is_returned_is_no_operator() -> None:
    x = ops.parameter([1, 4], np.float32)
    product = ops.matmul(x, ops.constant(np.ones((4, 4), np.float32)), False, False)
    model = openvino.Model([ops.result(product), ops.result(ops.constant(np.ones(3, np.float32)))], [x])
    report = profile(model, np.ones((1, 4), np.float32), metrics=["macs"])
    assert (report["macs"], report.notes) == (16, ())


def texts(*values: str) -> Any:
    return openvino.op.Constant(openvino.Tensor(np.array(values)))


def test_texts_take_no_bytes_and_are_no_parameters() -> None:
    """Three texts with nine characters, which are unpacked, and the input, with which they are returned."""
    given = ops.parameter([3], np.float32)
    unpacked = ops.string_tensor_unpack(texts("a", "bcde", "fghi"))
    words = openvino.Model([ops.relu(given).output(0), unpacked.output(2)], [given], "words")
    report = profile(words, np.ones(3, np.float32), metrics=[*COUNTS, "memory_footprint", "execution_time"])
    assert [report[key] for key in (*COUNTS, "memory_footprint")] == [0, 3, 0, 0, 12 + 12]


def test_a_model_with_other_texts_is_another_model() -> None:
    given = ops.parameter([3], np.float32)

    def make(*values: str) -> object:
        unpacked = ops.string_tensor_unpack(texts(*values))
        return OpenvinoBackend().fingerprint(openvino.Model([unpacked.output(2)], [given], "words"))

    assert make("a", "b", "c") != make("a", "b", "d")
    assert make("ab", "c", "d") != make("a", "bc", "d")


@pytest.mark.parametrize(
    "rename",
    [
        lambda model: model.set_friendly_name("renamed"),
        lambda model: model.get_ordered_ops()[1].set_friendly_name("renamed"),
        lambda model: model.get_parameters()[0].set_friendly_name("renamed"),
        lambda model: model.input(0).get_tensor().set_names({"renamed"}),
        lambda model: model.output(0).get_tensor().set_names({"renamed"}),
    ],
    ids=["model", "node", "input", "names of an input", "names of an output"],
)
@pytest.mark.parametrize("values", [True, False])
def test_a_model_with_other_names_is_another_model(rename: Callable[[Any], None], values: bool) -> None:
    x = ops.parameter([3], np.float32, name="x")
    model = openvino.Model([ops.relu(x)], [x], "net")
    before = OpenvinoBackend().fingerprint(model, values)
    assert OpenvinoBackend().fingerprint(model, values) == before
    rename(model)
    assert OpenvinoBackend().fingerprint(model, values) != before


def test_a_profiler_traces_a_renamed_model_again() -> None:
    x = ops.parameter([3], np.float32, name="x")
    model = openvino.Model([ops.relu(x)], [x], "net")
    profiler = OpenvinoProfiler(model, inputs=np.ones(3, np.float32))
    assert profiler.compute_status("trace").layers[0].type == "net"
    model.set_friendly_name("renamed")
    assert profiler.compute_status("trace").layers[0].type == "renamed"


@pytest.mark.parametrize("value", ["word", "\u6771\u4eac"])
def test_a_model_may_be_called_with_texts(value: str) -> None:
    given = ops.parameter([2], openvino.Type.string)
    begins, ends, letters = (ops.string_tensor_unpack(given).output(index) for index in range(3))
    lengths = ops.subtract(ends, begins)
    words = openvino.Model([lengths.output(0), letters], [given], "words")
    with OpenvinoBackend().run(words, ModelInputs(np.array([value, ""]))) as run:
        assert next(iter(run().values())).tolist() == [len(value.encode()), 0]
    assert profile(words, np.array([value, ""]), metrics=COUNTS)["flops"] == 0  # of integers


def test_a_constant_that_two_layers_use_is_one_weight() -> None:
    given, shared = ops.parameter([2, 8], np.float32), ops.constant(np.ones((8, 8), np.float32))
    first = linear(given, shared, "__module.first/aten::linear/MatMul")
    report = profile(
        model(linear(first, shared, "__module.second/aten::linear/MatMul"), given),
        metrics=COUNTS,
    )
    assert report["total_params"] == 64
    assert {row["path"]: row["own_params"] for row in report.layerwise} == {"": 0, "first": 64, "second": 64}


# Layers ---------------------------------------------------------------------------------------------------------------


def test_layers_of_a_converted_network_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.act = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.act(self.norm(self.conv(x)))

    net = nn.Sequential(Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).eval()
    converted = openvino.convert_model(net, example_input=torch.zeros(1, 3, 16, 16))
    report = profile(converted, input_shape=(3, 16, 16), metrics=COUNTS)
    rows = {row["path"]: (row["type"], row["macs"], row["own_params"]) for row in report.layerwise}
    conv, linear_macs = 256 * 8 * 27, 80
    assert rows[""][1] == conv + linear_macs == report["macs"]
    # the converter has folded the scale of the norm into the convolution, which has no name of its own any more
    assert rows["0"][1] == rows["0.norm"][1] == conv
    assert rows["0.norm"] == ("Convolution", conv, 8 * 27 + 8)
    assert rows["0.act"] == ("Relu", 0, 0)
    assert rows["3"] == ("MatMul", linear_macs, 80 + 10)
    assert any("lost the names of their layers" in note for note in report.notes)


def test_a_number_in_place_of_a_name_is_no_name() -> None:
    """OpenVINO numbers the models of a process, so that the name would differ from run to run."""
    given = ops.parameter([2, 8], np.float32)
    numbered = openvino.Model([ops.relu(given)], [given])
    assert numbered.get_friendly_name().startswith("Model")
    backend = OpenvinoBackend()
    assert (backend.model_name(numbered), backend.trace(numbered, None).layers[0].type) == ("Model", "Model")
    assert backend.model_name(model(ops.relu(given), given)) == "net"


def test_layers_stand_beside_those_of_the_source(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)).eval()
    path = tmp_path / "net.xml"
    openvino.save_model(openvino.convert_model(net, example_input=torch.zeros(1, 3, 8, 8)), path)
    comparison = compare(net, path, input_shape=(3, 8, 8), metrics=COUNTS)
    for column in ("macs", "flops", "params"):
        source, converted = (
            {row["path"]: row[column] for row in report.layerwise if row[column]} for report in comparison.reports
        )
        assert source == converted


def test_a_layer_that_is_called_twice_is_one_layer() -> None:
    given, shared = ops.parameter([2, 8], np.float32), ops.constant(np.ones((8, 8), np.float32))
    first = linear(given, shared, "__module.layer/aten::linear/MatMul")
    between = ops.relu(first, name="aten::relu/Relu")
    report = profile(
        model(linear(between, shared, "__module.layer/aten::linear/MatMul_1"), given),
        metrics=COUNTS,
    )
    row = next(row for row in report.layerwise if row["path"] == "layer")
    assert (row["calls"], row["macs"], row["params"]) == (2, 2 * 2 * 64, 64)


def test_a_product_without_a_name_is_of_the_layer_around_all_that_read_it() -> None:
    """Its readers are of ``outer.x.act`` and ``outer.y.act``: the last parts are equal, and of two layers."""
    given = ops.parameter([2, 8], np.float32)
    nameless = linear(given, ops.constant(np.ones((8, 8), np.float32)), "fused")
    readers = [ops.relu(nameless, name=f"__module.outer.{side}.act/aten::relu/Relu") for side in "xy"]
    report = profile(model(ops.add(*readers, name="aten::add/Add"), given), metrics=COUNTS)
    own = {row["path"]: row["own_macs"] for row in report.layerwise}
    assert own == {"": 0, "outer": 2 * 64, "outer.x": 0, "outer.x.act": 0, "outer.y": 0, "outer.y.act": 0}


def test_scopes_of_other_converters_are_layers_too() -> None:
    given = ops.parameter([2, 8], np.float32)
    product = linear(given, ops.constant(np.ones((8, 8), np.float32)), "/block/block.0/fc/MatMul")
    report = profile(model(product, given), metrics=COUNTS)
    assert not any("lost the names" in note for note in report.notes)
    assert [row["path"] for row in report.layerwise] == ["", "block", "block.0", "block.0.fc"]


def test_scopes_of_keras_are_its_layers_and_their_calls() -> None:
    """Keras numbers the scopes of the calls of a layer 1, 3; the second product has lost its name."""
    given, shared = ops.parameter([2, 8], np.float32), ops.constant(np.ones((8, 8), np.float32))
    first = linear(given, shared, "net_1/shared_1/MatMul")
    nameless = linear(ops.tanh(linear(first, shared, "net_1/shared_3/MatMul"), name="net_1/Tanh"), shared, "Multiply_7")
    last = ops.relu(nameless, name="net_1/block_1/act_1/Relu")
    converted = openvino.Model([last], [given], "TensorFlow_Frontend_IR")
    report = profile(converted, metrics=COUNTS)
    rows = {row["path"]: (row["type"], row["calls"], row["own_macs"]) for row in report.layerwise}
    assert rows == {
        "": ("net", 1, 0),
        "shared": ("MatMul", 2, 2 * 128),
        "block": ("Module", 1, 0),
        "block.act": ("MatMul", 1, 128),
    }
    assert report.notes[-1].startswith("1 of the operators lost the names of their layers")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of Keras, which the converter gives its inputs in a list
def test_layers_of_a_converted_keras_model_are_its_own() -> None:
    pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("OpenVINO's converter takes Keras models of TensorFlow")
    given, shared = keras.Input((8,), batch_size=2), keras.layers.Dense(8, activation="relu", name="shared")
    net = keras.Model(given, keras.layers.Dense(2, name="dense_1")(shared(shared(given))), name="net")
    report = profile(openvino.convert_model(net), np.ones((2, 8), np.float32), metrics=COUNTS)
    rows = {row["path"]: (row["type"], row["calls"], row["own_macs"]) for row in report.layerwise}
    assert rows == {"": ("net", 1, 0), "shared": ("MatMul", 2, 2 * 128), "dense_1": ("MatMul", 1, 32)}


def test_a_network_that_is_quantized_as_nncf_does() -> None:
    """Activations of 256 levels; weights of int8 with a scale of four bytes for each of 4 channels.

    NNCF itself writes two such networks in `test_converted_by_openvino`, where it is installed.
    """
    given = ops.parameter([-1, 3, 8, 8], np.float32)
    low, high = (ops.constant(np.full((1, 1, 1, 1), bound, np.float32)) for bound in (-1, 1))
    weight = ops.constant(np.ones((4, 3, 3, 3), np.int8))
    scales = ops.constant(np.full((4, 1, 1, 1), 0.1, np.float32))
    product = ops.convolution(
        ops.fake_quantize(given, low, high, low, high, 256),
        ops.multiply(ops.convert(weight, np.float32), scales),
        *([1, 1], [0, 0], [0, 0], [1, 1]),
    )
    biased = ops.add(product, ops.constant(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)))
    report = profile(model(ops.relu(biased), given), input_shape=(3, 8, 8), batch_size=2, metrics=COUNTS)
    macs, hidden = 2 * 36 * 4 * 27, 2 * 36 * 4
    assert (report["total_params"], report["macs"]) == (4 * 27 + 4, macs)
    assert report["flops"] == 2 * macs + 2 * hidden + 6 * 2 * 3 * 64
    assert report["model_size"] == 4 * 27 + 4 * 4 + 4 * 4


# Inputs ---------------------------------------------------------------------------------------------------------------


def dynamic() -> Any:
    given = ops.parameter([-1, -1, 8], np.float32, name="x")
    return model(linear(given, ops.constant(np.ones((6, 8), np.float32))), given)


def test_a_model_without_names_of_layers_has_lost_none() -> None:
    given = ops.parameter([2, 8], np.float32)
    report = profile(model(linear(given, ops.constant(np.ones((8, 8), np.float32))), given), metrics=COUNTS)
    assert not any("lost the names" in note for note in report.notes)


def test_open_sizes_come_from_the_inputs() -> None:
    assert profile(dynamic(), input_shape=(5, 8), batch_size=3, metrics=["macs"])["macs"] == 3 * 5 * 48
    assert profile(dynamic(), inputs={"x": np.zeros((2, 7, 8), np.float32)}, metrics=["macs"])["macs"] == 14 * 48


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({}, "leaves dimension 1 open"),
        ({"inputs": np.zeros((2, 7, 9), np.float32)}, r"the model declares \(any, any, 8\)"),
        ({"inputs": np.zeros((2, 7, 8), np.float64)}, "is of float64, and the model declares float32"),
        ({"inputs": {"y": np.zeros((2, 7, 8), np.float32)}}, "the model declares no input 'y'; its inputs are: 'x'"),
    ],
)
def test_inputs_that_do_not_fit(inputs: dict[str, Any], told: str) -> None:
    with pytest.raises(ProfilerKitError, match=told):
        OpenvinoProfiler(dynamic(), **inputs).register_defaults().compute(["macs"], strict=True)


def test_a_compiled_model_is_refused_with_what_to_give() -> None:
    with pytest.raises(BackendNotFoundError, match=r"give the openvino\.Model that it was compiled from"):
        profile(openvino.compile_model(dynamic(), "CPU"))


# Control flow ---------------------------------------------------------------------------------------------------------


def branches(condition: Any, given: Any) -> Any:
    """Return an If with a product of 8 x 8 in one branch and a ReLU in the other."""
    inner, other = ops.parameter([2, 8], np.float32), ops.parameter([2, 8], np.float32)
    weight = ops.constant(np.ones((8, 8), np.float32))
    result = ops.result(ops.matmul(inner, weight, False, True))
    node = ops.if_op(condition)
    node.set_then_body(openvino.Model([result], [inner], "then"))
    rest = ops.result(ops.relu(other))
    node.set_else_body(openvino.Model([rest], [other], "else"))
    node.set_input(given.output(0), inner, other)
    return node.set_output(result, rest)


def test_a_condition_that_is_not_known_is_an_upper_bound() -> None:
    given, condition = ops.parameter([2, 8], np.float32), ops.parameter([], bool)
    report = profile(
        model(branches(condition.output(0), given), given, condition),
        inputs=[np.ones((2, 8), np.float32), np.array(True)],
        metrics=[*COUNTS, "memory_footprint"],
    )
    assert (report["macs"], report["total_params"]) == (128, 64)
    assert "macs=≤ 128 MACs" in repr(report)
    assert "the condition of the If" in " ".join(report.status("macs").missing)
    assert "weight" not in " ".join(report.status("memory_footprint").missing)


@pytest.mark.parametrize(("value", "macs", "flops"), [(True, 128, 256), (False, 0, 16)])
def test_a_condition_that_is_constant_decides(value: bool, macs: int, flops: int) -> None:
    given = ops.parameter([2, 8], np.float32)
    condition = ops.constant(np.array(value))
    report = profile(model(branches(condition.output(0), given), given), metrics=COUNTS)
    assert (report["macs"], report["flops"]) == (macs, flops)
    assert report.status("macs").completeness.value == "complete"


def loop(trips: Any, goes_on: Any = True) -> tuple[Any, list[Any]]:
    """Return a Loop that multiplies 8 x 8 matrices in each turn."""
    given, inner = ops.parameter([8, 8], np.float32), ops.parameter([8, 8], np.float32)
    product = ops.result(ops.matmul(inner, inner, False, False))
    condition = ops.result(ops.constant(np.array(goes_on)) if isinstance(goes_on, bool) else goes_on(inner))
    node = ops.loop(trips, ops.constant(np.array(True)))
    node.set_function(openvino.Model([product, condition], [inner], "body"))
    node.set_special_body_ports([-1, 1])
    node.set_merged_input(inner, given.output(0), product.output(0))
    made = node.get_iter_value(product.output(0), -1)
    return made, [given]


def test_a_loop_counts_as_often_as_it_runs() -> None:
    made, given = loop(ops.constant(np.int64(5)))
    report = profile(model(made, *given), metrics=COUNTS)
    assert report["macs"] == 5 * 512
    assert report.status("macs").completeness.value == "complete"


def test_a_loop_that_may_stop_is_an_upper_bound() -> None:
    made, given = loop(ops.constant(np.int64(5)), lambda x: ops.less(ops.reduce_sum(x, numbers(0, 1)), np.float32(9)))
    report = profile(model(made, *given), metrics=["macs"])
    assert report["macs"] == 5 * 512
    assert "may stop before its limit" in " ".join(report.status("macs").missing)


def test_a_loop_of_unknown_turns_is_counted_once_and_named() -> None:
    trips = ops.parameter([], np.int64)
    made, given = loop(trips)
    report = profile(model(made, *given, trips), inputs=[np.ones((8, 8), np.float32), np.array(3)], metrics=["macs"])
    assert report["macs"] == 512
    assert "Loop of an unknown number of turns" in " ".join(report.status("macs").missing)


@pytest.mark.parametrize(("is_handed_on", "params"), [(True, 64), (False, 0)])
def test_a_constant_that_a_loop_begins_with_is_a_weight_if_each_turn_hands_it_on(
    is_handed_on: bool, params: int
) -> None:
    """Matrices of 8 x 8: a product with one that is the same in each turn, or a state that each turn replaces."""
    given, carried = ops.parameter([8, 8], np.float32), ops.constant(np.arange(64, dtype=np.float32).reshape(8, 8))
    inner, other = ops.parameter([8, 8], np.float32), ops.parameter([8, 8], np.float32)
    product = ops.result(ops.matmul(inner, other, False, False))
    after = ops.result(other if is_handed_on else ops.relu(inner))
    goes_on = ops.result(ops.constant(np.array(True)))
    node = ops.loop(ops.constant(np.int64(5)), ops.constant(np.array(True)))
    node.set_function(openvino.Model([product, after, goes_on], [inner, other], "body"))
    node.set_special_body_ports([-1, 2])
    node.set_merged_input(inner, given.output(0), product.output(0))
    node.set_merged_input(other, carried.output(0), after.output(0))
    made = node.get_iter_value(product.output(0), -1)
    assert profile(model(made, given), metrics=COUNTS)["total_params"] == params


def test_a_tensor_iterator_runs_once_for_each_slice() -> None:
    given, step = ops.parameter([7, 2, 8], np.float32), ops.parameter([1, 2, 8], np.float32)
    weight = ops.constant(np.ones((4, 8), np.float32))
    product = ops.result(ops.matmul(step, weight, False, True))
    node = ops.tensor_iterator()
    node.set_body(openvino.Model([product], [step], "body"))
    node.set_sliced_input(step, given.output(0), 0, 1, 1, -1, 0)
    made = node.get_concatenated_slices(product.output(0), 0, 1, 1, -1, 0)
    report = profile(model(made, given), metrics=COUNTS)
    assert (report["macs"], report["total_params"]) == (7 * 2 * 32, 32)


# Memory ---------------------------------------------------------------------------------------------------------------


def test_bytes_alive_along_the_graph() -> None:
    """x of 2 x 8 floats; a product of 2 x 4, a ReLU of it, a reshape that needs nothing; then both are added."""
    given = ops.parameter([2, 8], np.float32)
    product = linear(given, ops.constant(np.ones((4, 8), np.float32)))
    turned = ops.reshape(ops.relu(product), numbers(8), False)
    result = ops.add(turned, ops.reshape(product, numbers(8), False))
    report = profile(model(result, given), metrics=["memory_footprint"])
    # the weight, x, and at the sum the product, the ReLU and the sum
    assert report["memory_footprint"] == 4 * (32 + 16 + 8 + 8 + 8)


@pytest.mark.parametrize("value", [None, True, False])
def test_what_any_branch_may_read_is_alive_until_the_if(value: bool | None) -> None:
    """At eight copies: x of 16 floats, ten copies and their sum, both added, the eight copies; and the condition.

    Both branches add the sum of the eight, so that it is made before them.
    """
    given, choice = ops.parameter([2, 8], np.float32), ops.parameter([], bool)
    ten = ops.concat([given] * 10, 0)
    first = ops.reduce_sum(ten, numbers(0, 1), False)
    second = ops.reduce_sum(ops.concat([ops.add(given, first)] * 8, 0), numbers(0, 1), False)
    x, copies = ops.parameter([2, 8], np.float32), ops.parameter([20, 8], np.float32)
    added = ops.parameter([], np.float32), ops.parameter([], np.float32)
    product = ops.reduce_sum(linear(x, ops.constant(np.ones((8, 8), np.float32))), numbers(0, 1), False)
    largest = ops.reduce_max(copies, numbers(0, 1), False)
    sides = ops.result(ops.add(product, added[0])), ops.result(ops.add(largest, added[1]))
    node = ops.if_op(choice.output(0) if value is None else ops.constant(np.array(value)).output(0))
    node.set_then_body(openvino.Model([sides[0]], [x, added[0]], "then"))
    node.set_else_body(openvino.Model([sides[1]], [copies, added[1]], "else"))
    node.set_input(given.output(0), x, None)
    node.set_input(ten.output(0), None, copies)
    node.set_input(second.output(0), *added)
    parameters = [given, choice] if value is None else [given]
    inputs = ModelInputs(np.ones((2, 8), np.float32), *([np.array(True)] if value is None else []))
    trace = OpenvinoBackend().trace(model(ops.add(node.set_output(*sides), first), *parameters), inputs)
    assert trace.failure is None
    given_bytes = 1 if value is None else 0
    assert trace.memory.peak_bytes(include_weights=False) == 4 * (16 + 160 + 1 + 16 + 128) + given_bytes
