"""The summary of a report, which people read first: the costs of the model and of its layers, in some twenty lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ..count_text import format_count
from ..foreign_text import visible
from ..piping.outcome import Completeness
from ..results.comparison import Comparison
from ..results.report import Report
from ..times.measurement import Measurement
from ..trace.layer_table import is_by_layer
from ..trace.layer_view import PEAK
from ..trace.records import LayerTable
from .advice import list_advice
from .changed_layers import list_changed_layers
from .console import draw_parts, to_text
from .content import list_parts_below, parts
from .cost_grids import Costs
from .cost_parts import choose_column
from .grids import Grid, Notes, Part, list_records
from .notes import describe_batch
from .selection import Selection
from .value_columns import Values
from .values import Column, share_text

__all__ = ["begin_with_state", "describe_inputs", "render", "summarize"]

#: How many types of layers are named.
_TYPES = 4
#: How many of the layers in which two models differ are shown.
_CHANGED = 6


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
        Values(result.statuses.values()),
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
    inputs = re.sub(r"^ModelInputs\((.*)\)", r"\1", report.inputs)
    device = report.environment.get("device", "").removeprefix("/").lower()
    facts = [f"Input: {inputs}" if inputs else "", report.input_dtypes, device]
    threads = report.arguments.get("num_threads") or report.environment.get("intra_op_threads", "0")
    has_run = bool(device or list_records(report, Measurement))
    if has_run and threads.isdecimal() and threads != "0":
        facts.append("1 thread" if threads == "1" else f"{threads} threads")
    return ", ".join(filter(None, facts))


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
    whole = sum(sums.values())
    ranked = sorted(sums, key=lambda kind: -sums[kind])
    texts = [f"{kind} {share_text(sums[kind] / whole)}" for kind in ranked[:_TYPES]]
    if len(ranked) > _TYPES:
        left = sum(sums[kind] for kind in ranked[_TYPES:])
        texts.append(f"{format_count(len(ranked) - _TYPES, 'other')} {share_text(left / whole)}")
    if texts:
        part = ", of what is counted" if f"{by}_low" in types.columns else ""
        yield f"{Column.of(by).title} by type{part}: {', '.join(texts)}."
