"""Bounds by hand, estimates by tables that are made up, intervals, and the two tiers apart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from profilerkit import DeviceInfo, predict
from profilerkit.devices import Figure, UnknownPeakError
from profilerkit.errors import ArgumentError, DeviceFileError
from profilerkit.trace.records import (
    LayerCall,
    LayerRecord,
    MemoryTimeline,
    ModelTrace,
    OpRecord,
    TensorInfo,
    WeightRecord,
)
from profilerkit_predict.prediction import (
    Calibration,
    EfficiencyTable,
    Network,
    NothingToPredictError,
    Point,
    compulsory_bytes,
    predict_trace,
)
from profilerkit_predict.prediction.calibration import write_content
from profilerkit_predict.prediction.cases import CompiledSeconds, HostSeconds

SHEET = DeviceInfo(
    "sheet",
    dense_peaks={"float32": Figure(1e6, "made up"), "bfloat16": Figure(4e6, "made up")},
    sparse_peaks={"bfloat16": Figure(8e6, "made up")},
    figures={"memory_bandwidth": Figure(1e3, "made up")},
)


def operator(name: str, macs: int, shape: tuple[int, ...], layer: str = "", **more: Any) -> OpRecord:
    fields = {"bytes_read": 400, "bytes_written": 200, "dtype": "float32", "phase": "forward", **more}
    output = (TensorInfo(shape, fields["dtype"]),)
    moved = fields["bytes_read"], fields["bytes_written"]
    return OpRecord(name, layer, 0, macs, 2 * macs, *moved, output, fields["phase"])


def linear(*operators: OpRecord, **more: Any) -> ModelTrace:
    """A layer of 10 x 5 float32 weights in a model, called with 4 rows of 10: inputs 160 bytes, outputs 80."""
    call = LayerCall((TensorInfo((4, 10), "float32"),), (TensorInfo((4, 5), "float32"),))
    weight = WeightRecord("weight", 1, 50, 200, "float32", True)
    layers = LayerRecord("", "Model", 0, calls=(call,)), LayerRecord("head", "Linear", 1, (weight,), calls=(call,))
    default = operator("mm", 200, (4, 5), "head", bytes_read=360, bytes_written=80)
    return ModelTrace(layers, operators or (default,), MemoryTimeline(200, 160), **more)


def test_compulsory_bytes_are_weights_inputs_and_outputs_once() -> None:
    assert compulsory_bytes(linear()) == 200 + 160 + 80


def test_a_bound_is_the_greater_of_products_and_traffic() -> None:
    """400 FLOPs at 1e6 a second take 0.4 ms, 440 bytes at 1e3 a second 0.44 s; then with a thousandfold memory."""
    predicted = predict_trace(linear(), SHEET)
    assert (predicted.tier, predicted.binds) == ("data sheet", "traffic")
    assert predicted.estimate is predicted.high is None
    assert predicted.seconds == predicted.low == pytest.approx(0.44)
    fast = replace(SHEET, figures={"memory_bandwidth": Figure(1e9, "made up")})
    predicted = predict_trace(linear(), fast)
    assert predicted.seconds == pytest.approx(4e-4)
    assert predicted.binds == "products"


def test_a_prediction_is_printed_in_words() -> None:
    """The layer's operator moves 360 + 80 bytes, the model 440 once each: 0.44 s at 1e3 bytes a second."""
    first, second, *rest = str(predict_trace(linear(), SHEET)).splitlines()
    assert first == "Predicted time of a forward pass on sheet: at least 440 ms"
    assert second == "Bound by traffic, data sheet."
    assert rest[:3] == ["Layers that take most:", "  head (Linear): 440 ms", "Predicted, not measured."]


def test_the_time_of_a_layer_around_others_is_called_its_own() -> None:
    """A block moves 80 bytes itself, and the layer in it 440."""
    trace = linear(
        operator("relu", 0, (4, 5), "block", bytes_read=40, bytes_written=40),
        operator("mm", 200, (4, 5), "block.head", bytes_read=360, bytes_written=80),
    )
    whole, head = trace.layers
    inside = LayerRecord("block.head", head.type, 2, head.parameters, calls=head.calls)
    around = LayerRecord("block", "Block", 1, calls=head.calls)
    lines = str(predict_trace(replace(trace, layers=(whole, around, inside)), SHEET)).splitlines()
    assert lines[3:5] == ["  block.head (Linear): 440 ms", "  block (Block) itself: 80 ms"]


def test_products_of_several_dtypes_add_up_and_sparse_peaks_are_never_used() -> None:
    trace = linear(operator("mm", 500, (4, 5), "head"), operator("mm", 1000, (4, 5), "head", dtype="bfloat16"))
    assert predict_trace(trace, SHEET).bound.products == pytest.approx(1000 / 1e6 + 2000 / 4e6)
    assert predict_trace(linear(), SHEET, dtype="bf16").bound.products == pytest.approx(400 / 4e6)


def test_a_training_step_writes_gradients() -> None:
    backward = operator("mm", 200, (10, 5), "head", phase="backward", bytes_read=1000, bytes_written=200)
    assert compulsory_bytes(linear(*linear().operators, backward)) == 200 + 160 + 80 + 200


def test_each_layer_has_its_bound() -> None:
    rows = predict_trace(linear(), SHEET).layers
    assert [(row["path"], row["bound_seconds"], row["binds"]) for row in rows] == [
        ("", 0.0, ""),
        ("head", pytest.approx(0.44), "traffic"),
    ]


def test_what_has_no_time_is_an_error() -> None:
    with pytest.raises(UnknownPeakError, match="the dense peak of sheet for float64 is not known .*float32, bfloat16"):
        predict_trace(linear(operator("mm", 5, (1,), dtype="float64")), SHEET)
    with pytest.raises(ArgumentError, match="the dense peak of here for float64 is not known"):
        predict_trace(linear(operator("mm", 5, (4, 5), "head", dtype="float64")), make_calibrated())
    with pytest.raises(NothingToPredictError, match="the model computes nothing: its trace has no operators"):
        predict_trace(ModelTrace((LayerRecord("", "Model", 0),)), SHEET)
    failed = ModelTrace((LayerRecord("", "Model", 0),), failure=RuntimeError("inside the model"))
    with pytest.raises(ArgumentError, match="the model raised in its trace") as caught:
        predict_trace(failed, SHEET)
    assert str(caught.value.__cause__) == "inside the model"


#: Products run at 1e6 FLOP/s at any size, traffic at 1e6 bytes a second; each call takes 1 ms besides, and 0.1 ms of
#: the host.
ROWS, BYTES = (0.001, 100, 1000, 10000), (0.001, 1e3, 1e4, 1e5)
PRODUCT_POINTS = tuple(Point((1, m, 4, 4), 32.0 * m, 1e-3 + 32.0 * m / 1e6, 0.0, 1e-4) for m in ROWS)
PRODUCTS = EfficiencyTable("product", "float32", PRODUCT_POINTS)
TRAFFIC = EfficiencyTable("element-wise", "float32", tuple(Point((b,), b, 1e-3 + b / 1e6, 0.0, 1e-4) for b in BYTES))
HOST = HostSeconds(2e-4)


def make_calibrated(kind: str = "cpu", networks: tuple[Network, ...] = (), host: HostSeconds = HOST) -> DeviceInfo:
    calibration = Calibration((PRODUCTS, TRAFFIC), 1e-4, host, networks, "test 1 on 1 thread")
    return DeviceInfo(
        "here",
        kind=kind,
        dense_peaks={"float32": Figure(1e6, "made up")},
        tier="calibrated",
        calibration=write_content(calibration),
    )


def network(ratio: float, phase: str = "forward") -> Network:
    return Network(f"ratio {ratio}", "made up", phase, ratio)


def test_an_estimate_adds_up_operators_and_calls_of_layers() -> None:
    """A product of 400 FLOPs: 1 ms + 0.4 ms; a sum of 600 bytes: 1 ms + 0.6 ms; two calls of layers: 0.4 ms."""
    add = operator("add", 0, (4, 5), "head")
    predicted = predict_trace(linear(*linear().operators, add), make_calibrated())
    assert predicted.tier == "calibrated"
    assert predicted.device_seconds == pytest.approx(1.4e-3 + 1.6e-3, rel=1e-2)
    assert predicted.host_seconds == pytest.approx(4e-4)
    assert predicted.estimate == pytest.approx(1.4e-3 + 1.6e-3 + 4e-4, rel=1e-2)
    assert predicted.binds == "traffic"


def test_on_a_device_of_its_own_the_longer_of_device_and_host_counts() -> None:
    predicted = predict_trace(linear(), make_calibrated("gpu"))
    assert predicted.host_seconds == pytest.approx(2 * 2e-4 + 1e-4)
    assert predicted.estimate == pytest.approx(max(1.4e-3, 5e-4, predicted.bound.seconds), rel=1e-2)


def test_the_host_takes_what_it_took_for_the_nearest_size() -> None:
    """A product of 100 rows took it 0.01 ms, one of 1,000 rows 0.3 ms; 250 rows are nearer to 100 by factors of two."""
    points = [Point((1, rows, 4, 4), 32.0 * rows, 1e-3, 0.0, host) for rows, host in ((100, 1e-5), (1000, 3e-4))]
    table = EfficiencyTable("product", "float32", tuple(points))
    taken = [table.find_host_seconds((1, rows, 4, 4)) for rows in (1, 250, 400, 9000)]
    assert taken == [1e-5, 1e-5, 3e-4, 3e-4]


def backward(name: str = "add", macs: int = 0) -> OpRecord:
    """600 bytes of traffic in a backward pass."""
    return operator(name, macs, (4, 5), "head", phase="backward")


def test_views_and_gradients_take_the_host_some_time() -> None:
    """Two calls of layers of 0.2 ms, one view of 0.03 ms, two operators of a backward pass of 0.05 ms after 0.4 ms.

    Views of the backward pass are in what its operators take.
    """
    host = HostSeconds(2e-4, view_call=3e-5, gradient_call=5e-5, backward_call=4e-4)
    view = operator("aten.t.default", 0, (5, 4), "head")
    operators = (*linear().operators, view, backward(), backward(), backward("aten.t.default"))
    predicted = predict_trace(linear(*operators), make_calibrated(host=host))
    assert predicted.host_seconds == pytest.approx(2 * 2e-4 + 3e-5 + 2 * 5e-5 + 4e-4)
    forward = predict_trace(linear(*linear().operators, view), make_calibrated(host=host))
    assert forward.host_seconds == pytest.approx(2 * 2e-4 + 3e-5)


def test_a_compiled_graph_fuses_traffic_and_the_host_calls_it_once() -> None:
    """A product of 1.4 ms by itself. Two sums of 240 bytes are one kernel: 320 bytes move at 1e6 a second, 0.32 ms.

    That kernel starts in 1 ms as an operator does, or in 0.02 ms where that was measured; the call of the graph takes
    0.5 ms and 0.03 ms for its weight, that of a training step 2 ms and 0.07 ms.
    """
    add = operator("add", 0, (4, 5), "head", bytes_read=160, bytes_written=80)
    trace = linear(*linear().operators, add, add)
    predicted = predict_trace(trace, make_calibrated(), compiled=True)
    assert predicted.host_seconds == 0.0
    assert predicted.device_seconds == pytest.approx(1.4e-3 + 1.32e-3, rel=1e-2)
    host = HostSeconds(2e-4, 1e-4, 1e-4, 1e-4, CompiledSeconds(5e-4, 3e-5, 2e-3, 7e-5, 2e-5))
    predicted = predict_trace(trace, make_calibrated(host=host), compiled=True)
    assert predicted.host_seconds == pytest.approx(5.3e-4)
    assert predicted.device_seconds == pytest.approx(1.4e-3 + 0.34e-3, rel=1e-2)
    assert predicted.estimate == pytest.approx(1.4e-3 + 0.34e-3 + 5.3e-4, rel=1e-2)
    step = predict_trace(linear(*trace.operators, backward()), make_calibrated(host=host), compiled=True)
    assert step.host_seconds == pytest.approx(2.07e-3)


def test_a_fused_region_takes_what_the_slowest_of_its_families_takes() -> None:
    """240 bytes of sums at 1e6 a second, of activations at 1e5: the kernel's 320 bytes take 3.2 ms after its start."""
    slow = EfficiencyTable("activation", "float32", tuple(Point((b,), b, 2e-3 + b / 1e5) for b in BYTES))
    host = HostSeconds(0.0, compiled=CompiledSeconds(0.0, 0.0, 0.0, 0.0, 1e-4))
    content = write_content(Calibration((PRODUCTS, TRAFFIC, slow), 1e-4, host))
    device = replace(make_calibrated(), calibration=content)
    both = [operator(name, 0, (4, 5), bytes_read=160, bytes_written=80) for name in ("add", "aten.gelu.default")]
    predicted = predict_trace(linear(*both), device, compiled=True)
    assert predicted.device_seconds == pytest.approx(1e-4 + 3.2e-3, rel=1e-2)
    assert predict_trace(linear(*both), device).device_seconds == pytest.approx(1.24e-3 + 4.4e-3, rel=1e-2)


def test_compiled_graphs_are_corrected_by_compiled_networks() -> None:
    """Eager networks took 3 times as long as predicted, compiled ones 2 times; without such, nobody knows."""
    eager = tuple(replace(network(3.0), name=name) for name in "abc")
    compiled = tuple(replace(prediction, phase="forward, compiled", ratio=2.0) for prediction in eager)
    plain = predict_trace(linear(), make_calibrated(), compiled=True)
    total = plain.device_seconds
    assert total is not None
    known = predict_trace(linear(), make_calibrated(networks=eager + compiled), compiled=True)
    assert known.estimate == pytest.approx(2 * total)
    assert not any("no compiled network" in note for note in known.notes)
    unknown = predict_trace(linear(), make_calibrated(networks=eager), compiled=True)
    assert unknown.estimate == pytest.approx(total)
    assert unknown.high == pytest.approx(3 * total)
    assert any("no compiled network was measured: the interval is wide" in note for note in unknown.notes)
    assert predict_trace(linear(), make_calibrated(networks=eager)).estimate != unknown.estimate


def test_intervals_hold_nine_of_ten_networks() -> None:
    """The middle of ten ratios around 2 is 2; rank 0.9 * (10 + 1) = 9.9, rounded up, is the largest offset."""
    networks = tuple(network(2 * math.exp(offset / 100)) for offset in range(-9, 10, 2))
    device = make_calibrated(networks=networks)
    middle, low, high = Calibration.of(device).correction("forward")  # type: ignore[union-attr]
    assert middle == pytest.approx(2.0)
    assert (low, high) == (pytest.approx(2 * math.exp(-0.09)), pytest.approx(2 * math.exp(0.09)))
    plain, corrected = (predict_trace(linear(), item) for item in (make_calibrated(), device))
    assert plain.device_seconds == corrected.device_seconds
    assert corrected.high == pytest.approx((1.4e-3 + 4e-4) * 2 * math.exp(0.09), rel=1e-2)
    assert Calibration.of(make_calibrated()).correction("forward") == (1.0, 1 / 3, 3.0)  # type: ignore[union-attr]


def test_uncounted_operators_leave_the_upper_end_open() -> None:
    predicted = predict_trace(linear(uncounted={"strange": 1}), make_calibrated())
    assert predicted.high is None
    assert "without the cost of strange (1 call)" in predicted.notes


def test_no_rate_is_above_the_best_that_was_measured() -> None:
    far = EfficiencyTable("product", "float32", (Point((1, 1, 1, 1), 10.0, 1.0), Point((1, 8, 8, 8), 1e4, 2.0)))
    assert far.seconds((1, 4096, 4096, 4096), 1e9, 5e3) >= 1e9 / 5e3


def test_a_table_predicts_each_point_from_the_others() -> None:
    for point in PRODUCTS.points:
        if point.seconds == PRODUCTS.least_seconds:  # no other point tells what a call takes however little it does
            continue
        others = replace(PRODUCTS, points=tuple(other for other in PRODUCTS.points if other is not point))
        assert others.seconds(point.sizes, point.work, math.inf) == pytest.approx(point.seconds, rel=0.05)


def test_a_calibration_of_another_format_is_an_error() -> None:
    odd = replace(make_calibrated(), calibration={"format": 9})
    with pytest.raises(DeviceFileError, match="of here has format 9, and this version reads 3; make it anew"):
        predict_trace(linear(), odd)
    with pytest.raises(DeviceFileError, match="the calibration of here cannot be read .*'tables'.*; make it anew"):
        predict_trace(linear(), replace(make_calibrated(), calibration={"format": 3}))


def test_predict_takes_any_model() -> None:
    """A product of 3 * 8 * 2 MACs in training mode, and that of its gradient by the weight."""
    nn = pytest.importorskip("torch").nn
    toy = DeviceInfo("toy", dense_peaks={"float32": Figure(96.0, "made up")})
    assert predict(nn.Linear(8, 2), input_shape=(8,), batch_size=3, on=toy).seconds == pytest.approx(1.0)
    predicted = predict(nn.Linear(8, 2), input_shape=(8,), batch_size=3, on=toy, training=True)
    assert predicted.seconds == pytest.approx(2.0)
    assert predicted.phase == "training"


def test_one_row_times_a_matrix_may_read_faster_than_traffic_that_writes() -> None:
    """4 * (1,000,000 + 1,000 + 1,000) bytes in 1 ms are 4.008e9 bytes a second; traffic reached 1e9.

    A product of 4 * (10,000 + 100 + 100) bytes stays in a cache: it tells nothing about more than 81,600 bytes.
    """
    points = (Point((1, 1, 1000, 1000), 2e6, 1e-3), Point((1, 1, 100, 100), 2e4, 1e-6))
    copies = EfficiencyTable("movement", "float32", (Point((4e6,), 4e6, 4e-3),))
    calibration = Calibration((EfficiencyTable("product", "float32", points), copies), 1e-5, HostSeconds(1e-5))
    assert calibration.best_bandwidth(1e5) == pytest.approx(4.008e9)
    assert calibration.best_bandwidth(8e4) == pytest.approx(40_800 / 1e-6)
    assert calibration.best_bandwidth(1e12) == pytest.approx(4.008e9)  # more than any traffic: all from memory
    assert Calibration((copies,), 1e-5, HostSeconds(1e-5)).best_bandwidth(4e6) == pytest.approx(1e9)


def test_more_than_any_traffic_comes_from_memory() -> None:
    """A calibration measures the ends first: its last point, of a size between, may stay in a cache."""
    points = (Point((1e3,), 1e3, 1e-6), Point((1e8,), 1e8, 1e-2), Point((1e6,), 1e6, 1e-5))
    calibration = Calibration((EfficiencyTable("movement", "float32", points),), 1e-5, HostSeconds(1e-5))
    assert [calibration.best_bandwidth(size) for size in (1e6, 1e8, 1e10)] == pytest.approx([1e11, 1e10, 1e10])


def test_a_call_in_a_loop_takes_the_host_each_time() -> None:
    """The layer is called three times and the model once, 0.2 ms each; it reads its inputs of 160 bytes each time."""
    trace = linear(operator("mm", 600, (4, 5), "head", bytes_read=1080, bytes_written=240))
    whole, head = trace.layers
    looped = msgspec.structs.replace(head, calls=(msgspec.structs.replace(head.calls[0], times=3),))
    predicted = predict_trace(replace(trace, layers=(whole, looped)), make_calibrated())
    assert predicted.host_seconds == pytest.approx(4 * 2e-4)
    row = predict_trace(replace(trace, layers=(whole, looped)), SHEET).layers["head"]
    assert (row["calls"], row["bound_seconds"]) == (3, pytest.approx((200 + 80 + 3 * 160) / 1e3))


def test_where_tables_are_faster_than_the_bound_the_interval_is_about_the_bound() -> None:
    """Products at 1e9 FLOP/s by the table, but 400 FLOPs at a peak of 100 take 4 s; networks took twice as long."""
    fast = EfficiencyTable("product", "float32", (Point((1, 5, 4, 4), 1e6, 1e-3), Point((1, 50, 4, 4), 2e6, 2e-3)))
    networks = tuple(network(ratio) for ratio in (1.9, 1.95, 2.0, 2.05, 2.1))
    content = write_content(Calibration((fast, TRAFFIC), 1e-4, HostSeconds(0.0), networks, "a test"))
    slow = DeviceInfo("slow", kind="cpu", dense_peaks={"float32": Figure(100.0, "made up")}, calibration=content)
    predicted = predict_trace(linear(), slow)
    assert predicted.bound.seconds == pytest.approx(4.0)
    assert predicted.estimate == pytest.approx(8.0)
    assert predicted.estimate is not None
    assert predicted.high is not None
    assert predicted.low is not None
    assert predicted.high > predicted.estimate > predicted.low


def test_an_interval_keeps_its_width_above_a_bound() -> None:
    """Networks took 0.05, 0.1 and 0.2 times the sum: a factor of two around the estimate, which the bound lifts."""
    networks = tuple(network(ratio) for ratio in (0.05, 0.1, 0.2))
    predicted = predict_trace(linear(), make_calibrated(networks=networks))
    assert predicted.estimate == predicted.low == predicted.bound.seconds
    assert predicted.high == pytest.approx(2 * predicted.bound.seconds)
