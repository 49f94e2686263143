"""Runs, evaluation, times and what was fused: on the CPU, where OpenVINO always runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("openvino")
import ml_dtypes
import numpy as np
import openvino
from openvino import opset16 as ops
from openvino_architectures import BUILDERS

from profilerkit import (
    ArgumentError,
    Device,
    DeviceNotAvailableError,
    InputError,
    ModelInputs,
    NotOfferedError,
    ProfilerKitWarning,
    profile,
)
from profilerkit.backend import RunOptions
from profilerkit.backend_kit.operator_join import operator_table
from profilerkit.testing import ARCHITECTURES
from profilerkit_openvino import EvalLossFunction, OpenvinoBackend, backend, get_accuracy, get_topk, runs, timing
from profilerkit_openvino.nodes import dtype_name
from profilerkit_openvino.timing import map_fusions

BACKEND = OpenvinoBackend()


def identity(last: Any = lambda x: x) -> Any:
    """Return a network whose scores are its inputs, by a product with ones on the diagonal."""
    x = ops.parameter([-1, 3], np.float32, name="x")
    return openvino.Model([last(ops.matmul(x, ops.constant(np.eye(3, dtype=np.float32)), False, False))], [x], "net")


def inputs_for(name: str, batch_size: int = 2) -> ModelInputs:
    return ARCHITECTURES[name].model_inputs(BACKEND, "channels_first", batch_size)


# Runs -----------------------------------------------------------------------------------------------------------------


def test_a_run_returns_what_the_model_does() -> None:
    x = np.array([[1, 2, 3]], np.float32)
    with BACKEND.run(identity(), ModelInputs(x)) as run:
        assert np.array_equal(run(), x)


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("float8_e5m2", "f8e5m2"),
        ("float8_e4m3fn", "f8e4m3"),
        ("int4", "i4"),
        ("uint4", "u4"),
        ("uint2", "u2"),
    ],
)
@pytest.mark.parametrize(
    "arrange",
    [
        lambda x: x,
        lambda x: x[0, 0],
        lambda x: np.asarray(x[0, 0]),
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x[:, ::-1],
        lambda x: x[:1, :1],
        lambda x: np.broadcast_to(x[:1], (4, 3)),
    ],
    ids=["plain", "number", "scalar", "transposed", "strided", "backwards", "one", "repeated"],
)
def test_a_model_gets_the_numbers_of_its_input(dtype: str, element: str, arrange: Callable[[Any], Any]) -> None:
    """Whatever the dtype, also one of which several numbers share a byte, and however the array lies in memory."""
    values = arrange(np.array([[1, 2, 3], [0, 1, 2], [3, 3, 0]]).astype(getattr(ml_dtypes, dtype, dtype)))
    x = ops.parameter(list(values.shape), getattr(openvino.Type, element), name="x")
    with BACKEND.run(openvino.Model([ops.convert(x, "f32")], [x], "net"), ModelInputs(values)) as run:
        assert np.array_equal(run(), values.astype(np.float32))


def test_several_outputs_have_their_names() -> None:
    with BACKEND.run(BUILDERS["dict_in_and_out"](), inputs_for("dict_in_and_out")) as run:
        assert {name: array.shape for name, array in run().items()} == {"scores": (2, 10), "value": (2, 1)}


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (RunOptions(), "EXECUTION_MODE_HINT", "ACCURACY"),
        (RunOptions(mode="performance"), "EXECUTION_MODE_HINT", "PERFORMANCE"),
        (RunOptions(num_threads=1), "INFERENCE_NUM_THREADS", "1"),
        (RunOptions(), "PERFORMANCE_HINT", "LATENCY"),
    ],
)
def test_options_reach_openvino(options: RunOptions, name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_model = runs.compile_model

    def remember(*arguments: Any, **further: Any) -> Any:
        compiled.append(compile_model(*arguments, **further))
        return compiled[-1]

    monkeypatch.setattr(runs, "compile_model", remember)
    with BACKEND.run(identity(), ModelInputs(np.ones((1, 3), np.float32)), options):
        assert str(compiled[0].get_property(name)).rpartition(".")[2] == value


def test_the_usual_mode_keeps_the_precision_of_the_model() -> None:
    """A CPU with such units computes float32 as bfloat16 otherwise, which cannot tell 1 from 1 + 2 ** -12."""
    x = np.array([[1 + 2.0**-12, 1, 0]], np.float32)
    with BACKEND.run(identity(), ModelInputs(x)) as run:
        assert run()[0, 0] == x[0, 0]


@pytest.mark.parametrize(("device", "kind"), [("GPU.1", "gpu"), ("NPU", "npu")])
def test_a_device_has_the_kind_that_its_name_tells(device: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Runtime:
        available_devices = ("CPU", device)

        def get_property(self, name: str, key: str) -> str:
            return f"{key} of {name}"

    monkeypatch.setattr(runs, "open_runtime", Runtime)
    monkeypatch.setattr(backend, "open_runtime", Runtime)
    info = BACKEND.device_info(device)
    assert (info.name, info.kind) == (f"FULL_DEVICE_NAME of {device}", kind)


@pytest.mark.parametrize(
    ("here", "device", "name"),
    [
        *(("GPU", "GPU.0", "gpu"), ("GPU", Device.GPU, "gpu"), ("GPU.0 GPU.1", "gpu", "gpu.0")),
        *(("GPU.0 GPU.1", "GPU.0", "gpu.0"), ("GPU.0 GPU.1", "gpu.1", "gpu.1")),
    ],
)
def test_the_first_gpu_has_two_names(here: str, device: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO lists one GPU as GPU, and the first of several as GPU.0; it takes both names in both cases."""

    class Runtime:
        available_devices = ("CPU", *here.split())

    monkeypatch.setattr(runs, "open_runtime", Runtime)
    assert BACKEND.resolve_device(None, device) == name
    with pytest.raises(DeviceNotAvailableError, match=r"'GPU\.2' is not there; OpenVINO finds here: cpu, gpu"):
        BACKEND.resolve_device(None, "GPU.2")


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(DeviceNotAvailableError, match="device 'npu.7' is not there; OpenVINO finds here: cpu"):
        BACKEND.resolve_device(identity(), "npu.7")


# Evaluation -----------------------------------------------------------------------------------------------------------

SCORES = np.array([[3, 1, 2], [1, 2, 3], [9, 1, 2], [0, 5, 1]], np.float32)
#: The second and the third are wrong: 2 is predicted where 1 is right, and 0 where 2 is.
LOADER = [(SCORES[:2], np.array([0, 1])), (SCORES[2:], np.array([2, 1]))]


@pytest.mark.parametrize("model", [5, b"net.onnx"])
def test_scores_of_what_is_no_model_say_what_to_give(model: Any) -> None:
    with pytest.raises(ArgumentError, match="give an openvino.Model, or the path of an .xml file"):
        get_accuracy(model, LOADER)


def test_inputs_of_one_name_are_told_apart() -> None:
    """A product of 2 x 4 and 4 x 3 ones has 24 multiply-accumulates, and each of its sums is 4."""
    x, y = ops.parameter([2, 4], np.float32, name="x"), ops.parameter([4, 3], np.float32, name="x")
    model = openvino.Model([ops.matmul(x, y, False, False)], [x, y], "net")
    inputs = ModelInputs(np.ones((2, 4), np.float32), np.ones((4, 3), np.float32))
    assert profile(model, inputs, metrics=["macs"])["macs"] == 24
    with BACKEND.run(model, inputs) as run:
        assert np.all(run.call() == 4)


def test_accuracy_of_known_scores() -> None:
    assert get_accuracy(identity(), LOADER) == 50.0
    assert get_topk(identity(), LOADER, topk=(1, 2)) == {"top-1": 50.0, "top-2": 100.0}


def test_a_sum_is_of_logits_only_behind_a_linear_operator() -> None:
    """Twice 0.45 is above a half, and twice 0.1 below it, as the targets say; above nought, as logits, are both."""
    parts, targets = np.array([[0.45], [0.1]], np.float32), np.array([1, 0])
    x = ops.parameter([-1, 1], np.float32, name="x")
    half, product = ops.sigmoid(x), ops.matmul(x, ops.constant(np.ones((1, 1), np.float32)), False, False)
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        sigmoids = openvino.Model([ops.add(half, half)], [x], "net")
        assert get_accuracy(sigmoids, [(np.log(parts / (1 - parts)), targets)]) == 100
    assert get_accuracy(openvino.Model([ops.add(product, product)], [x], "net"), [(parts, targets)]) == 50


def test_a_product_gives_logits_only_as_a_layer() -> None:
    """The scores are 0.2 and 0.8, as the targets say of probabilities: means of sigmoids, and a column of a softmax."""
    x, wide = ops.parameter([-1, 2], np.float32), ops.parameter([2, 3], np.float32)
    means = ops.matmul(ops.sigmoid(x), ops.constant(np.full((2, 1), 0.5, np.float32)), False, False)
    moved = ops.convert(ops.convert(ops.sigmoid(x), "f64"), "f32")
    handed = ops.matmul(moved, ops.constant(np.full((2, 1), 0.5, np.float32)), False, False)
    pairs, choice = ops.variadic_split(wide, 1, np.array([2, 1])).outputs()
    chosen = ops.matmul(ops.relu(ops.softmax(pairs, 1)), choice, False, False)
    odds = np.log(np.array([[0.25, 0.25], [4, 4]], np.float32))
    rows = np.array([[np.log(0.2), np.log(0.8), 1], [np.log(0.8), np.log(0.2), 0]], np.float32)
    weighed = ops.multiply(ops.sigmoid(x), ops.convert(ops.constant(np.ones(2, np.float16)), "f32"))
    mean = ops.matmul(weighed, ops.constant(np.full((2, 1), 0.5, np.float32)), False, False)
    for made, given, batch in ((means, x, odds), (handed, x, odds), (mean, x, odds), (chosen, wide, rows)):
        with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
            assert get_accuracy(openvino.Model([made], [given], "net"), [(batch, np.array([0, 1]))]) == 100


def test_a_loss_is_a_mean_over_samples() -> None:
    loss = EvalLossFunction(lambda output, target: output[:, 0].mean())
    assert loss(identity(), LOADER) == pytest.approx((3 + 1 + 9 + 0) / 4)


def test_a_model_with_two_outputs_is_refused() -> None:
    x = ops.parameter([-1, 3], np.float32, name="x")
    with pytest.raises(InputError, match="not one array with a score for each sample"):
        get_accuracy(openvino.Model([ops.relu(x), ops.abs(x)], [x], "net"), LOADER)


# Times ----------------------------------------------------------------------------------------------------------------


def count_seconds(request: Any, seconds: float) -> dict[str, float]:
    """Return so many seconds for each node that ran."""
    return {entry.node_name: seconds for entry in request.profiling_info if entry.status == entry.Status.EXECUTED}


def count_microseconds(request: Any, passes: int) -> dict[str, float]:
    return count_seconds(request, 1e-6 * passes)


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_what_was_fused_covers_every_operator_once(name: str) -> None:
    model, inputs = BUILDERS[name](), inputs_for(name)
    nodes = map_fusions(runs.compile_model(model, inputs, "cpu", "accuracy"), model, inputs)
    covered = sorted((op.name, op.layer) for node in nodes for op in node.called.inside)
    assert covered == sorted((op.operator, op.layer) for op in BACKEND.trace(model, inputs).operators)


def test_a_convolution_has_taken_in_its_bias_and_activation() -> None:
    model, inputs = BUILDERS["lenet5"](), inputs_for("lenet5")
    nodes = map_fusions(runs.compile_model(model, inputs, "cpu", "accuracy"), model, inputs)
    first = next(node for node in nodes if node.operator == "Convolution")
    assert first.layer == "first"
    assert {op.name for op in first.called.inside} >= {"Convolution", "Add"}


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_the_work_of_with_operator_times_is_all_of_the_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a counted microsecond for each operator: the real counters of such small networks may all be zero."""
    monkeypatch.setattr(timing, "_read_counters", count_microseconds)
    model, inputs = BUILDERS[name](), inputs_for(name)
    trace = BACKEND.trace(model, inputs)
    table = operator_table(BACKEND.operator_times(model, inputs, passes=2), {"forward": trace})
    assert {row["missing"] for row in table} == {""}
    assert sum(row["macs"] for row in table) == trace.macs
    assert sum(row["flops"] for row in table) == trace.flops


def test_layers_and_what_is_between_them_add_up_to_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a counted microsecond of each operator, in two passes after the two that warm up."""
    monkeypatch.setattr(timing, "_read_counters", count_microseconds)
    model = BUILDERS["mlp"]()
    times = BACKEND.layer_times(model, inputs_for("mlp"), passes=2)
    whole = [sum(layer.own_forward[index] for layer in times) for index in (0, 1)]
    assert min(whole) > 0
    assert {layer.path for layer in times} == {layer.path for layer in BACKEND.trace(model, None).layers}


def multiply_thrice(*names: str) -> Any:
    """Return a network of three products with a row of 4 numbers: of 16, 8 and 4 multiply-accumulates."""
    x = ops.parameter([1, 4], np.float32, name="x")
    made = x
    for name, width in zip(names, (4, 2, 2), strict=True):
        factor = ops.constant(np.ones((made.shape[1], width), np.float32))
        made = ops.matmul(made, factor, False, False)
        made.set_friendly_name(name)
    return openvino.Model([made], [x], "net")


@pytest.mark.parametrize(
    "names",
    [
        ("a/mm", "b/mm", "c/mm"),
        ("a/x,y", "b/,", "c/x,,y"),
        ("a/p", "a/q", "a/p,q"),
        ("a/mm", "b/mm", "b/mm"),
        ("a/mm", "a/mm", "a/mm_1"),
        ("a/#2", "b/#3", "c/#1"),
    ],
)
def test_a_layer_has_the_time_of_its_products_whatever_their_names(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a counted nanosecond of each node that ran."""
    monkeypatch.setattr(timing, "_read_counters", lambda request, passes: count_seconds(request, 1e-9 * passes))
    model, inputs = multiply_thrice(*names), ModelInputs(np.ones((1, 4), np.float32))
    products = [node for node in BACKEND.time_nodes(model, inputs, "cpu", 2).nodes if node.called.inside]
    assert [[op.name for op in node.called.inside] for node in products] == [["MatMul"]] * 3
    assert [node.layer for node in products] == [name.split("/")[0] for name in names]
    assert all(min(node.seconds) > 0 for node in products)
    assert [node.get_friendly_name() for node in model.get_ordered_ops() if "MatMul" in str(node)] == list(names)


@pytest.mark.parametrize("names", [("a/mm", "b/x,y", "c/mm"), ("a/mm", "b/mm", "b/mm")])
def test_fusions_of_nodes_that_names_do_not_tell_apart_are_refused(names: tuple[str, ...]) -> None:
    model, inputs = multiply_thrice(*names), ModelInputs(np.ones((1, 4), np.float32))
    with pytest.raises(NotOfferedError, match=f"'{names[1]}' has a comma, or is the name of several nodes"):
        map_fusions(openvino.compile_model(model, "CPU"), model, inputs)


def test_the_time_of_copies_that_the_device_adds_is_the_model_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counted second of each node that ran: each convolution has one, and the model itself has all others."""
    x = ops.parameter([1, 3, 32, 32], np.float32, name="x")
    made = x
    for name, channels in (("stem/conv", 3), ("head/conv", 16)):
        kernel = ops.constant(np.ones((16, channels, 3, 3), np.float32))
        made = ops.convolution(made, kernel, [1, 1], [1, 1], [1, 1], [1, 1])
        made.set_friendly_name(name)
    copies = []

    def count(request: Any, passes: int) -> dict[str, float]:
        copies.append(sum(entry.node_type == "Reorder" for entry in request.profiling_info))
        return count_seconds(request, passes)

    monkeypatch.setattr(timing, "_read_counters", count)
    model, inputs = openvino.Model([made], [x], "net"), ModelInputs(np.ones((1, 3, 32, 32), np.float32))
    ran = BACKEND.time_nodes(model, inputs, "cpu", 1)
    shares = Counter({"": 0.0})
    for node in ran.nodes:
        shares[node.layer] += node.seconds[0] / ran.whole[0] * (2 + copies[0])
    assert copies[0] > 0
    assert shares == pytest.approx({"": copies[0], "stem": 1, "head": 1})
    table = operator_table(BACKEND.operator_times(model, inputs), {"forward": BACKEND.trace(model, inputs)})
    assert {row["missing"] for row in table} == {""}


def test_counters_that_round_to_nothing_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_read_counters", lambda request, passes: {"first": 0.0})
    with pytest.raises(NotOfferedError, match="no operator of this model takes one"):
        BACKEND.operator_times(BUILDERS["mlp"](), inputs_for("mlp"))


def test_counters_that_add_up_to_more_than_the_pass_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_read_counters", lambda request, passes: count_seconds(request, 9 * passes))
    times = BACKEND.operator_times(BUILDERS["mlp"](), inputs_for("mlp"), passes=3)
    for index, whole in enumerate(times.whole["forward"]):
        assert sum(row.seconds[index] for row in times.operators) == pytest.approx(whole)


def test_a_trace_of_one_pass_is_not_offered(tmp_path: Any) -> None:
    with pytest.raises(NotOfferedError, match="writes no trace of a pass"):
        BACKEND.operator_times(identity(), ModelInputs(np.ones((1, 3), np.float32)), export=tmp_path / "trace.json")


def test_times_are_in_a_profile() -> None:
    report = profile(BUILDERS["mlp"](), metrics=["execution_time", "macs"], num_iters=3, warmup=1)
    assert report["execution_time"] > 0
    assert report["macs"] == ARCHITECTURES["mlp"].macs(1)


def test_dtypes_have_the_names_that_arrays_have() -> None:
    """Those of numpy and ml_dtypes; a few that both lack have names alike."""
    names = {dtype_name(element) for element in vars(openvino.Type).values() if isinstance(element, openvino.Type)}
    lacking = {name for name in names if name and not hasattr(np, name) and not hasattr(ml_dtypes, name)}
    assert lacking <= {"float4_nf4", "string", "uint1", "uint3", "uint6"}


# Numbers that numpy lacks ---------------------------------------------------------------------------------------------


def make_converting(dtype: str) -> Any:
    x = ops.parameter([-1, 2], np.float32, name="x")
    return openvino.Model([ops.convert(x, dtype)], [x], "net")


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8e4m3", "f8e5m2"])
def test_outputs_of_narrow_floats_are_read_as_numbers(dtype: str) -> None:
    """OpenVINO returns the bits of bfloat16 in an array of float16, where 1.5 reads 1.9375, and float8 in bytes."""
    x = np.array([[1.5, -2.0], [0.0, 3.0]], np.float32)
    with BACKEND.run(make_converting(dtype), ModelInputs(x)) as run:
        assert run.read_outputs(run()).tolist() == x.tolist()
    # The first of two samples is of the class 0, the second of 1: both are found.
    assert get_accuracy(make_converting(dtype), [(x, np.array([0, 1]))]) == 100


def test_outputs_of_less_than_a_byte_are_no_scores() -> None:
    with pytest.raises(NotOfferedError, match="is of int4, of which no array is made here; let the model convert it"):
        get_accuracy(make_converting("i4"), [(np.ones((2, 2), np.float32), np.array([0, 1]))])


@pytest.mark.parametrize(("factor", "flops"), [(1.0, 0), (3.0, 8), (2.0**-7, 8)])
@pytest.mark.parametrize("dtype", [openvino.Type.bf16, openvino.Type.f8e4m3, openvino.Type.f32])
def test_a_factor_of_one_is_known_in_every_dtype(dtype: Any, factor: float, flops: int) -> None:
    """2 x 4 products; a product with 1 is none. The bits of 2 ** -7 in bfloat16 are those of 1 in float16."""
    x = ops.parameter([2, 4], dtype, name="x")
    constant = openvino.op.Constant(dtype, openvino.Shape([1]), [factor])
    assert profile(openvino.Model([ops.multiply(x, constant)], [x], "net"), metrics=["flops"])["flops"] == flops
