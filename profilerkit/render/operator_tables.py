"""Console tables of timed operators: the slowest of each, in which layer, and how fast they work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..operator_times import OperatorTimeTable
from ..quantity import Scale, scale_value

if TYPE_CHECKING:
    from ..report import Report

__all__ = ["operator_tables"]

#: So many rows are shown; the value has them all.
SHOWN = 20


def operator_tables(reports: Sequence[Report]) -> Iterable[RenderableType]:
    """Yield the slowest rows of each table of operators."""
    for report in reports:
        for record in report.statuses.values():
            if isinstance(record.value, OperatorTimeTable):
                named = f" of {report.name}" if len(reports) > 1 else ""
                yield _table(f"{record.friendly_name}{named}", record.value)


def _table(title: str, found: OperatorTimeTable) -> RenderableType:
    more = f", the slowest {SHOWN} of {len(found)}" if len(found) > SHOWN else ""
    table = Table(
        title=Text(f"\n{title}{more}", style="bold"), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False
    )
    for name in ("Operator", "Layer", "Phase"):
        table.add_column(name)
    for name in ("Calls", "Time", "Share", "MACs", "FLOP/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.top(SHOWN):
        table.add_row(
            escape(row["operator"]),
            escape(row["layer"] or "(model)"),
            row["phase"],
            str(row["calls"]),
            str(scale_value(row["seconds"], "s", Scale.TIME)),
            f"{row['share']:.1%}",
            _number(row["macs"]),
            _number(row["flops_per_second"]),
        )
    outside = ", ".join(
        f"{scale_value(seconds, 's', Scale.TIME)} {phase}" for phase, seconds in found.outside_seconds.items()
    )
    table.caption, table.caption_justify = Text(f"Outside operators, in a pass: {outside}", style="dim"), "left"
    return table


def _number(value: float | None) -> str:
    return "-" if not value else str(scale_value(value, scale=Scale.SI))
