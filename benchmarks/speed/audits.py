"""Audits: processor time of a model beyond its own work, models in a second, and the page of ten thousand rows."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from audit_engines import audit_models, import_seconds, own_work, seconds, seconds_a_model, ways

from .options import Options
from .tables import Table

__all__ = ["measure"]

#: The rows that measure other programs.
OTHERS = (
    "ProcessPoolExecutor, one process for all",
    "ProcessPoolExecutor, a fresh process each",
    "bare tasks of Ray",
)
#: Models of the engines, of the audit of small models, and rows of the page.
SIZES, QUICK_SIZES = (40, 1000, 10_000), (4, 20, 200)


def measure(options: Options) -> dict[str, Table]:
    """Return the table of the engines, that of small models in a row, and that of the page where a browser is."""
    models, small, rows = QUICK_SIZES if options.quick else SIZES
    tables = {"audit engines": _measure_engines(models), "small models": _measure_small_models(small)}
    if find_spec("playwright") is not None:
        tables |= {"audit page": _measure_page(rows)}
    return tables


def _measure_engines(count: int) -> Table:
    """Return the seconds of a worker for each model, and in those of a bare process that does the same."""
    inside, process = own_work(), import_seconds()
    rows = [("a fresh interpreter, its imports, a profile", f"{process:.3f} s", "1.00")]
    for way in ways():
        spent = seconds_a_model(way, count)
        rows.append((way.name, f"{spent:.3f} s", f"{spent / process:.2f}"))
    rows.append(("a profile in a process that is there", f"{inside:.4f} s", f"{inside / process:.4f}"))
    return Table(("engine", "a model", "in interpreters"), tuple(rows), ("in interpreters",), OTHERS)


def _measure_small_models(count: int) -> Table:
    spent = seconds(audit_models, count)
    row = (
        f"{count:,} models, warm, two workers",
        f"{spent:.1f} s",
        f"{count / spent:.1f}",
        f"{1e3 * spent / count:.0f} ms",
    )
    return Table(("audit", "seconds", "models a second", "a model"), (row,), ("a model",))


def _measure_page(count: int) -> Table:
    from dashboard import measure_page

    with tempfile.TemporaryDirectory() as folder:
        times = measure_page(Path(folder), count)
    return Table(
        (f"page of {count:,} rows", "time"), tuple((name, f"{spent:,.0f} ms") for name, spent in times.items())
    )
