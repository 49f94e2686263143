"""Rows of audits that nothing has measured, for stores and pages of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from profilerkit import Completeness
from profilerkit.trace.bounds import Sign
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, Value
from profilerkit_audits.database import insert_new, rows, run_rows
from profilerkit_audits.rows import encode

BACKENDS = ("torch", "tensorflow", "onnx", "jax")
FAILURE = "the process was ended by the signal SIGSEGV"


def make_rows(count: int, run: str, factor: int = 1, torch: str = "2.12") -> Iterator[Row]:
    """Yield rows whose values follow from their number: every tenth has failed, every seventh is partial."""
    for number in range(count):
        macs = (number * 7919 % count + 1) * 1000 * (factor if number % 5 == 0 else 1)
        status = RowStatus.FAILED if number % 10 == 9 else RowStatus.PARTIAL if number % 7 == 6 else RowStatus.COMPLETE
        values = {
            "macs": Value(macs, "MACs"),
            "total_params": Value(number * 104729 % count + 1),
            "memory_footprint": Value(float(2**20 + number * 3571 % count), "B"),
        }
        reason, end = "", None
        if status is RowStatus.PARTIAL:
            reason = "aten.odd (2 calls) (macs partial)"
            gap: dict[str, Any] = {
                "completeness": Completeness.PARTIAL,
                "reason": "aten.odd (2 calls)",
                "sign": Sign.LOWER,
            }
            values["macs"] = replace(values["macs"], **gap)
        if status is RowStatus.FAILED:
            reason, end = FAILURE, FailureCode.SIGNAL
            values = {name: Value(None, value.unit, Completeness.FAILED, FAILURE) for name, value in values.items()}
        yield Row(
            f"zoo:model_{number:05d}",
            f"{factor}{torch}{number}".rjust(64, "k"),
            status,
            end,
            reason,
            settings={"batch_size": 1 + number % 3},
            values=values,
            name=f"Model {number}",
            backend="unknown" if status is RowStatus.FAILED else BACKENDS[number % 4],
            model_type="Net",
            versions={"python": "3.11", "torch": torch},
            machine="m",
            seconds=1.5,
            run=run,
            created=f"2026-01-0{factor}T00:00:00.000000+00:00",
        )


def fill(store: Store, count: int, times: int = 1) -> list[str]:
    """Insert planted rows in one transaction a run: the second time every fifth model has twice the MACs."""
    runs = []
    for factor in range(1, times + 1):
        started = f"2026-01-0{factor}T00:00:00.000000+00:00"
        run = store.begin_run(Run("", started, machine="m", facts={"profilerkit": "0.1.0"}), {"cpu": "A"}).run
        insert(store, list(make_rows(count, run, factor, f"2.1{1 + factor}")))
        runs.append(run)
    return runs


def insert(store: Store, several: list[Row]) -> None:
    """Insert rows as `Store.add` does, all in one transaction."""
    with store._transact(writes=True) as connection:
        for row in several:
            number = insert_new(connection, rows, key=row.key, attempt=row.attempt, spec=row.spec, content=encode(row))
            connection.execute(run_rows.insert().values(run=row.run, row=number))
