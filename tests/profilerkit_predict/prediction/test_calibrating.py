"""Calibrations with a clock and a backend that are made up, and what their files hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from profilerkit import DeviceInfo, RunOptions
from profilerkit.cli import cli
from profilerkit.devices import Figure, read_device
from profilerkit.errors import ArgumentError, InputError, NotOfferedError
from profilerkit.inputs import ModelInputs
from profilerkit.trace.records import LayerCall, LayerRecord, ModelTrace, OpRecord, TensorInfo, WeightRecord
from profilerkit_predict.commands.calibrate import _describe_networks
from profilerkit_predict.prediction import Calibration, EfficiencyTable, Network, Point
from profilerkit_predict.prediction.calibrating import _find_peaks, _list_left_out, calibrate
from profilerkit_predict.prediction.calibration import write_content
from profilerkit_predict.prediction.cases import (
    CalibrationCase,
    CalibrationNetwork,
    CompiledSeconds,
    HostSeconds,
    OperatorCall,
)
from profilerkit_predict.prediction.device_file import write_toml
from profilerkit_predict.prediction.kinds import find_family, find_kind, find_sizes
from profilerkit_predict.prediction.measuring import choose_clock, measure_networks, measure_tables
from profilerkit_predict.prediction.operators import count_moved_bytes, is_free
from profilerkit_predict.prediction.regions import find_regions
from profilerkit_predict.prediction.regions import join_recurrences as whole


class Clock:
    """A clock that only what is measured moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def make_call(self, seconds: float) -> Any:
        def call() -> None:
            self.now += seconds

        return call


def operator(name: str, shape: tuple[int, ...], macs: int = 0, **more: Any) -> OpRecord:
    fields = {"layer": "", "read": 400, "written": 200, "phase": "forward", **more}
    info = (TensorInfo(shape, "float32"),)
    return OpRecord(name, fields["layer"], 0, macs, 2 * macs, fields["read"], fields["written"], info, fields["phase"])


def make_case(name: str, call: Any, *operators: OpRecord, is_gradient: bool = False) -> CalibrationCase:
    return CalibrationCase(name, lambda: OperatorCall(call, operators, ModelInputs()), is_gradient)


def make_backend(*operators: OpRecord) -> Any:
    """Return a backend to which any model is these operators; a case names one by its index."""
    return SimpleNamespace(
        name="made up",
        extensions=(),
        trace=lambda model, inputs: ModelTrace((LayerRecord("", "M", 0),), operators if model is None else model),
    )


def test_tables_hold_the_shortest_time_of_each_case() -> None:
    clock = Clock()
    cases = [
        make_case("product", clock.make_call(2e-3), operator("mm", (4, 5), 200)),
        make_case("sum", clock.make_call(1e-3), operator("add", (4, 5))),
    ]
    product, traffic = measure_tables(make_backend(), cases, 1.0, clock).tables
    assert (product.kind, product.dtype, traffic.kind) == ("product", "float32", "element-wise")
    (first,), (second,) = product.points, traffic.points
    assert (first.sizes, first.work, second.sizes, second.work) == ((1, 4, 5, 10), 400.0, (600.0,), 600.0)
    assert [first.seconds, second.seconds] == pytest.approx([2e-3, 1e-3])
    assert [first.spread, second.spread] == pytest.approx([0.0, 0.0])


def test_a_gradient_is_a_kind_of_its_own_with_twice_the_products() -> None:
    """A GRU of 2 x 3 x 4 outputs and 120 multiply-accumulates: 5 for each output, its gradient 10; 480 FLOPs."""
    clock = Clock()
    gru = operator("aten.gru.input", (2, 3, 4), 120)
    case = make_case("gradient of gru", clock.make_call(4e-3), gru, is_gradient=True)
    (table,) = measure_tables(make_backend(), [case], 0.1, clock).tables
    assert table.kind == "stepwise recurrent gradient"
    assert (table.points[0].sizes, table.points[0].work) == ((2, 3, 4, 10), 480.0)


def test_what_is_no_single_operator_is_an_error() -> None:
    case = make_case("two", lambda: None, operator("mm", (4, 5), 200), operator("add", (4, 5)))
    with pytest.raises(InputError, match="the case 'two' of a calibration is not one operator; it runs mm, add"):
        measure_tables(make_backend(), [case], 1.0)
    with pytest.raises(InputError, match="the made up backend provides no operator to measure"):
        measure_tables(make_backend(), [], 1.0)
    with pytest.raises(NotOfferedError, match="the made up backend provides nothing to calibrate a device with"):
        calibrate(make_backend())


def test_networks_are_compiled_where_that_is_requested() -> None:
    """A network of 1 ms by the table takes 1.5 ms, and 0.5 ms compiled."""
    clock, compiles = Clock(), list[Any]()

    @contextmanager
    def run(model: Any, inputs: Any, options: RunOptions) -> Iterator[Any]:
        compiles.append(options.compile)
        yield clock.make_call(0.5e-3 if options.compile else 1.5e-3)

    backend = make_backend(operator("mm", (4, 5), 200))
    backend.run = run
    table = EfficiencyTable("product", "float32", (Point((1, 4, 5, 10), 400.0, 1e-3), Point((1, 8, 8, 8), 1e3, 2e-3)))
    content = write_content(Calibration((table,), 1e-6, HostSeconds(0.0), (), "made up"))
    device = DeviceInfo("here", kind="cpu", dense_peaks={"float32": Figure(1e9, "made up")}, calibration=content)
    networks = [CalibrationNetwork("net", "dense", None, ModelInputs())]
    options = [RunOptions(num_threads=1, compile=item) for item in (False, True)]
    ratios = [measure_networks(backend, networks, device, 0.1, one, clock)[0] for one in options]
    assert compiles == [False, True]
    assert [ratio.phase for ratio in ratios] == ["forward", "forward, compiled"]
    assert ratios[0].ratio == pytest.approx(3 * ratios[1].ratio)


def test_one_thread_of_a_cpu_is_timed_by_the_process() -> None:
    cpu, gpu = DeviceInfo("c", kind="cpu"), DeviceInfo("g", kind="gpu")
    names = [choose_clock(device, threads).__name__ for device, threads in ((cpu, 1), (cpu, 2), (gpu, 1))]
    assert names == ["process_time", "perf_counter", "perf_counter"]


def test_the_file_of_a_calibration_is_read_back(tmp_path: Path) -> None:
    points = Point((1, 2, 3, 4), 48.0, 1e-6, 0.03), Point((1, 8, 8, 8), 1e3, 2e-6)
    table = EfficiencyTable("product", "float32", points)
    host = HostSeconds(2e-6, 1e-6, 3e-6, 9e-6, CompiledSeconds(1e-5, 1e-6, 7e-5, 5e-6, 5e-7))
    networks = (Network('a "net"', "dense", "forward", 1.25),)
    calibration = Calibration((table,), 1e-6, host, networks, "torch 1")
    device = DeviceInfo(
        "here",
        "This machine",
        "cpu",
        ("other",),
        {"float32": Figure(5e8, "measured", "the fastest", 0.03)},
        figures={"memory_bandwidth": Figure(1e9, "measured")},
        tier="calibrated",
        facts={"python": "3"},
        calibration=write_content(calibration),
    )
    path = tmp_path / "here.toml"
    path.write_text(write_toml(device), encoding="utf-8")
    read = read_device(path)
    assert read == device
    assert Calibration.of(read) == calibration
    with pytest.raises(ArgumentError, match="the device bare has no calibration to write"):
        write_toml(DeviceInfo("bare"))


@pytest.mark.parametrize("number", [math.nan, math.inf, 0.0, -1.0])
@pytest.mark.parametrize("place", ["size", "work", "seconds"])
def test_a_table_has_finite_numbers_above_zero(place: str, number: float) -> None:
    """One such point would make each predicted time of the table NaN, or infinite, without a word."""
    numbers = {"size": 8.0, "work": 1e3, "seconds": 2e-6} | {place: number}
    bad = Point((1, numbers["size"]), numbers["work"], numbers["seconds"])
    with pytest.raises(ArgumentError, match="table of 'product' in float32 is not one of points"):
        EfficiencyTable("product", "float32", (Point((1, 4), 48.0, 1e-6), bad))


@pytest.mark.parametrize("sizes", [((), ()), ((1.0,), (1.0, 2.0))])
def test_the_points_of_a_table_have_equally_many_sizes(sizes: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(ArgumentError, match="with equally many sizes"):
        EfficiencyTable("product", "float32", tuple(Point(item, 48.0, 1e-6) for item in sizes))


@pytest.mark.parametrize(
    ("name", "shape", "macs", "kind"),
    [
        ("aten.linear.default", (2, 3, 4), 240, "product"),
        ("aten::bmm", (2, 3, 4), 240, "batched product"),
        ("aten.conv2d.default", (1, 8, 4, 4), 128 * 27, "convolution"),
        ("aten.conv2d.default", (1, 8, 4, 4), 128 * 9, "depthwise convolution"),
        ("aten.convolution_backward.default", (1, 8, 4, 4), 128 * 54, "convolution gradient"),
        ("aten.scaled_dot_product_attention.default", (1, 2, 4, 8), 64 * 8, "attention"),
        ("aten.lstm.input", (1, 4, 8), 32 * 8, "recurrent"),
        ("lstm_backward", (1, 4, 8), 32 * 8, "recurrent gradient"),
        ("aten.gru.input", (1, 4, 8), 32 * 8, "stepwise recurrent"),
        ("gru_backward", (1, 4, 8), 32 * 8, "stepwise recurrent gradient"),
        ("aten.convolution_backward.default", (1, 8, 4, 4), 128 * 18, "depthwise convolution gradient"),
        ("Conv", (1, 8, 4, 4), 128 * 27, "convolution"),
        ("dot_general", (4, 4), 64, "product"),
        ("Conv3DBackpropInputV2", (1, 8, 4, 4, 4), 512 * 54, "convolution gradient"),
        ("Conv2DBackpropFilter", (1, 8, 4, 4), 128 * 18, "depthwise convolution gradient"),
        ("aten.qconv2d_pointwise.default", (1, 8, 4, 4), 128 * 27, "convolution"),
        ("CONV_2D", (1, 4, 4, 8), 128 * 27, "convolution"),
        ("BatchMatMulV2", (2, 3, 4), 240, "batched product"),
        ("BlockLSTMV2", (1, 4, 8), 32 * 8, "recurrent"),
        ("LSTMBlockCellGrad", (1, 4, 8), 32 * 8, "recurrent gradient"),
        ("aten._thnn_fused_gru_cell.default", (1, 4, 8), 32 * 8, "stepwise recurrent"),
        ("convert_element_type", (4, 4), 64, "product"),
    ],
)
def test_kinds_of_products(name: str, shape: tuple[int, ...], macs: int, kind: str) -> None:
    assert find_kind(operator(name, shape, macs)) == kind


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("aten.relu.default", "element-wise"),
        ("aten.gelu.default", "activation"),
        ("aten.softmax.int", "softmax"),
        ("aten.batch_norm.default", "batch normalization"),
        ("aten.native_layer_norm.default", "normalization"),
        ("aten.max_pool2d.default", "pooling"),
        ("aten.max_pool2d_with_indices_backward.default", "pooling gradient"),
        ("aten.avg_pool2d.default", "average pooling"),
        ("aten.upsample_nearest2d.vec", "upsampling"),
        ("aten.native_batch_norm.default", "batch statistics"),
        ("aten.native_batch_norm_backward.default", "batch normalization gradient"),
        ("aten.gelu_backward.default", "activation gradient"),
        ("aten.tanh_backward.default", "element-wise"),
        ("aten.maximum.default", "element-wise"),
        ("aten.amax.default", "reduction"),
        ("aten.logical_and.default", "element-wise"),
        ("aten.embedding.default", "gather"),
        ("aten.sum.dim_IntList", "reduction"),
        ("aten.clone.default", "movement"),
        ("aten.add.Tensor", "element-wise"),
        *(
            (f"aten.{name}.default", "batch statistics")
            for name in ("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_batch_norm_with_update")
        ),
        ("aten._native_batch_norm_legit_no_training.default", "batch normalization"),
        *((name, "random") for name in ("aten.normal_.default", "aten.uniform_.default", "TruncatedNormal")),
        *((name, "random") for name in ("StatelessRandomNormalV2", "aten.exponential_.default", "aten.randint.low")),
        *((name, "normalization") for name in ("LayerNormalization", "aten._fused_rms_norm.default")),
        *((f"{name}Grad", "pooling gradient") for name in ("MaxPool", "MaxPool3D")),
        ("AvgPoolGrad", "average pooling gradient"),
        ("SoftmaxGrad", "softmax gradient"),
        ("FusedBatchNormGradV3", "batch normalization gradient"),
        ("LayerNormGrad", "normalization gradient"),
        *((f"Resize{name}Grad", "upsampling gradient") for name in ("Bilinear", "Bicubic", "NearestNeighbor")),
        *((f"{name}Grad", "activation gradient") for name in ("Elu", "Softplus", "Rsqrt")),
        *((f"{name}Grad", "element-wise") for name in ("Tanh", "Sigmoid", "Relu")),
        ("aten._no_grad_embedding_renorm_.default", "normalization"),
        *((name, "movement") for name in ("Expand", "Split", "SplitV", "StridedSlice", "slice")),
        ("AssignVariableOp", "element-wise"),
        ("ReluN1To1", "element-wise"),
        ("HardSwish", "element-wise"),
        ("MAX_POOL_2D", "pooling"),
        ("ReduceLogSumExp", "softmax"),
        ("ReduceLogSum", "reduction"),
        ("TopKV2", "reduction"),
        ("ScatterMax", "gather"),
        ("scatter-add", "gather"),
        ("aten.copysign.Tensor", "element-wise"),
    ],
)
def test_families_of_traffic(name: str, family: str) -> None:
    assert find_family(operator(name, (4,))) == family


def test_the_average_of_a_whole_image_is_a_reduction() -> None:
    pooling = operator("aten.adaptive_avg_pool2d.default", (2, 8, 1, 1), read=64 * 64, written=64)
    assert find_family(pooling) == "reduction"


def test_sizes_of_products() -> None:
    assert find_sizes(operator("aten.linear.default", (2, 3, 4), 2 * 3 * 4 * 5)) == (1, 6, 4, 5)
    assert find_sizes(operator("aten.bmm.default", (2, 3, 4), 2 * 3 * 4 * 5)) == (2, 3, 4, 5)
    # A convolution's 6,912 multiply-accumulates, for 600 bytes or 150 values: 46 for each.
    assert find_sizes(operator("aten.conv2d.default", (2, 8, 4, 4), 2 * 8 * 16 * 27)) == (46, 32, 8, 27)
    assert find_sizes(operator("aten.gru.input", (2, 3, 4), 2 * 3 * 4 * 5)) == (2, 3, 4, 5)


def test_views_move_nothing_and_tables_their_rows() -> None:
    assert is_free(operator("aten._unsafe_view.default", (4,)))
    assert is_free(operator("ExpandDims", (4,)))
    copies = ("aten.reshape.default", "Expand", "Slice", "Split", "split", "slice")  # of torch, ONNX, TensorFlow, JAX
    assert not any(is_free(operator(name, (4,))) for name in copies)
    assert count_moved_bytes(operator("aten.embedding.default", (4,), read=10_000, written=16)) == 32


def test_regions_of_a_compiled_graph() -> None:
    """A product is a kernel by itself. Of 4 x 5 floats, 80 bytes, the sum joins GELU, the pooling does not."""
    operators = [
        operator("mm", (4, 5), 200, read=360, written=80),
        operator("aten.gelu.default", (4, 5), read=80, written=80),
        operator("aten.add.Tensor", (4, 5), read=160, written=80),
        operator("aten.max_pool2d.default", (4, 5), read=80, written=80),
    ]
    assert [region.moved_bytes for region in find_regions(operators, fused=False)] == [440, 160, 240, 160]
    fused = list(find_regions(operators, fused=True))
    assert [region.moved_bytes for region in fused] == [440, 160 + 240 - 2 * 80, 160]
    assert [region.head.operator for region in fused[:2]] == ["mm", "aten.gelu.default"]


def test_a_recurrent_layer_that_is_traced_step_by_step_is_one_operator() -> None:
    weight = WeightRecord("w", 1, 10, 40, "float32", True)
    call = LayerCall((), (TensorInfo((2, 3, 4), "float32"),))
    layers = LayerRecord("", "M", 0), LayerRecord("r", "LSTM", 1, (weight,), calls=(call,))
    steps = tuple(operator("mm", (2, 16), 100, layer="r") for _ in range(6))
    head = operator("mm", (2, 5), 7)
    one, other = whole(ModelTrace(layers, (*steps, head)))
    assert (one.macs, one.outputs[0].shape, find_kind(one)) == (600, (2, 3, 4), "recurrent")
    assert (one.bytes_read, one.bytes_written) == (40, 96)
    assert other is head


@pytest.mark.slow
def test_calibrate_writes_a_file_that_predicts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "here.toml"
    result = CliRunner().invoke(cli, ["calibrate", str(path), "--seconds", "3", "--num-threads", "1"])
    assert result.exit_code == 0, result.output
    assert "fastest product in float32" in result.output
    device = read_device(path)
    calibration = Calibration.of(device)
    assert calibration is not None
    assert "product" in {t.kind for t in calibration.tables}  # more if the machine is not busy
    peak = calibration.peak("float32") or 0
    rates = [point.work / point.seconds for t in calibration.tables for point in t.points if len(point.sizes) > 1]
    assert max(rates) <= peak * (1 + 1e-9)
    assert {network.phase for network in calibration.networks} == {"forward", "training"}


def test_an_unknown_dtype_is_a_usage_error(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    result = CliRunner().invoke(cli, ["calibrate", str(tmp_path / "here.json")])
    assert result.exit_code == 2
    assert "'here.json': give a name that ends in .toml" in result.output
    result = CliRunner().invoke(cli, ["calibrate", str(tmp_path / "here.toml"), "--dtype", "bf61"])
    assert result.exit_code == 2
    assert "dtype='bf61' is no dtype of products; did you mean 'bf16'?" in result.output


def test_without_time_there_is_still_a_product_and_traffic() -> None:
    product, traffic = operator("aten.mm", (4, 4), 64), operator("aten.relu", (4,))
    clock = Clock()
    names = [*(("linear", product) for _ in range(50)), ("relu", traffic), ("relu", traffic)]
    cases = [make_case(f"{name} {i}", clock.make_call(0.1), op) for i, (name, op) in enumerate(names)]
    tables = measure_tables(make_backend(), cases, 0.0, clock).tables
    assert [len(table.points) for table in tables] == [1, 1]


def test_operators_for_which_there_is_no_time_are_not_made() -> None:
    """Two operators are measured in no time, a product and traffic: the tensors of the other three are not made."""
    made = list[str]()

    def case(name: str, op: OpRecord) -> CalibrationCase:
        plain = make_case(name, lambda: None, op)
        return CalibrationCase(name, lambda: made.append(name) or plain.make())  # type: ignore[func-returns-value]

    product, traffic = operator("aten.mm", (4, 4), 64), operator("aten.relu", (4,))
    measure_tables(make_backend(), [*(case(f"linear {i}", product) for i in range(4)), case("relu 0", traffic)], 0.0)
    assert made == ["linear 0", "relu 0"]


def test_a_calibration_says_how_much_of_it_was_measured() -> None:
    table = EfficiencyTable("product", "float32", (Point((1, 4, 5, 10), 400.0, 1e-3),))
    calibration = Calibration((table,), 1e-6, HostSeconds(0.0))
    assert _list_left_out(calibration, 1, {}, 0) == {}
    short = "; the time did not suffice for more: give more seconds"
    facts = {"operators_measured": f"1 of 2{short}", "networks_measured": f"0 of 12{short}"}
    assert _list_left_out(calibration, 3, {"norm": "why"}, 12) == facts | {"operators_failed": "norm: why"}


def test_convolutions_of_float32_on_a_gpu_have_the_peak_of_tf32_if_they_are_faster() -> None:
    """400 FLOPs in 1 ms, 0.1 ms and 2 ms: a matrix product, a convolution in TF32, one that is slower."""

    def peaks(convolution: float, *, is_gpu: bool) -> dict[str, float]:
        kinds = {"product": 1e-3, "convolution": convolution}
        tables = [EfficiencyTable(kind, "float32", (Point((1, 4, 5, 10), 400.0, at),)) for kind, at in kinds.items()]
        return _find_peaks(Calibration(tuple(tables), 1e-6, HostSeconds(0.0)), is_gpu=is_gpu)

    assert peaks(1e-4, is_gpu=True) == pytest.approx({"float32": 4e5, "tf32": 4e6})
    assert peaks(2e-3, is_gpu=True) == pytest.approx({"float32": 4e5})
    assert peaks(1e-4, is_gpu=False) == pytest.approx({"float32": 4e6})


def test_an_operator_that_the_device_refuses_is_left_out_and_named() -> None:
    clock = Clock()

    def refuse() -> None:
        raise RuntimeError("expected scalar type Float but found BFloat16")

    cases = [
        make_case("norm", refuse, operator("add", (4, 5))),
        make_case("sum", clock.make_call(1e-3), operator("add", (4, 5))),
    ]
    measured = measure_tables(make_backend(), cases, 0.1, clock)
    assert [len(table.points) for table in measured.tables] == [1]
    assert measured.failed == {"norm": "RuntimeError: expected scalar type Float but found BFloat16"}
    with pytest.raises(InputError, match="no operator to measure; norm: RuntimeError: expected scalar type Float"):
        measure_tables(make_backend(), cases[:1], 0.1, clock)


def calibrate_with(*ratios: float) -> Calibration:
    networks = [Network(f"network {index}", "family", "forward", ratio) for index, ratio in enumerate(ratios)]
    return Calibration((), 1e-6, HostSeconds(0.0), tuple(networks), "made up")


def test_networks_that_agree_have_an_interval() -> None:
    assert list(_describe_networks(calibrate_with(0.5, 1.0, 2.0))) == [
        "  forward: networks took 1 times what their operators add up to; 9 of 10 lie between 0.5 and 2"
    ]


def test_networks_that_disagree_are_no_basis_for_predictions() -> None:
    # The middle one is 0.01; the furthest from it is 200 times as much.
    first, second = _describe_networks(calibrate_with(0.001, 0.01, 2.0))
    assert first.endswith("networks took 0.01 times what their operators add up to; 9 of 10 lie between 5e-05 and 2")
    assert "they disagree so much that predictions say little" in second
    assert "calibrate again when it is idle" in second


def test_two_networks_are_too_few() -> None:
    assert list(_describe_networks(calibrate_with(0.5, 0.6))) == [
        "  forward: fewer than three networks ran, too few for a correction; intervals are from 0.333 to 3 times the "
        "estimate"
    ]
