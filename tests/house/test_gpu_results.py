"""What ``make gpu`` writes can be read; results that lie in the repository are near their oracles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_results import FORMAT, Result, read, write
from source_tree import ROOT

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("gpu-*.json"))


def test_results_come_back(tmp_path: Path) -> None:
    results = [Result("net", "execution_time", 0.002, 0.004, "torch.utils.benchmark", "s")]
    write(tmp_path / "there" / "results.json", "a GPU", {"torch": "2"}, results)
    assert read(tmp_path / "there" / "results.json") == ("a GPU", results)
    assert results[0].ratio == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "csv"}, f"holds no results of a GPU: its format is not '{FORMAT}'"),
        ({"results": [{"model": 3}]}, r"results\[0\].model is 3"),
        (
            {"results": [{**vars(Result("net", "m", 1, 1, "t", "s")), "oracle": 0}]},
            r"results\[0\].oracle is 0, no number above 0",
        ),
    ],
)
def test_another_content_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    content = {"format": FORMAT, "device": "a GPU", "environment": {}, "results": [], **change}
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "results.json")


@pytest.mark.skipif(not RESULTS, reason="nothing was measured on a GPU yet")
def test_what_was_measured_on_a_gpu_is_near_its_oracle() -> None:
    for path in RESULTS:
        for result in read(path)[1]:
            assert 0.8 < result.ratio < 1.25, result
