"""A report as people read it first: what the model costs, and which layers cost it, in some twenty lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..piping.outcome import Completeness
from ..times.measurement import Measurement
from ..trace.bounds import Sign
from ..trace.cost_parts import choose_column, divide
from ..trace.layer_view import PEAK
from ..trace.model_parts import Part as CostPart
from ..trace.records import LayerTable
from ..trace.table import Table as DataTable
from .advice import list_advice
from .bounds import write_in_full, write_interval, write_row_value
from .columns import Column, share_text, write_count
from .console import STYLES, draw_parts, to_text
from .content import choose_mark, list_parts_below, parts
from .grids import Grid, Notes, Part, list_records, visible
from .notes import describe_batch
from .selection import Selection, list_changed_layers

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report, StatusRecord

__all__ = ["begin_with_state", "describe_inputs", "make_cost_grid", "render", "summarize"]

#: How many lines the layers have, and how many types are named.
_LINES, _TYPES = 8, 4
#: How many layers of a comparison are shown.
_MOVED = 6
#: The columns that a narrow terminal leaves out, in this order; the type then stands behind the name of the layer.
_LEAST_NEEDED = ("Output", "Type", "", "MACs", "Params", "Most of it")
#: The columns that hold no numbers.
_TEXTS = ("Layer", "Type", "Output", "", "Most of it")
#: Of layers of one form, by how much the slowest may take longer than the fastest so that all have one share.
_FAR_APART = 2
#: The width of the bar of a layer that is the whole model.
_BAR = 10


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

    Args:
        result: A report or a comparison.
        details: Describe each metric, and show the layers, and ten rows of each metric that is a table.
        depth: Show the layers, none that lie deeper, -1 for those at any depth.
        top: Show so many layers, those with the most MACs, and so many rows of each metric that is a table.
        changes: Of a comparison, show those layers that changed, were removed or added.
        color: Add the escape sequences of a terminal: what failed, is partial or noisy, is better or worse.
        advice: Say in words what stands out.
    """
    return to_text(summarize(result, details, depth, top, changes, advice), color=color)


def summarize(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
    advice: bool = True,
) -> RenderableType:
    """Return what `render` writes, as rich draws it."""
    from ..results.comparison import Comparison

    if isinstance(result, Comparison):
        table, notes, *rest = parts(result, details, depth, top, changes)
        changed = () if _has_layers(rest) else list_changed_layers(result, _MOVED)
        return draw_parts([table, *changed, notes, *rest])
    notes, *rest = list_parts_below(result, Selection(details, depth, top, changes))
    name, line = visible(f"{result.name}  ({result.backend})"), visible(describe_inputs(result))
    heading = [Text(""), Text(name, style="bold"), *([Text(line, style="dim")] if line else []), Text("")]
    where = [] if _has_layers(rest) else [*_list_costs(result, advice), *_list_peaks(result)]
    below = draw_parts([begin_with_state(notes, result), *rest])
    return Group(*heading, _Values(result.statuses.values()), *(where or [Text("")]), below)


def _has_layers(content: Iterable[Part]) -> bool:
    return any(isinstance(part, Grid) and part.kind == "layers" for part in content)


def describe_inputs(report: Report) -> str:
    """Return in a line what the model was given, on which device, by how many threads; empty where nothing is known."""
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

    Notes say what the others leave out.
    """
    lines = notes.lines if isinstance(notes, Notes) else ()
    names = [one.friendly_name for one in report.statuses.values() if one.completeness is not Completeness.COMPLETE]
    if len(names) == len(report.statuses):
        return Notes(lines)
    state = f"All values{' but ' if names else ''}{', '.join(names)} are complete"
    if report.batch_size is None:
        return Notes((f"{state}.", *lines))
    batch = list(describe_batch(report))
    others = [line for line in lines if line not in batch]
    return Notes((f"{state}, and for a batch of {report.batch_size}.", *others))


class _Values:
    """The values of all metrics, a few in one column, more in two, from top to bottom; tables are no values.

    Where two columns do not fit, the intervals are left out: the noise before them says how wide they are. Then counts
    are written in full alone, and at last rounded alone.
    """

    def __init__(self, records: Iterable[StatusRecord]) -> None:
        self._records = [record for record in records if not isinstance(record.value, DataTable)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        forms = [
            self._write(*spelling) for spelling in product(("{shown} ({exact})", "{exact}", "{shown}"), (True, False))
        ]
        columns, cells = 1, forms[0]
        for form in forms:
            if len(form) >= 4 and _measure_columns(form, 2) <= options.max_width:
                columns, cells = 2, form
                break
        table = Table(box=None, show_header=False, pad_edge=False)
        for _ in range(2 * columns):
            table.add_column(no_wrap=columns > 1)
        lines = -(-len(cells) // columns)
        for line in range(lines):
            texts: list[str] = []
            for name, value, mark in cells[line::lines]:
                texts += escape(name), _paint(value, mark)
            table.add_row(*texts)
        yield table

    def _write(self, count: str, with_intervals: bool) -> list[tuple[str, str, str]]:
        """Return the name, the value and the mark of each record; ``count`` is the format of a rounded count."""
        cells = []
        for record in self._records:
            text = _write_value(record, count, with_intervals)
            cells.append((visible(record.friendly_name), visible(text), choose_mark(record)))
        return cells


def _measure_columns(cells: Sequence[tuple[str, str, str]], columns: int) -> int:
    """Return how wide values are in so many columns, each with the names before them."""
    lines = -(-len(cells) // columns)
    blocks = [cells[start : start + lines] for start in range(0, len(cells), lines)]
    widths = [max(len(name) for name, *_ in block) + max(len(value) for _, value, _ in block) for block in blocks]
    return sum(widths) + 4 * len(blocks) - 2  # behind each column of the table but the last one


def _paint(value: str, mark: str) -> str:
    return f"[{STYLES[mark]}]{escape(value)}[/]" if mark else escape(value)


def _write_value(record: StatusRecord, count: str, with_interval: bool) -> str:
    if record.value is None:
        return record.completeness.value
    exact, measured = write_in_full(record), record.text_parts
    shown = count.format(shown=record.shown, exact=exact) if exact else record.shown
    if measured is not None and measured.noise and not with_interval:
        shown = measured.without_interval
    return f"{record.sign}{shown}{write_interval(record)}"


def make_cost_grid(report: Report) -> Grid | None:
    """Return the parts of the model that cost most, with all columns; None where it is not divided."""
    layers = report.layerwise
    by = choose_column(layers)
    model = divide(layers, by, _LINES) if by else None
    return _draw_costs(model, by, layers[0][by]) if model and model.inside else None


def _list_costs(report: Report, advice: bool) -> Iterator[RenderableType]:
    """Yield the parts of the model that cost most, the types of layers that do, and what stands out."""
    layers = report.layerwise
    by = choose_column(layers)
    if not by or len(layers) < 2:
        return
    model = divide(layers, by, _LINES)
    if model.inside:
        yield draw_parts([_draw_costs(model, by, layers[0][by])])
    else:
        yield Text("")
    sentences = [*_write_types(layers, by), *(list_advice(report, model, by) if advice else ())]
    yield draw_parts([Notes(tuple(sentences))])


def _list_peaks(report: Report) -> Iterator[RenderableType]:
    """Yield where the memory is at the moment when most is taken, of each metric that says so."""
    for record in list_records(report, LayerTable):
        table = record.value
        if PEAK in table.columns and table[0][PEAK]:
            yield draw_parts([_draw_costs(divide(table, PEAK, _LINES), PEAK, table[0][PEAK])])
            yield Text("")


def _draw_costs(model: CostPart, by: str, whole: float) -> Grid:
    """Return the parts of a model, a row for each, with all columns that have any value."""
    depths, costs = zip(*model.walk(), strict=True)
    columns = {
        "Layer": [_write_label(part, "" if depth else model.label) for depth, part in zip(depths, costs, strict=True)],
        "Type": [_write_type(part) for part in costs],
        "Output": [_write_shape(part) for part in costs],
        "Params": [_write_count(part, "params") for part in costs],
        "MACs": [_write_count(part, "macs") for part in costs],
        **({Column.of(by).title.removesuffix(" time"): values} if (values := _list_values(costs, by)) else {}),
        "Share": [_write_share(part, by, whole) for part in costs],
        "": [_draw_bar(part, by, whole) for part in costs],
        **({"Most of it": [_find_most(part) for part in costs]} if by == PEAK else {}),
    }
    columns = {title: cells for title, cells in columns.items() if not {"-", ""}.issuperset(cells)}
    return Grid(
        f"Where it goes, by {Column.of(by).in_a_sentence}",
        tuple(columns),
        tuple(zip(*columns.values(), strict=True)),
        frozenset(index for index, name in enumerate(columns) if name not in _TEXTS),
        depths,
        kind="costs",
        least_needed=_LEAST_NEEDED,
    )


def _list_values(costs: Sequence[CostPart], by: str) -> list[str]:
    """Return the time or the bytes of each part, where parts are found by these."""
    return [Column.of(by).show(part.sum(by)) or "-" for part in costs] if by.endswith(("_seconds", PEAK)) else []


def _find_most(part: CostPart) -> str:
    """Return what most bytes of a part are for, by the other columns of bytes."""
    names = [name for name in part.rows[0] if name.endswith("_bytes") and not name.startswith("own_") and name != PEAK]
    most = max(names, key=lambda name: part.sum(name) or 0, default="")
    return most.removesuffix("_bytes").replace("_", " ")


def _write_label(part: CostPart, around: str) -> str:
    if part.kind in ("layers", "block"):
        label = f"{around}.{part.label}" if around else part.label
        return label if part.kind == "layers" or _write_type(part) else f"{label} ({len(part.rows)} layers)"
    if part.kind == "size":
        return f"{part.label} ({len(part.rows)} layers)"
    return "(itself)" if part.kind == "own" else f"{len(part.rows)} others"


def _write_type(part: CostPart) -> str:
    kinds = {row["type"] for row in part.rows}
    if part.kind not in ("layers", "block") or len(kinds) > 1:
        return ""
    kind: str = kinds.pop()
    return f"{len(part.rows)} x {kind}" if len(part.rows) > 1 else kind


def _write_shape(part: CostPart) -> str:
    shapes = part.rows[-1].get("output_shapes") or ()  # of equal layers any, of a block its last
    return str(list(shapes[0])) if part.kind in ("layers", "block") and shapes else ""


def _write_count(part: CostPart, column: str) -> str:
    signs = {write_row_value(row, column)[0] for row in part.rows if part.kind != "own"} - {Sign.EXACT}
    sign = Sign.BETWEEN if len(signs) > 1 else next(iter(signs), Sign.EXACT)
    return f"{sign}{write_count(part.sum(column))}"


def _write_share(part: CostPart, by: str, whole: float) -> str:
    """Return the share of a part; of equal layers that of each, or the range where one takes far more time."""
    times = len(part.rows) if part.kind in ("layers", "own") else 1
    shares = sorted(value / whole for value in part.list_values(by))
    if times > 1 and shares and shares[-1] > _FAR_APART * shares[0]:
        return f"{share_text(shares[0]).removesuffix(' %')} to {share_text(shares[-1])}"
    share = share_text(sum(shares) / times)
    return f"{times} x {share}" if times > 1 else share


def _draw_bar(part: CostPart, by: str, whole: float) -> str:
    eighths = round((part.sum(by) or 0) / whole * _BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _write_types(layers: LayerTable, by: str) -> Iterator[str]:
    """Yield a sentence about the types of layers that do most themselves."""
    types = layers.by_type()
    if by not in types.columns:  # the table has it for layers with all that is inside them, alone
        return
    sums = {row["type"]: row[by] for row in types if row[by]}
    whole = sum(sums.values())
    ranked = sorted(sums, key=lambda kind: -sums[kind])
    texts = [f"{kind} {share_text(sums[kind] / whole)}" for kind in ranked[:_TYPES]]
    if len(ranked) > _TYPES:
        left = sum(sums[kind] for kind in ranked[_TYPES:])
        texts.append(f"{len(ranked) - _TYPES} others {share_text(left / whole)}")
    if texts:
        yield f"{Column.of(by).title} by type: {', '.join(texts)}."
