"""A report or comparison as one page of HTML that needs nothing else: no network, no other file.

The files of ``page/`` are put into it: a template, a style sheet, and scripts, one for each subject. The page loads
nothing (its content security policy forbids it), and shows the same values as every other form.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import Completeness
from profilerkit.render.content import parts
from profilerkit.render.cost_grids import make_cost_grid
from profilerkit.render.grids import Grid, Notes, join_units
from profilerkit.render.summary import begin_with_state, describe_inputs, strip_class
from profilerkit.render.tables import first_rows
from profilerkit.render.time_grids import environment_facts
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report
from profilerkit.trace.table import Table

from .cards import summarize
from .page_data import embed, page_data
from .page_parts import join_scripts, render_page, source, templates

#: The scripts in the order in which they build on each other.
_SCRIPTS = (
    *("format", "elements", "frame", "address", "rows", "filter", "axes", "points", "download", "widths"),
    *("table", "tables", "facts", "map", "timeline", "arrange", "boxes", "graph", "memory", "roofline"),
    *("latency", "compare", "app"),
)


def render(result: Report | Comparison) -> str:
    """Return a report or comparison as a page: cards, the layers as table, map and graph, and charts."""
    grid, notes = _split_content(result, explains_absent=False)  # the summary says why metrics have no value
    style, script = assets()
    described = [_describe(report) for report in result.reports]
    first, *others = described
    shared = [fact for fact in first["facts"] if all(fact in other["facts"] for other in others)]
    data = page_data(result)
    return render_page(
        "page.html",
        style,
        script,
        title=" and ".join(visible(report.name) for report in result.reports),
        reports=described,
        shared=shared if others else [],
        several=isinstance(result, Comparison),
        summary=summarize(result, grid),
        notes=list(map(join_units, notes.lines)),
        absent=list_absent(data),
        data=embed(data),
    )


@cache
def assets() -> tuple[str, str]:
    """Return the style and the script that every page has."""
    style = f"{source('page.css')}\n{source('report.css')}"
    return style, join_scripts([source(f"{name}.js") for name in _SCRIPTS])


def fragment(result: Report | Comparison | Table) -> str:
    """Return metrics with their origins and notes, or the first rows of a table, as HTML for a notebook.

    The HTML has the colours of the page around it, and for a report the facts that the terminal shows.
    """
    grid, notes = (first_rows(result), Notes(())) if isinstance(result, Table) else _split_content(result)
    grids, lines = [grid], notes.lines
    if isinstance(result, Report):
        if all(record.completeness is Completeness.COMPLETE for record in result.statuses.values()):
            # The column of completeness goes: a note says it once.
            grids = [replace(grid, titles=grid.titles[:-1], rows=tuple(row[:-1] for row in grid.rows))]
        costs = make_cost_grid(result)
        grids += [costs] if costs else []
        lines = (*filter(None, [describe_inputs(result)]), *begin_with_state(notes, result).lines)
    return templates().get_template("fragment.html").render(grids=grids, notes=list(map(visible, lines)))


def list_absent(data: dict[str, Any]) -> list[str]:
    """Return the parts that a page does not have because none of its reports has them, each with the reason."""
    reports = data["reports"]
    parts_of_traces = {
        "memory (the model was not run while it was traced)": any(report["memory"] for report in reports),
        "graph (what operators read is not known)": any(
            report["operators"] and report["operators"]["reads"] for report in reports
        ),
        "roofline (no layer has a time of its own: layer_times measures it)": any(
            any(report["roofline"]["seconds"]) for report in reports
        ),
        "timeline (operator_table was not measured)": any(report["timeline"] for report in reports),
    }
    is_traced = any(report["layers"]["names"] for report in reports)
    present = parts_of_traces if is_traced else {"layers and memory (the model was not traced)": False}
    present["samples (nothing was measured)"] = any(report["measurements"] for report in reports)
    return [part for part, is_there in present.items() if not is_there]


def _split_content(result: Report | Comparison, explains_absent: bool = True) -> tuple[Grid, Notes]:
    """Return the grid of the metrics and the notes below it, the first parts of the content."""
    content = parts(result, explains_absent=explains_absent)
    grid = next(part for part in content if isinstance(part, Grid))
    notes = next(part for part in content if isinstance(part, Notes))
    return grid, notes


def _describe(report: Report) -> dict[str, Any]:
    facts = {
        "Backend": report.backend,
        "Model type": report.model_type,
        "Batch size": "" if report.batch_size is None else str(report.batch_size),
        "Inputs": strip_class(report.inputs),
        "Device": report.environment.get("device", ""),
        "Created": report.created.replace("T", " ").replace("+00:00", " UTC"),
        "Fingerprint": report.fingerprint,
    }
    more = {**{f"Argument {key}": value for key, value in report.arguments.items()}, **environment_facts(report)}
    return {
        "name": visible(report.name),
        "facts": [(key, visible(str(value))) for key, value in facts.items() if value],
        "more": [(visible(key), visible(str(value))) for key, value in more.items() if str(value)],
    }
