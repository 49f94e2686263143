"""Values that cannot be right are flagged; values that can be are not."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from profilerkit import Completeness, Measurement, Report, profile
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table
from profilerkit_audits.plausibility import ACCELERATOR_FLOPS, CORE_FLOPS, find_flags
from profilerkit_numpy.layers import Sequential, dense


@pytest.fixture(scope="module")
def fine() -> Report:
    return profile(Sequential(dense(4, 8)), input_shape=(4,), num_iters=3)


def with_value(report: Report, key: str, value: Any, **fields: Any) -> Report:
    record = replace(report.statuses[key], value=value, **fields)
    return replace(report, statuses={**report.statuses, key: record})


def test_a_report_that_is_fine_has_no_flags(fine: Report) -> None:
    assert find_flags(fine) == ()


def test_a_zero_is_flagged_unless_something_is_said_to_be_missing(fine: Report) -> None:
    assert find_flags(with_value(fine, "macs", 0)) == ("macs: it is 0, and is reported as complete",)
    assert find_flags(with_value(fine, "macs", 0, completeness=Completeness.PARTIAL)) == ()


def test_a_model_without_parameters_may_do_no_macs_but_some_work(fine: Report) -> None:
    """A resize, which may only copy values; a model of which no operator is seen was most often not run at all."""
    resize = with_value(with_value(fine, "total_params", 0), "macs", 0)
    assert find_flags(resize) == find_flags(with_value(resize, "flops", 0)) == ()
    for operators in (None, Table(())):
        assert find_flags(replace(with_value(resize, "flops", 0), operators=operators)) == tuple(
            f"{name}: it is 0, and is reported as complete" for name in ("macs", "flops")
        )
    assert find_flags(with_value(resize, "memory_footprint", 0)) == (
        "memory_footprint: it is 0, and is reported as complete",
    )


@pytest.mark.parametrize(
    ("types", "flagged"),
    [
        (["LayerNorm"], ["flops"]),
        (["BatchNormalization", "LlamaRMSNorm", "PReLU"], ["flops"]),
        (["Embedding"], []),
        (["Embed", "EmbeddingBag", "LayerNorm"], ["flops"]),
        (["LayerNorm", "Dense"], ["macs", "flops"]),
    ],
)
def test_layers_without_products_may_do_no_macs(types: list[str], flagged: list[str], fine: Report) -> None:
    """A normalization multiplies each value by one of its parameters; rows of a table are copied."""
    rows = [{**next(iter(fine.layerwise)), "type": kind, "own_params": 16} for kind in types]
    zero = replace(with_value(with_value(fine, "macs", 0), "flops", 0), layers=LayerTable(rows))
    assert find_flags(zero) == tuple(f"{name}: it is 0, and is reported as complete" for name in flagged)
    assert len(find_flags(replace(zero, operators=None))) == 2


def test_a_time_of_zero(fine: Report) -> None:
    (flag,) = find_flags(with_value(fine, "execution_time", Measurement((0.0, 0.0, 0.0))))
    assert flag == "execution_time: its median is 0.0, and no measurement is zero or less"


@pytest.mark.parametrize(
    ("report_facts", "factor"),
    [
        ({"environment": {}}, CORE_FLOPS * (os.cpu_count() or 1)),
        ({"environment": {"cores": "7"}}, 7 * CORE_FLOPS),  # of the machine that it was measured on
        ({"environment": {"cores": "7", "accelerators": "NVIDIA H100"}}, ACCELERATOR_FLOPS),  # it may have run there
        ({"environment": {"cores": "7", "devices": "cpu:0"}}, 7 * CORE_FLOPS),
        (
            {"environment": {"cores": "7", "accelerators": "H100"}, "arguments": {"device": "cpu"}},
            7 * CORE_FLOPS,
        ),
        ({"environment": {"cores": "7"}, "arguments": {"device": "cuda:1"}}, ACCELERATOR_FLOPS),
        ({"environment": {"cores": "7"}, "arguments": {"autocast": "True"}}, 7 * 16 * CORE_FLOPS),
        ({"environment": {"cores": "7"}, "layers": "bfloat16"}, 7 * 16 * CORE_FLOPS),
    ],
)
def test_more_flops_in_a_second_than_the_device_can_do(
    report_facts: dict[str, Any], factor: float, fine: Report
) -> None:
    """By what the report says of the device and the dtypes."""
    if "layers" in report_facts:
        rows = [{**row, "params_by_dtype": {report_facts["layers"]: 40}} for row in fine.layerwise]
        report_facts = {**report_facts, "layers": LayerTable(rows)}
    timed = replace(with_value(fine, "execution_time", Measurement((1e-3,) * 3)), **report_facts)
    assert find_flags(with_value(timed, "flops", int(factor * 1e-3 * 0.99))) == ()
    (flag,) = find_flags(with_value(timed, "flops", int(factor * 1e-3 * 1.01)))
    assert "FLOP/s, beyond the" in flag


def test_a_machine_with_one_core_is_named_in_the_singular(fine: Report) -> None:
    """Two fused multiply-adds of 16 floats at 6 GHz: 2 * 2 * 16 * 6e9 = 3.84e11 FLOPs in a second."""
    timed = replace(with_value(fine, "execution_time", Measurement((1.0,) * 3)), environment={"cores": "1"})
    (flag,) = find_flags(with_value(timed, "flops", 10**12))
    assert "beyond the 3.84e+11 that 1 core can do" in flag


@pytest.mark.parametrize(("low", "flagged"), [(10**12, 1), (10**10, 0), (None, 0)])
def test_flops_that_may_be_fewer_are_judged_by_their_lower_end(low: int | None, flagged: int, fine: Report) -> None:
    """One core does at most 3.84e11 FLOPs in the second; which branch of the model ran is not known."""
    timed = replace(with_value(fine, "execution_time", Measurement((1.0,) * 3)), environment={"cores": "1"})
    bounds = Bounds(low, 2 * 10**12)
    assert (
        len(find_flags(with_value(timed, "flops", 2 * 10**12, completeness=Completeness.PARTIAL, bounds=bounds)))
        == flagged
    )


def test_a_throughput_without_a_batch(fine: Report) -> None:
    (flag,) = find_flags(replace(fine, batch_size=None))
    assert flag.startswith("throughput: samples in a second of inputs whose batch size is not known")
