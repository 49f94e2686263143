"""No run is faster than a bound: bytes that need not move do not count, and products count at the fastest peak."""

from __future__ import annotations

import pytest

from profilerkit import DeviceInfo
from profilerkit.devices import Figure, UnknownPeakError, macs_by_dtype
from profilerkit.trace.records import LayerCall, LayerRecord, MemoryTimeline, ModelTrace, OpRecord, TensorInfo
from profilerkit.trace.records import WeightRecord as Weight
from profilerkit_predict.prediction import compulsory_bytes, compute_bound, predict_trace

AMPERE = DeviceInfo(
    "ampere",
    dense_peaks={name: Figure(peak, "made up") for name, peak in {"float32": 1.0, "tf32": 8.0, "int8": 16.0}.items()},
    sparse_peaks={"tf32": Figure(16.0, "made up"), "int8": Figure(32.0, "made up")},
)


def operator(name: str, macs: int, read: int, shape: tuple[int, ...], dtype: str = "float32") -> OpRecord:
    written = 4
    for size in shape:
        written *= size
    return OpRecord(name, "", 0, macs, 2 * macs, read, written, (TensorInfo(shape, dtype),))


def trace(weight_bytes: int, *operators: OpRecord) -> ModelTrace:
    """A layer that holds one weight and runs operators; inputs of 16 bytes, and the last output."""
    weight = Weight("weight", 1, weight_bytes // 4, weight_bytes, "float32", True)
    root = LayerRecord("", "Model", 0, (weight,), calls=(LayerCall((), operators[-1].outputs),))
    return ModelTrace((root,), operators, MemoryTimeline(weight_bytes, 16))


# A table of 1,000 rows of 5 floats, 20,000 bytes; two rows are 40 bytes, their indices 16.
LOOKUPS = ["aten.index.Tensor", "aten.index_select.default", "aten.embedding.default", "aten.gather.default"]
LOOKUPS += ["aten.take.default", "aten._embedding_bag.default", "GatherV2", "ResourceGather", "Gather", "GatherND"]
LOOKUPS += ["gather", "dynamic_slice"]


@pytest.mark.parametrize("name", LOOKUPS)
def test_of_a_table_the_rows_count(name: str) -> None:
    looked_up = operator(name, 0, 20_016, (2, 5))
    assert compulsory_bytes(trace(20_000, looked_up)) == 40 + 16 + 40
    scaled = operator("aten.mul.Tensor", 0, 44, (2, 5))
    assert compulsory_bytes(trace(20_000, looked_up, scaled)) == 40 + 16 + 40
    product = operator("aten.mm.default", 30, 40 + 60, (2, 3))
    assert compulsory_bytes(trace(20_000, looked_up, product)) == 40 + 16 + 24


def test_a_table_that_a_product_reads_counts_in_full() -> None:
    looked_up = operator("aten.embedding.default", 0, 20_016, (2, 5))
    head = operator("aten.mm.default", 10_000, 20_040, (2, 1000))
    assert compulsory_bytes(trace(20_000, looked_up, head)) == 20_000 + 16 + 8000


@pytest.mark.parametrize("name", ["aten._grouped_mm.default", "ragged_dot_general", "com.microsoft::MoE"])
def test_of_experts_one_counts(name: str) -> None:
    # Four rows with 10 experts of 5 x 3 floats: 4 * 5 * 3 MACs; one expert is 60 bytes of 600.
    assert compulsory_bytes(trace(600, operator(name, 60, 680, (4, 3)))) == 60 + 16 + 48


def test_of_packed_experts_one_counts_in_the_fewest_bits() -> None:
    # One expert of 5 x 3 numbers of 2 bits or more: 3.75 bytes.
    assert compulsory_bytes(trace(75, operator("com.microsoft::QMoE", 60, 155, (4, 3)))) == 3.75 + 16 + 48


def test_of_a_weight_that_is_cut_no_more_than_was_read_counts() -> None:
    # Ten of a thousand rows of 5 floats, by a view that is no operator.
    assert compulsory_bytes(trace(20_000, operator("aten.mm.default", 50, 16 + 200, (1, 10)))) == 216 + 40


def test_convolutions_count_at_the_peak_of_tf32() -> None:
    both = trace(40, operator("aten.conv2d.default", 40, 56, (1, 1, 2, 2)), operator("aten.mm.default", 3, 56, (1, 1)))
    assert compute_bound(both, AMPERE).products == 2 * 40 / 8 + 2 * 3 / 1
    assert compute_bound(both, AMPERE, "float32").products == 2 * 43 / 1
    assert compute_bound(both, AMPERE, "tf32").products == 2 * 43 / 8
    notes = predict_trace(both, AMPERE).notes
    assert any("float32 convolutions at the peak of tf32" in note for note in notes)
    assert any("other float32 products at their own peak; dtype='tf32'" in note for note in notes)
    assert not any("tf32" in note for note in predict_trace(both, AMPERE, dtype="float32").notes)


def test_without_a_peak_of_tf32_convolutions_count_at_that_of_float32() -> None:
    plain = DeviceInfo("plain", dense_peaks={"float32": Figure(2.0, "made up")})
    convolution = trace(40, operator("aten.conv2d.default", 40, 56, (1, 1, 2, 2)))
    assert compute_bound(convolution, plain).products == 40
    assert not any("tf32" in note for note in predict_trace(convolution, plain).notes)


def test_integers_without_a_peak_are_no_other_integers() -> None:
    wide = trace(40, operator("aten.mm.default", 3, 56, (1, 1), "int16"))
    with pytest.raises(UnknownPeakError, match="the dense peak of ampere for int16 is not known"):
        compute_bound(wide, AMPERE)


@pytest.mark.parametrize("name", ["quantized.linear_dynamic.default", "com.microsoft::DynamicQuantizeMatMul"])
def test_products_that_quantize_run_in_eight_bits(name: str) -> None:
    assert macs_by_dtype([operator(name, 6, 56, (1, 1))]) == {"int8": 6}
    assert compute_bound(trace(40, operator(name, 8, 56, (1, 1))), AMPERE).products == 2 * 8 / 16
