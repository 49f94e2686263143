"""The table of operators of each backend under the framework's profiler; no time is asserted."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import Framework

from profilerkit import InputError, Report, profile
from profilerkit.protocols import TimesOperators

X = np.ones((2, 3), np.float32)


def make_table(framework: Framework, **options: Any) -> Any:
    return profile(framework.dense(3, 4), X, metrics=["operator_table"], **{"passes": 2, "backward": False, **options})


def test_the_table_is_computed_where_it_is_requested_and_shown(framework: Framework) -> None:
    assert "operator_table" not in profile(framework.dense(3, 4), X, metrics=["macs"])
    report = make_table(framework)
    (row,) = (row for row in report["operator_table"] if row["macs"])
    assert row["macs"] == 2 * 3 * 4
    text = str(report)
    assert row["operator"] in text
    assert "outside operators, a pass under the profiler takes" in text


def test_each_pass_is_a_sample(framework: Framework) -> None:
    table = make_table(framework, passes=3)["operator_table"]
    assert all(len(table.samples(index)) == 3 for index in range(len(table)))
    assert sum(row["share"] for row in table) == pytest.approx(1)


def test_a_saved_table_is_shown_as_before(framework: Framework, tmp_path: Path) -> None:
    report = make_table(framework, passes=1, backward=True)
    report.save(tmp_path / "report.json")
    assert str(Report.load(tmp_path / "report.json")) == str(report)
    assert len(pickle.loads(pickle.dumps(report["operator_table"]))) == len(report["operator_table"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passes": 0}, "passes=0: at least one pass is needed to time anything"),
        ({"export": "absent/t.json"}, "export='absent/t.json': there is no folder 'absent' to write 't.json' to"),
        ({"export": "."}, "export='.': '.' is a folder; name a file in it"),
    ],
)
def test_mistakes_are_said(framework: Framework, options: dict[str, Any], message: str) -> None:
    assert isinstance(framework.backend, TimesOperators)
    with pytest.raises(InputError, match=re.escape(message)):
        framework.backend.operator_times(framework.dense(3, 4), framework.inputs(2, 3), **options)
