"""The estimate of an audit: which cases would run, and how long they take by earlier rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from audited import many

from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store
from profilerkit_audits.estimating import describe, estimate
from profilerkit_audits.running import Audit


def make_audit(folder: Path, problems: int = 0) -> Audit:
    """Return an audit of three models with two batch sizes each; the first cases have a problem."""
    zoo = Audit(many(folder, 3, workers=1, batch_size=[1, 2]), folder / "zoo.db")
    for key, case in list(zoo.cases.items())[:problems]:
        zoo.cases[key] = replace(case, problem="no such library", failure=FailureCode.IMPORT)
    return zoo


def add_row(zoo: Audit, spec: str, seconds: float) -> None:
    """Store an earlier row of a model, with other settings than any case has."""
    with Store.open(zoo.url) as store:
        run = store.begin_run(Run(), {})
        store.add(Row(spec, f"earlier {spec} {seconds}", RowStatus.COMPLETE, seconds=seconds, run=run.run))


def test_the_longest_row_of_a_model_stands_for_its_cases_and_the_mean_for_those_of_others(tmp_path: Path) -> None:
    """Two cases of 8 s, two of 4 s, and two of their mean, 6 s, by one worker: 36 s."""
    zoo = make_audit(tmp_path)
    for spec, seconds in (("nets.py:net_01", 8.0), ("nets.py:net_01", 5.0), ("nets.py:net_02", 4.0)):
        add_row(zoo, spec, seconds)
    estimated = estimate(zoo)
    assert (estimated.seconds, estimated.based_on) == (36.0, 4)
    assert "estimate: 36 s, from earlier rows of the models of 4 of 6 cases" in describe(estimated)


@pytest.mark.parametrize(("problems", "seconds"), [(0, 48.0), (2, 32.0), (5, 8.0)])
def test_a_case_that_cannot_run_takes_no_time(tmp_path: Path, problems: int, seconds: float) -> None:
    """Every case that runs takes 8 s."""
    zoo = make_audit(tmp_path, problems)
    for number in (1, 2, 3):
        add_row(zoo, f"nets.py:net_0{number}", 8.0)
    estimated = estimate(zoo)
    assert estimated.seconds == seconds
    assert [case.runs for case in estimated.cases] == [False] * problems + [True] * (6 - problems)
    text = describe(estimated)
    assert text.count("cannot run  nets.py:net_0") == text.count("(no such library)") == problems
    assert text.count("would run   nets.py:net_0") == 6 - problems
    assert f", {problems} that cannot run, 0 in the store" in text or not problems


def test_a_row_without_a_process_says_nothing_about_the_time(tmp_path: Path) -> None:
    """Such as that of a library that was not installed then."""
    zoo = make_audit(tmp_path)
    add_row(zoo, "nets.py:net_01", 0.0)
    estimated = estimate(zoo)
    assert (estimated.seconds, estimated.based_on) == (None, 0)
