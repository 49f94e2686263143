"""Stores made by hand: rows of invented models, with reports of numpy networks where layers matter."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from profilerkit import Completeness, Report, profile
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, Value
from profilerkit_numpy.layers import Sequential, activation, dense

__all__ = ["add_nights", "begun", "count_row", "moment", "network_report", "noisy"]

_START = datetime(2026, 1, 1, 2, tzinfo=UTC)


def moment(night: int) -> str:
    """Return the time of a night, as rows have it."""
    return (_START + timedelta(days=night)).isoformat(timespec="microseconds")


def network_report(*widths: int) -> Report:
    """Return the report of dense layers of these widths: `dense(4, 8)` has 32 MACs and 40 parameters."""
    layers = [dense(before, after) for before, after in itertools.pairwise(widths)]
    model = Sequential(layers[0], activation(), *layers[1:])
    return profile(model, input_shape=(widths[0],), metrics=["macs", "total_params", "memory_footprint"])


def begun(store: Store, night: int, machine: str = "m", plan: Mapping[str, Any] | None = None) -> str:
    """Begin the run of a night; returns its identifier, ``run-NIGHT-MACHINE``."""
    name = f"run-{night:03d}-{machine}"
    run = Run(name, moment(night), plan=dict(plan or {}), machine=machine, commit=f"c{night}")
    return store.begin_run(run, {"cpu": machine}).run


def count_row(run: str, night: int, spec: str, report: Report | None, **fields: Any) -> Row:
    """Return the row of a report; without one it failed."""
    values = {} if report is None else {key: Value.of(record) for key, record in report.statuses.items()}
    if report is None:
        reason = "the process was killed"
        values = {"macs": Value(None, "MACs", Completeness.FAILED, reason)}
        fields = {"failure": FailureCode.SIGNAL, "reason": reason, **fields}
    status = RowStatus.FAILED if report is None else RowStatus.COMPLETE
    about = {"values": values, "run": run, "machine": "m", "created": moment(night), "commit": f"c{night}", **fields}
    return Row(spec, f"{spec}-{night}-{run}"[:64], status, **about)


def noisy(nights: int, noise: float, seed: int, level: float = 0.010) -> list[float]:
    """Return times of independent noise around a level, in seconds."""
    generator = random.Random(seed)
    return [level * (1 + generator.gauss(0, noise)) for _ in range(nights)]


def add_nights(store: Store, series: Mapping[str, Sequence[float]], machine: str = "m", **fields: Any) -> None:
    """Put in the times of models, a run for each night."""
    for night in range(max(map(len, series.values()))):
        run = begun(store, night, machine)
        for spec, times in series.items():
            if night < len(times):
                value = Value(times[night], "s", samples=20, low=times[night], high=times[night], shown="a time")
                row = count_row(run, night, spec, None, values={"execution_time": value}, machine=machine, **fields)
                store.add(row)
