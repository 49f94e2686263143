"""Layers by the order of operators, as profiles of GPUs and of other versions of torch have them; times by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from chrome_traces import ChromeTrace
from torch import nn

import profilerkit
from profilerkit import JoinedProfile
from profilerkit_torch.joining.profiled_operators import common_name

BLOCKS = 4
#: The microseconds of a block's kernels: a convolution has 10 and its number, so that a shift is seen.
NORM, RELU = 3, 1
LONG = f"void at::native::kernel<{'lambda, ' * 400}>"


def network() -> nn.Sequential:
    """Return blocks of a convolution, a batch norm and a ReLU: paths "0" to "11"."""
    return nn.Sequential(
        *(item for _ in range(BLOCKS) for item in (nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)))
    )


def join_trace(trace: ChromeTrace, folder: Path, **options: object) -> JoinedProfile:
    profile = trace.save(folder / "profile.json")
    return profilerkit.join(profile, network(), input_shape=(4, 5, 5), batch_size=2, **options)  # type: ignore[arg-type]


def launch(trace: ChromeTrace, names: tuple[str, ...], at: float, taken: float, kernel: str = "kernel") -> None:
    """Add nested operators of 8 µs, the innermost of which starts a kernel."""
    for depth, name in enumerate(names):
        trace.operator(name, at + depth, at + 8 - depth)
    correlation = len(trace.events)
    trace.launch(correlation, at + len(names), at + len(names) + 0.5)
    trace.kernel(kernel, at + 5000, at + 5000 + taken, correlation=correlation)


def cuda_pass(trace: ChromeTrace, begin: float, counters: bool = True) -> float:
    """Add a pass as torch has it on CUDA; return its end. Before 1.9, batch norms counted with ``aten::add``."""
    at = begin
    for block in range(BLOCKS):
        launch(trace, ("aten::conv2d", "aten::convolution", "aten::cudnn_convolution"), at, 10 + block)
        if counters:
            trace.operator("aten::add", at + 8.5, at + 9)
        launch(trace, ("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::cudnn_batch_norm"), at + 10, NORM)
        launch(trace, ("aten::relu_", "aten::threshold_"), at + 20, RELU)
        at += 30
    return at


def own(profile: JoinedProfile, column: str = "own_forward_seconds") -> dict[str, float]:
    return {row["path"]: round(row[column] * 1e6, 6) for row in profile.layers}


EXPECTED = {"": 0} | {
    str(3 * block + place): taken for block in range(BLOCKS) for place, taken in enumerate((10 + block, NORM, RELU))
}


@pytest.mark.parametrize("counters", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_kernels_of_cudnn_are_of_the_layers_that_the_trace_has_with_other_names(
    tmp_path: Path, counters: bool, training: bool
) -> None:
    """A step's trace has a counter beside each batch norm, the profile of another version has none, or another."""
    trace = ChromeTrace()
    end = cuda_pass(trace, 0, counters)
    cuda_pass(trace, end, counters)
    result = join_trace(trace, tmp_path, training=training)
    assert own(result) == EXPECTED
    assert len(result.recording.passes) == 2
    assert result.unattributed_share == 0
    assert sum(row["own_macs"] for row in result.layers) == result.trace.macs
    doubt = "training=True was given, but no gradient ran in the profile: its work is counted, its time is not there"
    assert (doubt in result.notes) is training


def test_what_makes_the_model_ready_is_no_pass(tmp_path: Path) -> None:
    trace = ChromeTrace()
    launch(trace, ("aten::uniform_",), 0, 700)
    launch(trace, ("aten::to", "aten::copy_"), 10, 300)
    cuda_pass(trace, cuda_pass(trace, 1000))
    result = join_trace(trace, tmp_path)
    assert own(result) == EXPECTED
    assert result.unattributed_share == 0
    assert "2 kernels outside of the passes are left out; they took 1 ms" in result.notes
    # 110 µs from a pass's first operator to its last, whose kernel takes 1.
    assert result.recording.passes == pytest.approx((111e-6, 111e-6))
    (pass_,) = join_trace(trace, tmp_path, skip=1).recording.passes
    assert pass_ == pytest.approx(111e-6)


def test_gradients_of_torch_1_8_have_no_layer_and_layers_no_rate(tmp_path: Path) -> None:
    """Its nodes have no numbers: their kernels take 40 of 86 µs, and belong to no forward operator."""
    trace = ChromeTrace()
    end = cuda_pass(trace, 0)
    for index in range(BLOCKS):
        launch(trace, ("CudnnConvolutionBackward", "aten::convolution"), end + 10 * index, 9)
        launch(trace, ("torch::autograd::AccumulateGrad", "aten::add_"), end + 200 + 10 * index, 1)
    for event in trace.events:
        event["cat"] = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}[event["cat"]]
    doubt = "training=False was given, but gradients ran in the profile: their time is there, their work is not"
    assert doubt in join_trace(trace, tmp_path, training=False).notes
    assert not any("was given" in note for note in join_trace(trace, tmp_path, training=True).notes)
    result = join_trace(trace, tmp_path)
    assert result.phase == "training"
    assert own(result) == EXPECTED
    assert set(own(result, "own_backward_seconds").values()) == {0}
    forward = sum(EXPECTED.values())
    assert result.unattributed_share == pytest.approx(40 / (forward + 40))
    assert {row["around"] for row in result.unattributed} == {
        "CudnnConvolutionBackward",
        "torch::autograd::AccumulateGrad",
    }
    assert any(
        "the nodes of gradients have no sequence numbers, as in profiles of torch 1.8" in note for note in result.notes
    )
    assert [row["flops_per_second"] for row in result.layers] == [None] * len(EXPECTED)


def test_names_of_kernels_are_shown_in_part(tmp_path: Path) -> None:
    trace = ChromeTrace()
    end = cuda_pass(trace, 0)
    launch(trace, ("aten::sort",), end, 5, LONG)
    result = join_trace(trace, tmp_path)
    assert [row["kernel"] for row in result.unattributed] == [LONG]
    assert LONG[:59] in " ".join(result.to_text().split())
    assert LONG[:80] not in " ".join(result.to_text().split())


@pytest.mark.parametrize(
    ("name", "common"),
    [
        ("aten::_convolution", "aten::convolution"),
        ("aten::conv2d", "aten::convolution"),
        ("mkldnn::_convolution_pointwise", "aten::convolution"),
        ("aten::addmm", "aten::linear"),
        ("aten::miopen_convolution", "aten::convolution"),
        ("aten::_native_batch_norm_legit_functional", "aten::batch_norm"),
        ("aten::_batch_norm_with_update", "aten::batch_norm"),
        ("aten::native_layer_norm", "aten::layer_norm"),
        ("aten::_fused_dropout", "aten::dropout"),
        ("aten::relu_", "aten::relu"),
        ("aten::_scaled_dot_product_efficient_attention", "aten::scaled_dot_product_attention"),
        ("aten::_softmax", "aten::_softmax"),
        ("mine::native_thing", "mine::native_thing"),
    ],
)
def test_common_names(name: str, common: str) -> None:
    assert common_name(name) == common
