"""The command that lists counters, and the figure of the samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from powercap import add_zone, make_model
from profilerkit_energy import ComputeEnergy, command, plugin

from profilerkit import Report, profile
from profilerkit.testing import FakeBackend, FakeClock, FakeTensor


def report_of(folder: Path, counters: dict[Path, int]) -> Report:
    clock = FakeClock()
    functions, metrics = [ComputeEnergy(folder, clock=clock)], ["energy_per_inference"]
    model = make_model(clock, counters)
    return profile(model, FakeTensor((1, 3)), backend=FakeBackend(), functions=functions, metrics=metrics)


def test_the_command_lists_counters_and_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of RAPL is a microjoule."""
    add_zone(tmp_path, "intel-rapl:0", "package-0")
    monkeypatch.setattr(command, "POWERCAP", tmp_path)
    (info,) = plugin.profilerkit_commands()
    result = CliRunner().invoke(info.load(), ["--gpu", "3"])
    assert result.exit_code == 0, result.output
    first, *reasons = result.output.splitlines()
    assert first == "package-0 (intel-rapl:0): 1e-06 J a count, every 0.001 s"
    assert len(reasons) == 1, "why there is no counter of a GPU"


def test_the_figure_has_each_sample(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (info,) = plugin.profilerkit_figures()
    counter = add_zone(tmp_path, "intel-rapl:0", "package-0")
    (axes,) = info.load()(report_of(tmp_path, {counter: 250_000})).axes
    points, median = axes.lines
    assert list(points.get_ydata()) == [0.25] * 12
    assert set(median.get_ydata()) == {0.25}


def test_a_report_without_energy_says_so(tmp_path: Path) -> None:
    (info,) = plugin.profilerkit_figures()
    with pytest.raises(ValueError, match="the report has no measured energy; ask for"):
        info.load()(report_of(tmp_path, {}))
