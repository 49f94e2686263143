"""A dry run: which cases would run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from audited import many

from profilerkit_audits import FailureCode
from profilerkit_audits.dry_run import plan_dry_run
from profilerkit_audits.running import Audit


def make_audit(folder: Path, problems: int = 0) -> Audit:
    """Return an audit of three models with two batch sizes each; the first cases have a problem."""
    zoo = Audit(many(folder, 3, workers=1, batch_size=[1, 2]), folder / "zoo.db")
    for key, case in list(zoo.cases.items())[:problems]:
        zoo.cases[key] = replace(case, problem="no such library", failure=FailureCode.IMPORT)
    return zoo


@pytest.mark.parametrize("problems", [0, 2, 5])
def test_a_case_that_cannot_run_is_named_with_the_reason(tmp_path: Path, problems: int) -> None:
    planned = plan_dry_run(make_audit(tmp_path, problems))
    assert [case["runs"] for case in planned.to_dict()["cases"]] == [False] * problems + [True] * (6 - problems)
    text = planned.to_text()
    assert text.count("cannot run  nets.py:net_0") == text.count("(no such library)") == problems
    assert text.count("would run   nets.py:net_0") == 6 - problems
    assert f", {problems} that cannot run, 0 in the store" in text or not problems
