"""Profiles of torch.profiler's form by the layers of a model: times that were written by hand, counts by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from chrome_traces import ChromeTrace
from torch import nn
from torch.utils.checkpoint import checkpoint

import profilerkit
from profilerkit import DeviceInfo, JoinedProfile, ProfileFileError
from profilerkit.devices import Figure

#: With a batch of 3: 3 * 4 * 8 = 96 and 3 * 8 * 2 = 48 MACs.
MACS = {"0": 96, "1": 0, "2": 48}
#: 1 MFLOP/s and 1 MB/s: a microsecond for each operation and each byte.
SLOW = DeviceInfo(
    "slow", dense_peaks={"float32": Figure(1e6, "by hand")}, figures={"memory_bandwidth": Figure(1e6, "h")}
)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def join_trace(trace: ChromeTrace, folder: Path, **options: object) -> JoinedProfile:
    given = {"input_shape": (4,), "batch_size": 3, **options}
    return profilerkit.join(trace.save(folder / "profile.json"), network(), **given)  # type: ignore[arg-type]


def seconds(profile: JoinedProfile, column: str = "own_seconds") -> dict[str, float]:
    """Return the microseconds of each layer."""
    return {row["path"]: round(row[column] * 1e6, 6) for row in profile.layers}


def cuda_pass(trace: ChromeTrace, begin: float, ranges: bool = True) -> None:
    """Add a pass whose three kernels take 10, 2 and 5 µs, launched by the host some time before they run."""
    operators = [("0", "aten::linear", "aten::addmm"), ("1", "aten::relu", "aten::clamp_min")]
    operators.append(("2", "aten::linear", "aten::addmm"))
    trace.range("profilerkit pass", begin, begin + 99)
    if ranges:
        trace.layer("", begin + 1, begin + 98)
    for index, ((path, outer, inner), taken) in enumerate(zip(operators, (10, 2, 5), strict=True)):
        at = begin + 10 + 20 * index
        if ranges:
            trace.layer(path, at, at + 15)
        trace.operator(outer, at + 1, at + 14)
        trace.operator(inner, at + 2, at + 13)
        correlation = int(begin) * 10 + index
        trace.launch(correlation, at + 3, at + 5)
        start = begin + 200 + 20 * index
        trace.kernel(f"kernel of {inner}", start, start + taken, correlation=correlation)


def test_a_joined_profile_prints_its_table_and_has_whole_counts(tmp_path: Path) -> None:
    trace = ChromeTrace()
    cuda_pass(trace, 1000)
    profile = join_trace(trace, tmp_path)
    assert repr(profile) == "<JoinedProfile 'Sequential', torch.profiler, 4 layers, 3 kernels>"
    assert str(profile) == profile.to_text()
    counts = [
        row[f"{own}{name}"] for row in profile.layers for own in ("", "own_") for name in ("macs", "flops", "bytes")
    ]
    assert {type(count) for count in counts} == {int}


def test_kernels_of_a_device_by_ranges(tmp_path: Path) -> None:
    trace = ChromeTrace()
    for begin in (1000, 2000):
        cuda_pass(trace, begin)
    result = join_trace(trace, tmp_path)
    assert seconds(result) == {"": 0, "0": 10, "1": 2, "2": 5}
    assert seconds(result, "seconds")[""] == 17
    assert {row["path"]: row["own_macs"] for row in result.layers} == {"": 0, **MACS}
    assert result.layers[""]["macs"] == result.trace.macs == 144
    # From the first kernel (0 µs) to the end of the last (45 µs): 28 of them without any.
    assert result.recording.passes == pytest.approx((45e-6, 45e-6))
    assert result.recording.between == pytest.approx(28e-6)
    assert result.recording.on_device
    assert result.unattributed_share == 0
    assert result.layers["0"]["flops_per_second"] == pytest.approx((2 * 96 + 24) / 10e-6)


def test_the_device_of_the_profile(tmp_path: Path) -> None:
    trace = ChromeTrace({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]})
    cuda_pass(trace, 1000)
    result = join_trace(trace, tmp_path)
    assert result.device is not None
    assert result.device.name == "h100-sxm"
    # 2 * 96 FLOPs at 66.9 TFLOP/s, in 10 µs.
    assert result.layers["0"]["mfu"] == pytest.approx(192 / 66.9e12 / 10e-6)
    trace.header["deviceProperties"][0]["name"] = "Abacus"
    unknown = join_trace(trace, tmp_path)
    assert unknown.device is None
    assert any("without a device to compare with: no device 'Abacus'" in note for note in unknown.notes)


def test_more_than_the_device_can_do_is_never_silent(tmp_path: Path) -> None:
    trace = ChromeTrace()
    cuda_pass(trace, 1000)
    result = join_trace(trace, tmp_path, device=SLOW)
    # 192 µs of products at the peak, in 10 µs; the ReLU moves 2 * 3 * 8 * 4 = 192 bytes in 2 µs.
    assert result.layers["0"]["mfu"] == pytest.approx(19.2)
    assert result.layers["1"]["roofline"] == pytest.approx(96)
    assert result.above_one == ("", "0", "1", "2")
    notes = " ".join(result.notes)
    assert "above 1 by products ((model), 0, 2): no device is faster than its peak" in notes
    assert "above 1 by traffic (1): their tensors were in the device's caches" in notes
    assert "1920.0 % (!)" in result.to_text()
    assert result.to_dict()["above_one"] == ["", "0", "1", "2"]


def test_kernels_are_linked_by_the_operators_id_too(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.layer("", 0, 50)
    trace.layer("0", 1, 20)
    external = trace.operator("aten::linear", 2, 19)
    trace.kernel("gemm", 100, 108, External_id=external)
    trace.kernel("lost", 110, 112)
    result = join_trace(trace, tmp_path)
    assert seconds(result)["0"] == 8
    assert [dict(row) for row in result.unattributed] == [
        {"kernel": "lost", "around": "no operator", "calls": 1, "seconds": pytest.approx(2e-6)}
    ]
    assert any("1 kernel without an operator that started them" in note for note in result.notes)
    assert seconds(result)["2"] == 0


def test_kernels_without_a_layer_are_named(tmp_path: Path) -> None:
    trace = ChromeTrace()
    cuda_pass(trace, 1000)
    trace.range("Optimizer.step#SGD.step", 1080, 1095)
    trace.operator("aten::add_", 1082, 1090)
    trace.launch(7, 1083, 1084)
    trace.kernel("vectorized add", 1300, 1303, correlation=7)
    trace.events = [event for event in trace.events if event["name"] != "profilerkit layer: "]
    result = join_trace(trace, tmp_path)
    (row,) = result.unattributed
    assert (row["kernel"], row["around"]) == ("vectorized add", "Optimizer.step#SGD.step")
    assert result.unattributed_seconds == pytest.approx(3e-6)
    assert result.unattributed_share == pytest.approx(3 / 20)
    assert "Without a layer: 3 µs, 15.0 % of the kernels' time." in result.to_text()
    assert "vectorized add" in result.to_text()


@pytest.mark.parametrize(("microseconds", "noted"), [(16, False), (17, False), (34, True)])
def test_more_time_without_a_layer_than_with_one_is_doubted(tmp_path: Path, microseconds: int, noted: bool) -> None:
    """The three kernels of the model take 17 µs; one that no layer ran takes the rest."""
    trace = ChromeTrace()
    cuda_pass(trace, 1000)
    trace.kernel("of another model", 1300, 1300 + microseconds)
    notes = " ".join(join_trace(trace, tmp_path).notes)
    assert ("67 % of the kernels' time is in no layer of this model: the profile may be of another" in notes) == noted


def test_operators_of_the_host_take_their_own_time(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.range("profilerkit pass", 0, 100)
    trace.layer("", 1, 99)
    trace.layer("0", 10, 40)
    trace.operator("aten::linear", 11, 39)  # 28, of which 20 are another's
    trace.operator("aten::addmm", 15, 35)
    trace.operator("aten::relu", 50, 53)  # in the model itself: no range of a layer around it
    result = join_trace(trace, tmp_path)
    assert seconds(result) == {"": 3, "0": 28, "1": 0, "2": 0}
    kernels = {(kernel.name, kernel.layer): round(kernel.seconds * 1e6) for kernel in result.recording.kernels}
    assert kernels == {("aten::linear", "0"): 8, ("aten::addmm", "0"): 20, ("aten::relu", ""): 3}
    assert not result.recording.on_device
    assert result.pass_seconds == pytest.approx(42e-6)  # from 11 to 53


def test_an_operator_that_calls_a_layer_has_nothing_of_its_time(tmp_path: Path) -> None:
    """As a checkpoint does: of 40 µs the layer has 25, and the operator in it 10."""
    trace = ChromeTrace()
    trace.layer("", 0, 99)
    trace.operator("CheckpointFunction", 10, 50)
    trace.layer("0", 15, 40)
    trace.operator("aten::linear", 20, 30)
    assert seconds(join_trace(trace, tmp_path)) == {"": 15, "0": 10, "1": 0, "2": 0}


def test_layers_that_a_checkpoint_runs_again_have_no_rates(tmp_path: Path) -> None:
    """The order does not tell the layers of gradients; the checkpoint is of the layer whose product runs in it."""

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> Any:
            return self.last(checkpoint(lambda x: self.first(x).tanh(), x, use_reentrant=False))

    engine, product = "autograd::engine::evaluate_function: ", "aten::addmm"
    trace = ChromeTrace()
    trace.operator("CheckpointFunction", 9, 25, Sequence_number=4)
    trace.operator(product, 11, 13)
    trace.operator(product, 51, 54, Sequence_number=5)
    trace.operator(f"{engine}AddmmBackward0", 100, 110, Sequence_number=5)
    trace.operator(f"{engine}CheckpointFunctionBackward", 120, 180, Sequence_number=4)
    trace.operator(product, 126, 130, Sequence_number=6)
    trace.operator(f"{engine}AddmmBackward0", 140, 160, Sequence_number=6)
    result = profilerkit.join(
        trace.save(tmp_path / "p.json"), Checkpointed(), input_shape=(4,), batch_size=3, training=True
    )
    assert seconds(result, "own_backward_seconds") == {"": 0, "first": 0, "last": 0}
    assert seconds(result, "own_forward_seconds") == {"": 0, "first": 16, "last": 3}
    assert result.layers["first"]["flops_per_second"] is None
    assert any(note.startswith("a checkpoint runs layers again in the backward pass") for note in result.notes)


def test_layers_by_the_order_of_operators(tmp_path: Path) -> None:
    trace = ChromeTrace()
    for begin in (0, 100, 200):  # nothing says where a pass begins
        trace.operator("aten::linear", begin + 1, begin + 8)
        trace.operator("aten::addmm", begin + 2, begin + 7)
        trace.operator("aten::empty", begin + 8, begin + 9)
        trace.operator("aten::relu", begin + 10, begin + 12)
        trace.operator("aten::linear", begin + 15, begin + 20)
    result = join_trace(trace, tmp_path)
    assert seconds(result) == {"": 0, "0": 7, "1": 2, "2": 5}
    assert [(row["kernel"], row["calls"]) for row in result.unattributed] == [("aten::empty", 1)]
    assert len(result.recording.passes) == 3
    assert result.recording.by == "the names and order of operators"


def test_a_gradient_is_of_the_layer_that_made_its_node(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.range("profilerkit pass", 0, 200)
    trace.layer("", 1, 90)
    for path, name, number, at in (("0", "addmm", 5, 10), ("1", "relu", 6, 30), ("2", "addmm", 7, 50)):
        trace.layer(path, at, at + 9)
        trace.operator(f"aten::{name}", at + 1, at + 3, Sequence_number=number)
    for name, number, at in (("AddmmBackward0", 7, 100), ("ReluBackward0", 6, 120), ("AddmmBackward0", 5, 140)):
        trace.operator(f"autograd::engine::evaluate_function: {name}", at, at + 10, thread=101, Sequence_number=number)
        trace.operator(name, at + 1, at + 9, thread=101, Sequence_number=number)
    trace.operator("autograd::engine::evaluate_function: AccumulateGrad", 151, 155, thread=101)
    result = join_trace(trace, tmp_path)
    assert result.phase == "training"
    assert seconds(result, "own_forward_seconds") == {"": 0, "0": 2, "1": 2, "2": 2}
    assert seconds(result, "own_backward_seconds") == {"": 0, "0": 14, "1": 10, "2": 10}
    # Forward and the gradient of its weight; layer 2 also that of its input.
    assert {row["path"]: row["own_macs"] for row in result.layers} == {"": 0, "0": 192, "1": 0, "2": 144}


@pytest.mark.parametrize("thread", [100, 101])
def test_nodes_inside_a_node_are_numbered_by_its_thread(tmp_path: Path, thread: int) -> None:
    """A checkpoint runs layer 0 again in a node; another thread counts its numbers from 0, the same one goes on."""
    again = 20 if thread == 100 else 5  # 5 is also the number of layer 2 in the forward pass
    trace = ChromeTrace()
    trace.range("profilerkit pass", 0, 200)
    trace.layer("", 1, 90)
    trace.operator("CheckpointFunction", 9, 25, Sequence_number=4)
    trace.layer("0", 10, 20)
    trace.operator("aten::addmm", 11, 13)
    trace.layer("2", 50, 59)
    trace.operator("aten::addmm", 51, 54, Sequence_number=5)
    engine = "autograd::engine::evaluate_function: "
    trace.operator(f"{engine}CheckpointFunctionBackward", 100, 180, thread, Sequence_number=4)
    trace.layer("0", 110, 120, thread)
    trace.operator("aten::addmm", 111, 115, thread, Sequence_number=again)
    trace.operator(f"{engine}AddmmBackward0", 130, 160, thread, Sequence_number=again)
    result = join_trace(trace, tmp_path)
    assert seconds(result, "own_backward_seconds") == {"": 80 - 10 - 30, "0": 4 + 30, "1": 0, "2": 0}


def test_a_real_profile_has_the_counts_and_the_time(tmp_path: Path) -> None:
    model, x = network(), torch.randn(3, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(3):
            model(x)
    profiler.export_chrome_trace(str(tmp_path / "real.json"))
    result = profilerkit.join(tmp_path / "real.json", model, x)
    assert sum(row["own_macs"] for row in result.layers) == 144
    assert len(result.recording.passes) == 3
    assert all(result.layers[path]["own_seconds"] > 0 for path in ("0", "1", "2"))


def test_passes_are_left_out(tmp_path: Path) -> None:
    trace = ChromeTrace()
    cuda_pass(trace, 1000)
    cuda_pass(trace, 2000)
    trace.events[-1]["dur"] = 50  # the last kernel of the second pass
    assert seconds(join_trace(trace, tmp_path))["2"] == (5 + 50) / 2
    second = join_trace(trace, tmp_path, skip=1)
    assert seconds(second)["2"] == 50
    assert len(second.recording.passes) == 1
    with pytest.raises(ProfileFileError, match="skip=2: the profile has 2 passes; leave out fewer"):
        join_trace(trace, tmp_path, skip=2)
    with pytest.raises(profilerkit.ArgumentError, match="skip=-1: give a number of passes from 0"):
        join_trace(trace, tmp_path, skip=-1)


def test_kernels_of_no_operator_in_passes_that_are_left_out_are_left_out_too(tmp_path: Path) -> None:
    trace = ChromeTrace()
    cuda_pass(trace, 1000)
    cuda_pass(trace, 2000)
    trace.kernel("lost", 1500, 1512)
    trace.kernel("lost", 2500, 2504)

    def measure_lost(skip: int, note: str) -> float:
        result = join_trace(trace, tmp_path, skip=skip)
        assert note in result.notes
        [row] = [row for row in result.unattributed if row["kernel"] == "lost"]
        return float(row["seconds"])

    assert measure_lost(0, "2 kernels without an operator that started them") == pytest.approx((12 + 4) / 2 * 1e-6)
    assert measure_lost(1, "1 kernel without an operator that started them") == pytest.approx(4e-6)


def test_a_step_without_a_pass_is_none(tmp_path: Path) -> None:
    """The profiler opens a step when one ends: a loop of two steps that ends before its schedule leaves a third."""
    trace = ChromeTrace()
    for number, begin in enumerate((0, 100)):
        trace.range(f"ProfilerStep#{number}", begin, begin + 99)
        trace.operator("aten::linear", begin + 1, begin + 11)
        trace.operator("aten::relu", begin + 20, begin + 22)
        trace.operator("aten::linear", begin + 30, begin + 35)
    trace.range("ProfilerStep#2", 200, 205)
    trace.operator("aten::relu", 201, 202)  # a user's own work after the loop
    result = join_trace(trace, tmp_path)
    assert seconds(result) == {"": 0, "0": 10, "1": 2, "2": 5}
    assert result.recording.passes == pytest.approx((34e-6, 34e-6))


@pytest.mark.parametrize("skip", [0, 1])
def test_a_kernel_of_no_operator_before_all_passes_is_of_none(tmp_path: Path, skip: int) -> None:
    """A pass takes 45 µs from its first kernel to the end of its last, whatever was copied long before."""
    trace = ChromeTrace()
    trace.operator("aten::copy_", 10, 20)
    trace.kernel("Memcpy", 100, 130)
    for begin in (1000, 2000):
        cuda_pass(trace, begin)
    result = join_trace(trace, tmp_path, skip=skip)
    assert result.recording.passes == pytest.approx((45e-6,) * (2 - skip))
    assert result.unattributed_seconds == 0
    assert "1 kernels outside of the passes are left out; they took 30 µs" in result.notes


def test_a_first_step_without_a_pass_says_nothing_of_the_model(tmp_path: Path) -> None:
    """It was searched for the model's products, and the profile was called one of another model."""
    trace = ChromeTrace()
    trace.range("ProfilerStep#0", 0, 50)
    trace.operator("aten::empty", 1, 9)
    trace.range("ProfilerStep#1", 100, 199)
    for path, start in (("0", 110), ("2", 130)):
        trace.layer(path, start, start + 12)
        trace.operator("aten::linear", start + 1, start + 11)
    result = join_trace(trace, tmp_path)
    assert seconds(result) == {"": 0, "0": 10, "1": 0, "2": 10}
    assert len(result.recording.passes) == 1


@pytest.mark.parametrize(
    ("slow", "note"),
    [
        (3, "pass 3 of 3 took 12.0 times the median of all passes: something may have interrupted it"),
        (1, "pass 1 of 3 took 12.0 times the median of all passes: if it was a warm-up pass, leave it out with"),
    ],
)
def test_a_slow_pass_is_named(tmp_path: Path, slow: int, note: str) -> None:
    trace = ChromeTrace()
    for number in (1, 2, 3):
        cuda_pass(trace, 1000 * number)
        if number == slow:
            trace.events[-1]["dur"] = 500
    assert any(text.startswith(note) for text in join_trace(trace, tmp_path).notes)


def test_other_models_are_refused(tmp_path: Path) -> None:
    ranges = ChromeTrace()
    ranges.layer("encoder.0", 0, 9)
    ranges.operator("aten::linear", 1, 3)
    with pytest.raises(ProfileFileError, match="another model: it has 1 layer .*'encoder.0'; the model's nearest are"):
        join_trace(ranges, tmp_path)
    operators = ChromeTrace()
    operators.operator("aten::conv2d", 1, 3)
    with pytest.raises(ProfileFileError, match="0 of the 2 products that the model has in 1 passes are found"):
        join_trace(operators, tmp_path)
    silent = ChromeTrace()
    silent.layer("0", 0, 9)
    silent.operator("aten::conv2d", 1, 3)
    with pytest.raises(ProfileFileError, match="in the layers that it names, none of the model's products is found"):
        join_trace(silent, tmp_path)


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.layer("", 0, 99)
    trace.layer("0", 1, 20)
    trace.operator("aten::linear", 2, 19, Input_Dims=[[32, 4], [8, 4], [8]])
    with pytest.raises(
        ProfileFileError, match=r"aten::linear in '0' makes \(32, 8\) in the profile, \(3, 8\) in the trace"
    ):
        join_trace(trace, tmp_path)
    assert seconds(join_trace(trace, tmp_path, batch_size=32))["0"] == 17


@pytest.mark.parametrize(
    ("steps", "images"),
    [
        (["[2, 2]", "[1, 1]", "[2, 2]"], {9, 10}),  # (9 + 2 - 4 - 1) // 2 + 1 = 4, and 4 of 10
        (["[1, 1]", "same", "[1, 1]"], {8, 9, 10, 12}),  # the size is not told
        ([], {8, 9, 10, 12}),
        (["[0, 0]", "[1, 1]", "[2, 2]"], {8, 9, 10, 12}),
    ],
)
def test_images_of_another_size_are_refused(tmp_path: Path, steps: list[str], images: set[int]) -> None:
    trace = ChromeTrace()
    trace.layer("", 0, 99)
    trace.operator(
        "aten::conv2d", 2, 19, Input_Dims=[[1, 3, 9, 9], [8, 3, 3, 3]], Concrete_Inputs=["", "", "", *steps, "1"]
    )
    file = trace.save(tmp_path / "profile.json")
    convolution = nn.Conv2d(3, 8, 3, stride=2, padding=1, dilation=2)
    for size in (8, 9, 10, 12):
        if size in images:
            assert profilerkit.join(file, convolution, input_shape=(3, size, size)).trace.macs in (
                3 * 3 * 8 * 27,  # of 8: (8 + 2 - 4 - 1) // 2 + 1 = 3
                4 * 4 * 8 * 27,
                5 * 5 * 8 * 27,  # of 12: (12 + 2 - 4 - 1) // 2 + 1 = 5
            )
        else:
            with pytest.raises(ProfileFileError, match=r"makes \(1, 8, 4, 4\) in the profile, \(1, 8, (3, 3|5, 5)\)"):
                profilerkit.join(file, convolution, input_shape=(3, size, size))


def test_profiles_without_operators_are_refused(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.range("profilerkit pass", 0, 9)
    trace.kernel("gemm", 3, 5)
    with pytest.raises(ProfileFileError, match="has no operator, and 1 kernels; profile with activities="):
        join_trace(trace, tmp_path)
    empty = ChromeTrace({"schemaVersion": 1, "deviceProperties": []})
    with pytest.raises(ProfileFileError, match="has no operator, and no kernels"):
        join_trace(empty, tmp_path)
    outside = ChromeTrace()
    cuda_pass(outside, 1000)
    for event in outside.events:
        if event["cat"] == "kernel":
            event["args"]["correlation"] = -1
    with pytest.raises(ProfileFileError, match="none of the profile's time is that of a layer of the model"):
        join_trace(outside, tmp_path)
    late = ChromeTrace()
    late.range("profilerkit pass", 0, 9)
    late.layer("", 20, 30)
    late.operator("aten::relu", 21, 29)
    with pytest.raises(ProfileFileError, match="the passes of the profile have no operator of a layer in them"):
        profilerkit.join(late.save(tmp_path / "late.json"), nn.ReLU(), input_shape=(4,))


def test_profiles_of_other_frameworks_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ort.json"
    file.write_text('[{"cat": "Node", "name": "a_kernel_time", "ph": "X", "ts": 1, "dur": 1, "args": {}}]')
    with pytest.raises(ProfileFileError, match="is a profile of onnxruntime, and the model is one of PyTorch"):
        profilerkit.join(file, network(), input_shape=(4,))


def test_what_the_script_noted_is_used(tmp_path: Path) -> None:
    noted = {"inputs": [{"name": None, "shape": [3, 4], "dtype": "float32"}], "training": False}
    trace = ChromeTrace({"schemaVersion": 1, "profilerkit": noted})
    cuda_pass(trace, 1000)
    result = profilerkit.join(trace.save(tmp_path / "profile.json.gz"), network())
    assert result.trace.macs == 144
    first = {"name": None, "shape": [3, 4], "dtype": "float32"}
    wrong = [[{"name": None}], [first, first | {"shape": []}], [first, first | {"shape": [5, 4]}]]
    for noted["inputs"] in wrong:  # without a shape, a number, and of another batch
        with pytest.raises(ProfileFileError, match="what its script has noted of the inputs cannot be read"):
            profilerkit.join(trace.save(tmp_path / "profile.json.gz"), network())


def test_forms_and_files(tmp_path: Path) -> None:
    trace = ChromeTrace()
    cuda_pass(trace, 1000)
    result = join_trace(trace, tmp_path)
    result.save(tmp_path / "a.json")
    result.save(tmp_path / "a.txt")
    assert '"kind": "joined profile"' in (tmp_path / "a.json").read_text()
    assert (tmp_path / "a.txt").read_text().rstrip("\n") == result.to_text()
    top = result.to_text(top=1)
    assert "Linear" in top
    assert "ReLU" not in top
    assert "Linear" not in result.to_text(depth=0)
    with pytest.raises(profilerkit.ArgumentError, match=r"give a name that ends in \.json or \.txt"):
        result.save(tmp_path / "a.csv")
