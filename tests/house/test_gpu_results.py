"""What ``make gpu`` writes can be read; results that lie in the repository are near their oracles."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from gpu_results import Content, Result, Skipped, StepEnd, read, write
from source_tree import ROOT
from time_limits import run_program

from profilerkit.devices import device

RESULTS = sorted((Path(__file__).parent / "gpu_results").glob("*.json"))
#: What disagreed on a GPU, by step, network and metric. All of it was mended after the run: see docs/gpu.rst.
KNOWN = {
    "NVIDIA H200": {
        ("memory", "encoder", "memory of a pass"),
        ("memory", "encoder in bfloat16", "memory of a pass"),
        ("memory", "encoder", "memory of a step, sgd"),
    },
    "NVIDIA H100 80GB HBM3": {
        ("tests", "tests of the backend", "passed"),
        ("counts", "fused attention in double", "equal counts"),
        ("memory", "attention with weights", "memory of a step, sgd"),
        ("memory", "attention with weights", "memory of a step, adamw"),
    },
}
#: The devices that the calibrations of these runs are shipped as.
CALIBRATED = {"NVIDIA H200": "h200-calibrated", "NVIDIA H100 80GB HBM3": "h100-calibrated"}
RESULT = Result("times", "net", "execution_time", 0.002, 0.004, "events by hand", "s", 0.1)


def test_results_come_back(tmp_path: Path) -> None:
    results = [RESULT, Result("counts", "net", "macs", 3, 3, "the CPU", within=0.0, note="of 3")]
    steps = [StepEnd("times", "done", 1.5), StepEnd("counts", "failed", 2.0, "exit code 1")]
    content = Content("a GPU", {"torch": "2"}, steps, results, [Skipped("counts", "other", "no such device")])
    write(tmp_path / "there" / "results.json", content)
    assert read(tmp_path / "there" / "results.json") == content


def test_two_numbers_agree_within_a_share() -> None:
    assert not Result("step", "net", "metric", 0.002, 0.004, "other", within=0.1).agrees
    assert Result("step", "net", "metric", 95, 100, "other", within=0.05).agrees
    assert Result("step", "net", "metric", 0.002, 0.004, "other").agrees, "shown, and not judged"


@pytest.fixture(params=RESULTS, ids=lambda path: path.stem)
def on_gpu(request: pytest.FixtureRequest) -> Content:
    return read(request.param)


def test_what_was_measured_on_a_gpu_agrees(on_gpu: Content) -> None:
    assert {end.outcome for end in on_gpu.steps} == {"done"}
    apart = {(result.step, result.name, result.metric) for result in on_gpu.results if not result.agrees}
    assert apart == KNOWN[on_gpu.device], "what disagrees no more is no longer known to"


def test_counts_on_a_gpu_are_those_on_the_cpu(on_gpu: Content) -> None:
    equal = [result for result in on_gpu.results if result.metric == "equal counts"]
    assert len(equal) >= 40
    known = KNOWN[on_gpu.device]
    assert all(item.value == item.oracle for item in equal if (item.step, item.name, item.metric) not in known)
    by_torch = [result for result in on_gpu.results if result.metric == "macs by torch"]
    assert len(by_torch) >= 30
    assert all(result.value == result.oracle > 0 for result in by_torch)


def test_memory_on_a_gpu_is_what_the_allocator_gave_out(on_gpu: Content) -> None:
    peaks = [result for result in on_gpu.results if result.oracle_name == "the allocator" and result.within]
    near = [result for result in peaks if (result.step, result.name, result.metric) not in KNOWN[on_gpu.device]]
    assert len(near) >= 24
    assert all(0.95 <= result.ratio <= 1.03 for result in near)
    lower = [result for result in on_gpu.results if result.oracle_name == "the allocator" and result.within is None]
    assert {result.name for result in lower} == {"LSTM"}
    assert all(result.ratio < 1 and "the workspace of" in result.note for result in lower)


def test_the_product_before_the_gradient_of_a_softmax_was_what_was_missing() -> None:
    """Of 8 x 12 x 512 x 512 scores of 4 bytes; see `bytes_inside` of the PyTorch backend."""
    (path,) = (path for path in RESULTS if path.stem == "nvidia-h100")
    missing = [result for result in read(path).results if result.name == "attention with weights" and result.within]
    steps = [result for result in missing if result.metric.startswith("memory of a step")]
    assert len(steps) == 2
    for result in steps:
        assert result.value + 8 * 12 * 512 * 512 * 4 == pytest.approx(result.oracle, rel=0.002)


def test_bounds_by_a_data_sheet_are_below_what_was_measured(on_gpu: Content) -> None:
    """Of networks, and of the first and the later tokens of language models."""
    (above,) = [result for result in on_gpu.results if result.metric == "data sheet bounds above a measurement"]
    assert above.value == 0
    below = [result for result in on_gpu.results if result.metric.endswith("bound below measurement")]
    assert len(below) == 6
    assert all(result.value == 1 for result in below)


def test_the_calibrated_device_is_shipped(on_gpu: Content) -> None:
    found = device(CALIBRATED[on_gpu.device])
    assert found.tier == "calibrated"
    assert {"date", "driver", "clocks", "calibrated_with"} <= set(found.facts)
    assert on_gpu.environment["torch"] in found.facts["calibrated_with"]
    sheet = device(on_gpu.device)
    for dtype in ("float32", "tf32", "bfloat16"):
        assert 0 < (found.peak(dtype) or 0) < (sheet.peak(dtype) or 0)
    assert 0 < (found.bandwidth or 0) < (sheet.bandwidth or 0)


@pytest.mark.slow
@pytest.mark.heavy
def test_the_script_runs_on_a_cpu(tmp_path: Path) -> None:
    """With small networks, so that it does not fail on a GPU for a fault of its own."""
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "gpu.py"),
        str(tmp_path),
        "--device",
        "cpu",
        "--seconds",
        "1500",
    ]
    outcome = run_program(command, check=False)
    lines = [line for line in outcome.stdout.splitlines() if not line.startswith(("ok", " ", "left out"))]
    assert outcome.returncode == 0, "\n".join([*lines, outcome.stderr])
    content = read(tmp_path / "results.json")
    assert {end.outcome for end in content.steps} == {"done"}
    assert {result.step for result in content.results} >= {
        *("start", "counts", "memory", "untouched", "isolation", "times", "operators", "predicted", "language models")
    }
