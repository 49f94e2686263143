"""What all figures share: an empty figure, colors, text that is drawn literally, axes in readable units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.count_text import format_count
from profilerkit.foreign_text import visible
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.render.notes import explain_incomplete
from profilerkit.render.values import KINDS, Column, write_row_value
from profilerkit.results.comparison import Comparison, require_result
from profilerkit.trace.records import LayerTable

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = [
    "COLOURS",
    "GREY",
    "explain_column",
    "explain_metric",
    "find_end",
    "finish",
    "label_layer",
    "legend_above",
    "list_reports",
    "name_bars",
    "name_beyond",
    "new_figure",
    "one_or_two",
    "one_report",
    "plain",
    "require_column",
    "require_layers",
    "title_axis",
    "title_bars",
    "unit_for",
    "why_missing",
]

#: Okabe and Ito's, which people who see few colours can tell apart: https://jfly.uni-koeln.de/color/
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
#: What has no colour of its own.
GREY = "#999999"


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure that is not registered with pyplot; ``width`` and ``height`` are in inches."""
    try:
        from .shown import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib; install profilerkit[plot]") from error
    return Figure(width, height)


def finish(figure: Any, reports: Sequence[Report], what: str, notes: Iterable[str] = ()) -> Any:
    """Return a figure with a title above it and notes below it, all drawn literally: no text goes to TeX.

    If there is one report, the title has the name of its model; several models are named inside the figure.
    """
    from matplotlib.text import Text

    room = int(8 * figure.get_figwidth())
    name = f"{plain(reports[0].name, max(room - len(what), 16))}: " if len(reports) == 1 else ""
    title = f"{name}{plain(what, room)}"
    figure.suptitle(title if name else f"{title[:1].upper()}{title[1:]}", x=0.01, ha="left", fontsize="large")
    caption = "\n".join(plain(note, 160) for note in notes if note)
    if caption:
        figure.supxlabel(caption, x=0.01, ha="left", fontsize="x-small")
    for text in figure.findobj(Text):
        text.set_usetex(False)
    return figure


def legend_above(axis: Any) -> None:
    """Put the legend in one line above the axes, where it covers nothing."""
    position = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axis.legend(ncols=8, fontsize="small", frameon=False, **position)


def find_end(start: float, highest: float, largest: float) -> float:
    """Return where an axis ends: at the largest value, or before it where that would leave the others no space.

    ``highest`` is the highest value that has to be seen; beyond it there is as much space as before it.

    >>> find_end(0, 15, 20), find_end(0, 15, 8000)
    (20, 30)
    """
    return min(largest, highest + (highest - start))


def name_beyond(axis: Any, number: int, thing: str, largest: str) -> None:
    """Write at the right end of an axis how many things lie beyond it, if any do."""
    if number:
        text = f"{format_count(number, thing)} beyond, up to {largest}"
        axis.text(0.99, 0.5, text, transform=axis.transAxes, ha="right", va="center", fontsize="small")


def plain(text: str, longest: int = 44) -> str:
    r"""Return a text so that matplotlib draws it literally: in one line, without formulas.

    If it is longer than ``longest`` characters, its middle is left out.

    >>> plain("a $x$\n")
    'a \\$x\\$\\n'
    >>> plain("encoder.layers.11.attention", 11)
    'enc…tention'
    """
    shown = visible(text)
    if len(shown) > longest:
        start = (longest - 1) // 3
        shown = f"{shown[:start]}…{shown[start + 1 - longest :]}"
    return shown.replace("$", r"\$")


def label_layer(row: Mapping[str, Any]) -> str:
    """Return the path of a layer; "(model)" for the root, whose path is empty."""
    return row["path"] or "(model)"


def one_report(result: Report | Comparison, kind: str) -> Report:
    """Return the report that a figure is of; raises `ValueError` for a comparison."""
    if isinstance(result, Comparison):
        raise ValueError(
            f"{kind} draws one model, not a comparison of {len(result.reports)}; "
            f"give one of its reports, comparison.reference.plot({kind!r}) for instance"
        )
    return list_reports(result)[0]


def one_or_two(result: Report | Comparison, kind: str) -> tuple[Report, ...]:
    """Return the reports of a figure that draws one model or two; raises `ValueError` for more."""
    reports = list_reports(result)
    if len(reports) > 2:
        raise ValueError(
            f"{kind} draws one model or two, not a comparison of {len(reports)}; "
            f"give two of them, Comparison(reports[0], (reports[1],)).plot({kind!r}) for instance"
        )
    return reports


def list_reports(result: Report | Comparison) -> tuple[Report, ...]:
    """Return the reports that a figure shows: one, or all of a comparison."""
    return require_result(result).reports


def unit_for(largest: float, unit: str, scale: Scale) -> tuple[float, str]:
    """Return the value of one displayed unit in base units, and that unit, for an axis up to ``largest``."""
    quantity = scale_value(largest, unit, scale)
    return quantity.factor, quantity.unit


def title_axis(title: str, unit: str) -> str:
    """Return the title of an axis, with its unit in parentheses."""
    return f"{title} ({unit})" if unit else title


def title_bars(axis: Any, title: str, unit: str) -> None:
    """Write what horizontal bars are below their axis, and leave out the lines around it that say nothing."""
    axis.set_xlabel(title_axis(f"{title[:1].upper()}{title[1:]}", unit), fontsize="small")
    axis.tick_params(axis="x", labelsize="small")
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)


def name_bars(axis: Any, names: Sequence[str]) -> None:
    """Write the names of horizontal bars beside them, the first one at the top."""
    axis.set_yticks(range(len(names)), [plain(name) for name in names], fontsize="small")
    axis.set_ylim(len(names) - 0.4, -0.6)


def require_layers(report: Report) -> LayerTable:
    """Return the layers of a report; raises `ValueError` if it has none."""
    layers = report.layerwise
    if not len(layers):
        raise ValueError(f"the report of {report.name} holds no layers: the model was neither traced nor timed")
    return layers


def require_column(report: Report, layers: LayerTable, name: str) -> None:
    """Raise `ValueError` if a table of layers lacks a column, or if the column has no number."""
    if name not in layers[0]:
        raise ValueError(
            f"no column {name!r} in the layers of {report.name}: {_advise(report, name)}; "
            f"they have {', '.join(column for column in layers[0] if _has_numbers(layers, column))}"
        )
    if not _has_numbers(layers, name):
        raise ValueError(f"column {name!r} of the layers of {report.name} holds no numbers to draw")


def _has_numbers(layers: LayerTable, name: str) -> bool:
    return any(isinstance(row[name], (int, float)) and not isinstance(row[name], bool) for row in layers)


def _advise(report: Report, name: str) -> str:
    if "second" not in name:
        return "no such values were traced"
    return why_missing(report, "layer_times")


def why_missing(report: Report, key: str) -> str:
    """Return why a report has no value of a metric, or how to get one."""
    record = report.statuses.get(key)
    if record is None:
        return f"profile the model with metrics=[{key!r}]"
    return f"{key} is {record.completeness.value}: {'; '.join(record.missing) or 'it holds no such values'}"


def explain_metric(reports: Sequence[Report], key: str) -> Iterator[str]:
    """Yield for each report what is missing in its value of a metric, as the notes of a report say it."""
    for report in reports:
        yield from _explain(report, [key], len(reports) > 1)


def explain_column(reports: Sequence[Report], name: str) -> Iterator[str]:
    """Yield for each report what is missing in a column of its layers: what the metric of that column misses."""
    whole_name = name.removeprefix("own_")
    for report in reports:
        keys = [
            key
            for key, record in report.statuses.items()
            if key == whole_name or (isinstance(record.value, LayerTable) and name in record.value.columns)
        ]
        if keys:
            yield from _explain(report, keys, len(reports) > 1)
            continue
        sign, _ = write_row_value(report.layerwise[0], whole_name)
        if sign:
            yield f"{Column.of(name).title} of {report.name}: {KINDS[sign]}, as not all operators are counted exactly"


def _explain(report: Report, keys: Iterable[str], is_named: bool) -> Iterator[str]:
    records = [report.statuses[key] for key in keys if key in report.statuses]
    for note in explain_incomplete(records):
        yield f"{report.name}: {note}" if is_named else note
