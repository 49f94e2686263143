"""The tables that ``benchmarks/predicted.py --page`` prints, from numbers that are made up."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return import_module("predicted")


def test_the_page_has_a_row_for_each_phase(predicted: Any) -> None:
    numbers = {name: 0.125 for _, name, _ in predicted.COLUMNS} | {"networks": 135}
    operators = {"operators": 300, "by the tables": 0.0625, "by peak and bandwidth": 0.5}
    text = predicted.page(operators, {"forward": numbers})
    assert "Median errors of 300 operators:" in text
    assert "- by the tables: 6.2 %" in text
    assert "- by peak and bandwidth: 50.0 %" in text
    row = text[text.index("   * - forward") :].splitlines()
    assert row == [
        "   * - forward",
        *(f"     - {cell}" for cell in ("135", "12.5 %", "12 %", "12.5 %", "12 %", "0.12")),
    ]


def test_each_family_is_corrected_by_the_others(predicted: Any) -> None:
    """Networks of family a take twice what is predicted, of b four times: the ones are judged by the others' factor."""
    rows = [
        predicted.Row(f"{family} {index}", family, "forward", 1, 1.0, 0.5, measured)
        for family, measured in (("a", 2.0), ("b", 4.0))
        for index in range(3)
    ]
    from profilerkit import DeviceInfo
    from profilerkit_predict.prediction import Calibration, EfficiencyTable, Point
    from profilerkit_predict.prediction.calibration import write_content
    from profilerkit_predict.prediction.cases import HostSeconds

    table = EfficiencyTable("product", "float32", (Point((1, 4, 5, 10), 400.0, 1e-3),))
    calibrated = DeviceInfo("here", calibration=write_content(Calibration((table,), 1e-6, HostSeconds(0.0))))
    result = predicted.judge(rows, calibrated)["forward"]
    assert result["networks"] == 6
    assert result["nine of ten below"] == pytest.approx(1.0)  # 4 where 2 was expected
    assert result["median error without correction"] == pytest.approx(3.0)
    assert result["bound above measured"] == 0
