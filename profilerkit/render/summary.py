"""The summary of a report, which people read first: the costs of the model and of its layers, in some twenty lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table as DrawnTable
from rich.text import Text

from ..count_text import format_count
from ..foreign_text import visible
from ..piping.outcome import Completeness
from ..results.comparison import Comparison
from ..results.report import Report, StatusRecord
from ..times.measurement import Measurement
from ..trace.layer_table import is_by_layer
from ..trace.layer_view import PEAK
from ..trace.records import LayerTable
from ..trace.table import Table
from .advice import list_advice
from .changed_layers import list_changed_layers
from .console import draw_parts, mark_up, to_text
from .content import list_parts_below, parts
from .cost_grids import Costs
from .cost_parts import choose_column
from .grids import Grid, Notes, Part, list_records
from .notes import describe_batch
from .selection import Selection
from .values import Column, choose_mark, share_text, write_in_full, write_interval

__all__ = ["begin_with_state", "describe_inputs", "render", "strip_class", "summarize"]

#: How many types of layers are named.
_TYPES = 4
#: How many of the layers in which two models differ are shown.
_CHANGED = 6
#: So many values stand in two columns.
_FEWEST_IN_TWO = 4
#: A width in which any text fits in one line.
_UNLIMITED = 100_000


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
    color: bool = False,
    advice: bool = True,
) -> str:
    """Return a report as its values, and the parts of the model that cost most; of a comparison, return its table.

    See `Selection` for the options. ``color`` adds the escape sequences of a terminal,
    ``advice`` adds sentences about conspicuous costs.
    """
    selection = Selection(details, depth, top, changes)
    return to_text(summarize(result, selection, advice), color=color)


def summarize(result: Report | Comparison, selection: Selection | None = None, advice: bool = True) -> RenderableType:
    """Return the content of `render` as a renderable of rich."""
    selection = selection or Selection()
    if isinstance(result, Comparison):
        table, notes, *rest = parts(result, selection)
        changed = () if _has_layers(rest) else list_changed_layers(result, _CHANGED)
        return draw_parts([table, *changed, notes, *rest])
    notes, *rest = list_parts_below(result, selection)
    costs = [] if _has_layers(rest) else [*_list_costs(result, advice), *_list_peaks(result)]
    return Group(
        *_draw_heading(result),
        _Values(result.statuses.values()),
        *(costs or [Text("")]),
        draw_parts([begin_with_state(notes, result), *rest]),
    )


def _draw_heading(report: Report) -> list[Text]:
    """Return the name of a report, and below it the model's inputs, between empty lines."""
    lines = [Text(visible(f"{report.name}  ({report.backend})"), style="bold")]
    inputs = visible(describe_inputs(report))
    if inputs:
        lines.append(Text(inputs, style="dim"))
    return [Text(""), *lines, Text("")]


def _has_layers(content: Iterable[Part]) -> bool:
    return any(isinstance(part, Grid) and part.kind == "layers" for part in content)


def describe_inputs(report: Report) -> str:
    """Return the model's inputs, the device and the number of threads in a line; empty if nothing is known."""
    inputs = strip_class(report.inputs)
    device = report.environment.get("device", "").removeprefix("/").lower()
    facts = [f"Input: {inputs}" if inputs else "", report.input_dtypes, device]
    threads = report.arguments.get("num_threads") or report.environment.get("intra_op_threads", "0")
    has_run = bool(device or list_records(report, Measurement))
    if has_run and threads.isdecimal() and threads != "0":
        facts.append("1 thread" if threads == "1" else f"{threads} threads")
    return ", ".join(filter(None, facts))


def strip_class(inputs: str) -> str:
    """Return the text of inputs without the name of the class that holds them."""
    match = re.fullmatch(r"ModelInputs\((.*)\)", inputs, re.DOTALL)
    return match[1] if match else inputs


def begin_with_state(notes: Part, report: Report) -> Notes:
    """Return the notes of a report behind a line that says which values are complete, and for which batch.

    Such a line is left out if no value is complete; the notes say why.
    """
    lines = notes.lines if isinstance(notes, Notes) else ()
    records = report.statuses.values()
    incomplete = [record.friendly_name for record in records if record.completeness is not Completeness.COMPLETE]
    if len(incomplete) == len(records):
        return Notes(lines)
    exceptions = f" but {', '.join(incomplete)}" if incomplete else ""
    state = f"All values{exceptions} are complete"
    if report.batch_size is None:
        return Notes((f"{state}.", *lines))
    others = [line for line in lines if line not in describe_batch(report)]  # the new line says that already
    return Notes((f"{state}, and for a batch of {report.batch_size:,}.", *others))


def _list_costs(report: Report, advice: bool) -> Iterator[RenderableType]:
    """Yield the parts of the model that cost most, the costs of the types of layers, and the advice."""
    layers = report.layerwise
    by = choose_column(layers)
    if not by or len(layers) < 2:
        return
    costs = Costs.divide(layers, by)
    yield draw_parts([costs.draw()]) if costs.model.inside else Text("")
    sentences = [*_write_types(layers, by), *(list_advice(report, costs.model, by) if advice else ())]
    yield draw_parts([Notes(tuple(sentences))])


def _list_peaks(report: Report) -> Iterator[RenderableType]:
    """Yield which layers the memory is for at its peak, for each metric that says so."""
    for record in list_records(report, LayerTable):
        table = record.value
        costs = Costs.divide(table, PEAK) if is_by_layer(table) and table and table[0].get(PEAK) else None
        if costs is not None and costs.model.inside:
            yield draw_parts([costs.draw()])
            yield Text("")


def _write_types(layers: LayerTable, by: str) -> Iterator[str]:
    """Yield a sentence about the types of layers with the most of the counted work of their own."""
    types = layers.by_type()
    if by not in types.columns:  # of this column, layers have no values of their own
        return
    sums = {row["type"]: row[by] for row in types if row[by]}
    whole = layers[0][by]  # as in the table above it; times of layers, a median each, add up to a little more or less
    ranked = sorted(sums, key=lambda kind: -sums[kind])
    texts = [f"{kind} {share_text(sums[kind] / whole)}" for kind in ranked[:_TYPES]]
    if len(ranked) > _TYPES:
        left = sum(sums[kind] for kind in ranked[_TYPES:])
        texts.append(f"{format_count(len(ranked) - _TYPES, 'other')} {share_text(left / whole)}")
    if texts:
        part = ", of what is counted" if f"{by}_low" in types.columns else ""
        yield f"{Column.of(by).title} by type{part}: {', '.join(texts)}."


# The values of all metrics --------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """How values are written.

    Attributes:
        has_exact_counts: Whether the exact count stands behind a rounded one.
        has_intervals: Whether the interval stands behind a measurement. Its noise, which is always shown, tells how
            wide the interval is.
    """

    has_exact_counts: bool
    has_intervals: bool


_MOST_EXACT = _Form(True, True)
#: The forms of values in two columns; the first that fits the terminal is drawn.
_FORMS = (_MOST_EXACT, _Form(True, False), _Form(False, False))


class _Values:
    """The values of all metrics as rich draws them, in two columns if they fit; tables are left out."""

    def __init__(self, records: Iterable[StatusRecord]) -> None:
        self._records = [record for record in records if not isinstance(record.value, Table)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unlimited = options.update(max_width=_UNLIMITED)
        for form in _FORMS if len(self._records) >= _FEWEST_IN_TWO else ():
            table = _draw_values(self._records, form, 2)
            if console.measure(table, options=unlimited).maximum <= options.max_width:
                yield table
                return
        yield _draw_values(self._records, _MOST_EXACT, 1)


def _draw_values(records: Sequence[StatusRecord], form: _Form, columns: int) -> DrawnTable:
    """Return a table of names and values, which goes on in the next column after the last line."""
    table = DrawnTable(box=None, show_header=False, pad_edge=False)
    for _ in range(2 * columns):
        table.add_column(no_wrap=columns > 1)
    lines = math.ceil(len(records) / columns)
    for line in range(lines):
        cells: list[str] = []
        for record in records[line::lines]:
            cells += (escape(visible(record.friendly_name)), mark_up(_write_value(record, form), choose_mark(record)))
        table.add_row(*cells)
    return table


def _write_value(record: StatusRecord, form: _Form) -> str:
    if record.value is None:
        return record.completeness.value
    text, exact, measured = record.shown, write_in_full(record), record.text_parts
    if exact and form.has_exact_counts:
        text = f"{text} ({exact})"
    if measured is not None and measured.noise and not form.has_intervals:
        text = measured.without_interval
    return visible(f"{record.sign}{text}{write_interval(record)}")
