"""A result in an experiment tracker: its numbers as scalars, and its tables as the tracker shows tables.

A tracker is known by its methods, and none is imported here.
"""

from __future__ import annotations

import sys
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError
from ..results.comparison import Comparison
from ..results.report import Report
from .content import parts
from .grids import Grid
from .markdown import render

__all__ = ["log"]

#: The number of layers in a text, with the most MACs first.
LAYERS = 10


def log(result: Report | Comparison, tracker: Any, *, step: int | None = None, prefix: str = "cost") -> None:
    """Log a report, or each report of a comparison; see `profilerkit.Report.log_to`."""
    for report in result.reports:
        group = prefix if len(result.reports) == 1 else f"{prefix}/{report.name}"
        numbers = {f"{group}/{name}": value for name, value in report.metrics().items()}
        if _has(tracker, "add_scalar", "add_text"):  # TensorBoard, which shows a text as Markdown
            for name, value in numbers.items():
                tracker.add_scalar(name, value, global_step=step)
            tracker.add_text(f"{group}/report", render(report, top=LAYERS), global_step=step)
        elif _has(tracker, "log_metrics"):  # MLflow, or a logger of Lightning, which has metrics alone
            tracker.log_metrics(numbers, step=step)
            if _has(tracker, "log_text", "log_dict"):
                tracker.log_text(render(report, top=LAYERS), f"{group}.md")
                tracker.log_dict(report.to_dict(), f"{group}.json")
        elif (wandb := _find_wandb(tracker)) is not None:
            tracker.log({**numbers, f"{group}/report": _make_table(wandb, report)}, step=step)
        else:
            raise ArgumentError(
                f"tracker={shown(tracker)} cannot be logged to; give a SummaryWriter of TensorBoard, the module mlflow "
                "in a run, a run of wandb, a logger of Lightning, or log report.metrics() yourself"
            )


def _has(tracker: Any, *methods: str) -> bool:
    return all(callable(getattr(tracker, method, None)) for method in methods)


def _find_wandb(tracker: Any) -> Any:
    """Return the package of W&B, which has the class of tables, for itself or a run of it; None for anything else."""
    if _has(tracker, "log", "Table"):
        return tracker
    is_run = _has(tracker, "log") and hasattr(tracker, "summary")
    package = sys.modules.get(type(tracker).__module__.partition(".")[0]) if is_run else None
    return package if _has(package, "Table") else None


def _make_table(wandb: Any, report: Report) -> Any:
    """Return a table of the metrics, because W&B shows no Markdown."""
    grid = next(part for part in parts(report) if isinstance(part, Grid))
    return wandb.Table(columns=list(grid.titles), data=[list(row) for row in grid.rows])
