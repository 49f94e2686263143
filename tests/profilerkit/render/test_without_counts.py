"""What is not counted is None, in every form: of a model without inputs, and of one that raises half-way."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
from torch import nn

from profilerkit import Report, profile
from profilerkit.builtin import profilerkit_renderers
from profilerkit.hooks.renderers import render
from profilerkit.results.comparison import side_by_side


class Raising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first(x)
        raise RuntimeError("half-way")


METRICS = ["total_params", "macs", "flops", "memory_footprint", "layerwise_data"]


def without_inputs() -> Report:
    return profile(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), metrics=METRICS)


def profile_raising() -> Report:
    return profile(Raising(), torch.zeros(1, 8), metrics=METRICS)


REPORTS = {"without inputs": without_inputs, "raising": profile_raising}
WORK = ("macs", "flops", "own_macs", "own_flops", "bytes_read", "bytes_written", "macs_share", "flops_share")


@pytest.mark.parametrize("made", REPORTS)
def test_work_is_none_and_weights_are_known(made: str) -> None:
    report = REPORTS[made]()
    assert report.layers is not None
    for row in report.layers:
        assert [row[column] for column in WORK] == [None] * len(WORK)
    assert [row["params"] for row in report.layers] == [144, 72, 72]
    # the model and its first layer were called before the error; whether the second would be is not known
    assert [row["calls"] for row in report.layers] == ([1, 1, None] if made == "raising" else [None] * 3)
    assert report.layers.top(3, by="macs").columns == ()
    assert [row["macs"] for row in report.layers.by_type()] == [None, None]


@pytest.mark.parametrize("made", REPORTS)
def test_frames_hold_no_zero(made: str) -> None:
    pytest.importorskip("pandas")
    frame = REPORTS[made]().to_pandas()
    assert frame[list(WORK)].isna().all().all()
    assert list(frame["params"]) == [144, 72, 72]


@pytest.mark.parametrize("made", REPORTS)
def test_files_hold_null(made: str) -> None:
    report = REPORTS[made]()
    written = json.loads(render(report, "json"))["layers"]
    for row in written["rows"]:
        cells = dict(zip(written["columns"], row, strict=True))
        assert [cells[column] for column in WORK] == [None] * len(WORK)


@pytest.mark.parametrize("made", REPORTS)
def test_the_tree_says_that_the_model_did_not_run_to_its_end(made: str) -> None:
    tree = render(REPORTS[made](), "tree")
    assert "not called" not in tree
    assert tree.count("not counted") == 3
    assert "the model did not run to its end" in tree


def test_the_tree_shows_what_ran_before_the_error() -> None:
    lines = render(profile_raising(), "tree").splitlines()
    assert "first: Linear" in lines[2]
    assert lines[2].endswith("[1, 8], 72 params (50.0 %), called once, not counted")
    assert lines[3].endswith("72 params (50.0 %), not counted")
    assert lines[4] == (
        "the model did not run to its end: which layers it would have called further, and what they cost, is not known"
    )


#: Every form of text that the library offers, from the list that it offers them by.
FORMS = [offered.name for offered in profilerkit_renderers() if offered.is_text]


@pytest.mark.parametrize("made", REPORTS)
@pytest.mark.parametrize("form", FORMS)
def test_no_form_shows_a_zero(form: str, made: str) -> None:
    report = REPORTS[made]()
    shown = [render(report, form, details=True), render(side_by_side([report, report]), form, details=True)]
    for text in shown:
        assert "not called" not in text
        assert not re.search(r"(?<![\d.])0 (k|M|G)?(MACs|FLOPs)", text)
        rows = [line for line in text.splitlines() if "Linear" in line and form in ("table", "markdown", "latex")]
        assert all(re.search(r"72\D+-\W+-", line) or re.search(r"72\W+72\D*$", line) for line in rows), rows
    if form == "layers-csv":
        header, *cells = [line.split(",") for line in shown[0].splitlines()]
        assert {row[header.index(column)] for row in cells for column in ("macs", "flops", "own_macs")} == {""}


def test_the_tree_of_times_alone_shows_its_slowest_layers() -> None:
    """Without a trace no layer has MACs: the innermost layers are ranked by their own time."""
    report = profile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.zeros(1, 8), metrics=["layer_times"])
    without = replace(report, layers=None)
    times = {row["path"]: row["own_forward_seconds"] for row in report["layer_times"] if row["is_leaf"]}
    slowest = max(times, key=times.__getitem__)
    text = render(without, "tree", top=1)
    assert [line.split(":")[0].split()[-1] for line in text.splitlines()[2:]] == [slowest], text
