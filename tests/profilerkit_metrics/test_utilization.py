"""MFU, HFU and MBU against the definitions of the field, on devices and times that are made up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from profilerkit import (
    ArgumentError,
    Completeness,
    DeviceInfo,
    Measurement,
    Noted,
    NotOfferedError,
    RunOptions,
    Unavailable,
    profile,
)
from profilerkit.devices import Figure, macs_by_dtype
from profilerkit.hooks.backends import backend_named
from profilerkit.inputs import ModelInputs
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord, RankShare, TensorInfo, WeightRecord
from profilerkit_metrics import ComputeMbu, ComputeMfu, ComputeTrainingUtilization

TOY = DeviceInfo(
    "toy",
    dense_peaks={"float32": Figure(1000.0, "made up"), "bfloat16": Figure(4000.0, "made up")},
    sparse_peaks={"bfloat16": Figure(8000.0, "made up")},
    figures={"memory_bandwidth": Figure(100.0, "made up")},
)
ONE_SECOND = Measurement((1.0, 1.0, 1.0))
BACKEND: Any = SimpleNamespace(name="none")


def product(macs: int, dtype: str, operator: str = "mm", **more: Any) -> OpRecord:
    return OpRecord(operator, "", 0, macs, 2 * macs + 7, 0, 0, (TensorInfo((1,), dtype),), **more)


def make_trace(*operators: OpRecord, weights: tuple[WeightRecord, ...] = ()) -> ModelTrace:
    return ModelTrace((LayerRecord("", "Model", 0, weights),), operators)


def mfu(trace: ModelTrace, options: RunOptions | None = None, **more: Any) -> Any:
    return ComputeMfu()(None, BACKEND, trace, ONE_SECOND, options or RunOptions(), peaks_of=TOY, **more)


def test_mfu_sums_products_at_the_dense_peaks_of_their_dtypes() -> None:
    """100 MACs in float32 take 0.2 s at 1000 FLOP/s, 200 in bfloat16 0.1 s at 4000; element-wise work is nothing."""
    elementwise = OpRecord("relu", "", 0, 0, 10**9, 0, 0, (TensorInfo((1,), "float32"),))
    share = mfu(make_trace(product(100, "float32"), product(200, "bfloat16"), elementwise))
    assert share.value.median == pytest.approx(0.3)
    assert "100 MACs in float32, 200 MACs in bfloat16; attention counts in full" in share.note


def test_attention_may_count_as_attended() -> None:
    """Of 100 MACs of causal attention 60 are up to the diagonal; 50 under a mask of unknown values count in full."""
    causal = product(100, "float32", "attention", attended_macs=60)
    masked = product(50, "float32", "attention", is_masked=True)
    full, attended = mfu(make_trace(causal, masked)), mfu(make_trace(causal, masked), attention="attended")
    assert full.value.median == pytest.approx(2 * 150 / 1000)
    assert attended.value.median == pytest.approx(2 * 110 / 1000)
    assert full.note.endswith("attention counts in full")
    assert attended.note.endswith(
        "; causal or windowed attention of 1 operator: what it attends to; "
        "attention of 1 operator under a mask of unknown values: in full"
    )


def test_training_counts_attention_as_requested() -> None:
    causal = product(100, "float32", attended_macs=60)
    shares = ComputeTrainingUtilization()(
        None, BACKEND, make_trace(causal), ONE_SECOND, RunOptions(), peaks_of=TOY, attention="attended"
    )
    assert [share.value.median for share in shares.values()] == [pytest.approx(0.12)] * 2


def test_another_attention_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="attention='causal': give 'full' or 'attended'"):
        mfu(make_trace(product(100, "float32")), attention="causal")


def test_the_dtype_may_be_given() -> None:
    assert mfu(make_trace(product(100, "float32")), dtype="bf16").value.median == pytest.approx(200 / 4000)


def test_autocast_needs_the_dtype() -> None:
    trace = make_trace(product(100, "float32"))
    with pytest.raises(NotOfferedError, match="autocast chose the dtype of the products: give it, dtype='bf16'"):
        mfu(trace, RunOptions(autocast=True))
    network = nn.Sequential(nn.Linear(8, 2))
    how: dict[str, Any] = {"autocast": True, "peaks_of": TOY, "num_iters": 3}
    record = profile(network, input_shape=(8,), metrics=["mfu"], **how).status("mfu")
    assert record.completeness is Completeness.UNAVAILABLE, "a report has it as a reason"
    assert mfu(trace, RunOptions(autocast="bfloat16")).value.median == pytest.approx(200 / 4000)


def test_an_unknown_peak_is_said() -> None:
    share = mfu(make_trace(product(100, "float16")))
    assert isinstance(share, Unavailable)
    assert share.reason.startswith(
        "the dense peak of toy for float16 is not known (known are: float32, bfloat16); add it to a file of the device"
    )


def test_a_share_above_one_says_that_the_peak_is_wrong() -> None:
    assert "above 1: these are not the peaks" in mfu(make_trace(product(10**6, "float32"))).note


def test_ranks_that_share_a_pass_have_a_part_of_it_each() -> None:
    """200 FLOPs at 1,000 FLOP/s, and 24 bytes at 100 bytes a second, of which each of two ranks has a half."""
    weights = (WeightRecord("w", 1, 6, 24, "float32", True),)
    trace = replace(make_trace(product(100, "float32"), weights=weights), rank=RankShare(0, 2, 3, 12, work_shared_by=2))
    assert mfu(trace).value.median == pytest.approx(0.2 / 2)
    share = ComputeMbu()(None, BACKEND, trace, ONE_SECOND, RunOptions(), peaks_of=TOY)
    assert share.value.median == pytest.approx(0.24 / 2)


def test_a_timed_training_step_is_no_forward_pass() -> None:
    share = mfu(make_trace(product(100, "float32")), RunOptions(training=True))
    assert share == Unavailable("a training step was timed: training_mfu is its share")
    share = ComputeMbu()(None, BACKEND, make_trace(), ONE_SECOND, RunOptions(training=True), peaks_of=TOY)
    assert share == Unavailable("a training step was timed, which reads more than the weights")


def test_mbu_is_weights_and_cache_over_the_bandwidth() -> None:
    """(24 + 16) bytes in a second of 100 bytes a second."""
    weights = (WeightRecord("w", 1, 6, 24, "float32", True),)
    share = ComputeMbu()(
        None, BACKEND, make_trace(weights=weights), ONE_SECOND, RunOptions(), peaks_of=TOY, cache_bytes=16
    )
    assert isinstance(share, Noted)
    assert share.value.median == pytest.approx(0.4)


@pytest.mark.parametrize("cache_bytes", [-1, 2.5, "8 GB"])
def test_a_cache_has_a_whole_number_of_bytes(cache_bytes: Any) -> None:
    with pytest.raises(ArgumentError, match="cache_bytes=.*give a whole number from 0"):
        profile(nn.Linear(8, 2), input_shape=(8,), metrics=["mbu"], peaks_of=TOY, num_iters=3, cache_bytes=cache_bytes)


def test_mbu_without_a_bandwidth() -> None:
    share = ComputeMbu()(None, BACKEND, make_trace(), ONE_SECOND, RunOptions(), peaks_of=DeviceInfo("bare"))
    assert share == Unavailable("the bandwidth of bare is not known; give a described device with peaks_of=")


def test_hfu_has_what_is_computed_again() -> None:
    trace = make_trace(product(100, "float32"), product(50, "float32", phase="backward", recomputed=True))
    shares = ComputeTrainingUtilization()(None, BACKEND, trace, ONE_SECOND, RunOptions(), peaks_of=TOY)
    assert shares["training_mfu"].value.median == pytest.approx(0.2)
    assert shares["training_hfu"].value.median == pytest.approx(0.3)


class Checkpointed(nn.Module):
    """Two linear layers, the second of which a checkpoint may run again."""

    def __init__(self, how: bool | None) -> None:
        super().__init__()
        self.first, self.how = nn.Linear(4, 8), how
        self.second = nn.Sequential(nn.Linear(8, 2), nn.ReLU())  # the gradient of ReLU needs its output

    def forward(self, x: torch.Tensor) -> Any:
        x = self.first(x)
        return self.second(x) if self.how is None else checkpoint(self.second, x, use_reentrant=self.how)


@pytest.mark.parametrize("how", [None, False, True])
def test_what_a_checkpoint_runs_again_is_recomputed(how: bool | None) -> None:
    """Batch 3. Forward 3*4*8 + 3*8*2; gradients by both weights, and by the input of the second: 96 + 48 + 48."""
    trace = backend_named("torch").trace_training(Checkpointed(how), ModelInputs(torch.randn(3, 4)))  # type: ignore[attr-defined]
    once = 96 + 48 + 96 + 48 + 48
    assert sum(macs_by_dtype(trace, recomputed=False).values()) == once
    assert sum(macs_by_dtype(trace).values()) == once + (0 if how is None else 48)


def test_numbers_by_dtype_of_a_mixed_model() -> None:
    """A linear layer of 8 * 4 in float32 and one of 4 * 2 in float64: 36 * 32 + 10 * 64 bits over 46 elements."""
    model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2).double())
    model[1].register_forward_pre_hook(lambda module, args: (args[0].double(),))
    report = profile(model, input_shape=(8,), metrics=["macs_by_dtype", "bits_per_param"])
    assert report["macs_by_dtype"] == {"float32": 32, "float64": 8}
    assert report["bits_per_param"] == pytest.approx((36 * 32 + 10 * 64) / 46)
    assert report.status("macs_by_dtype").shown == "float32 32 MACs, float64 8 MACs"


@pytest.mark.parametrize("key", ["mfu", "mbu", "training_mfu", "training_hfu"])
def test_a_count_of_some_layers_is_not_divided_by_the_time_of_all(key: str) -> None:
    """The time is that of both layers; the counts would be those of the first."""
    network = nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 4))
    how: dict[str, Any] = {"metrics": [key], "peaks_of": TOY, "num_iters": 3}
    left_out = profile(network, input_shape=(8,), ignore=["1"], **how).status(key)
    assert left_out.completeness is Completeness.UNAVAILABLE
    assert left_out.missing[0].endswith("; profile without ignore=")
    assert profile(network, input_shape=(8,), ignore=[], **how).status(key).completeness is Completeness.COMPLETE


def test_the_bits_of_some_weights_are_no_bound_for_those_of_all() -> None:
    """The lazy layer has wider weights here; it may as well have narrower ones."""
    report = profile(nn.Sequential(nn.Linear(8, 2).half(), nn.LazyLinear(4)), metrics=["bits_per_param"])
    record = report.status("bits_per_param")
    assert (record.value, record.completeness.value, record.bounds) == (16.0, "partial", Bounds())
    without_any = profile(nn.LazyLinear(4), metrics=["bits_per_param"]).status("bits_per_param")
    assert without_any.missing[0].startswith("the weights of lazy modules, which the first call makes")
