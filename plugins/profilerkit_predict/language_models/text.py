"""A report of a language model, or several side by side, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .answers import describe_formats, list_answers, list_term_rows, list_term_titles
from .formatting import show_bytes, show_count, show_most, show_rate, show_seconds
from .growth import find_layer
from .notes import general_notes, report_notes

if TYPE_CHECKING:
    from .arrivals import Arrivals
    from .bursts import Burst
    from .comparison import LanguageModelComparison
    from .fitting import Fit
    from .records import PassCounts
    from .report import LanguageModelReport
    from .serving import Serving

__all__ = [
    "TextTable",
    "compare_in_table",
    "comparison_text",
    "is_traced_pass",
    "json_text",
    "list_tables",
    "report_text",
]


class TextTable(NamedTuple):
    """A table of texts.

    Attributes:
        title: Its title.
        headings: The titles of its columns; empty ones for a table of names and values.
        rows: Its rows.
        detail: What stands behind the title; links to the table leave it out.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    detail: str = ""

    @property
    def caption(self) -> str:
        """The title with its detail."""
        return f"{self.title}, {self.detail}" if self.detail else self.title


def json_text(values: Any) -> str:
    """Return values as JSON."""
    return json.dumps(values, indent=2)


def report_text(report: LanguageModelReport) -> str:
    """Return the tables and notes of one report."""
    tables = map(_draw, list_tables(report))
    notes = (*general_notes([report]), *report_notes(report))
    return "\n\n".join([*tables, _wrap(f"- {note}" for note in notes)])


def list_tables(report: LanguageModelReport) -> Iterator[TextTable]:
    """Yield the tables of one report."""
    answers = list(list_answers(report))
    if answers:
        yield TextTable("Answer", _PAIRS, answers)
    serving = [_write_serving_row(report, index) for index in range(len(report.serving))]
    yield TextTable("Engine", _list_serving_titles(report), serving, _describe_engine(report))
    if any(row.first_token is not None and row.first_token.value is not None for row in report.serving):
        yield TextTable("Estimates", _ESTIMATES, list(map(_estimate_row, report.serving)), "engine, calibrated")
    if report.fits and report.fits[0].memory.capacity is not None:
        yield _write_memory(report)
        yield TextTable("What fits", _FITS, list(map(_write_fit_row, report.fits)))
    detail = f"batch {report.serving[-1].batch:,}, on each device"
    yield TextTable("Where a step goes", list_term_titles(report), list(list_term_rows(report)), detail)
    yield from _list_queues(report)
    yield TextTable("Model", _PAIRS, list(_model_rows(report)))
    yield from _list_passes(report)
    if report.measured is not None:
        yield TextTable("Measured", _MEASURED, list(_write_measured_rows(report)))


#: The headings of a table of names and values.
_PAIRS = ("", "")
#: The width of notes: what every terminal has.
_WIDTH = 80
_SERVING = ("batch", "first token", "per token", "tokens/s", "cache")
#: A column of models with experts, beside the bound of each token.
_ROUTED = "uniform routing"
_ESTIMATES = ("batch", "first token", "between", "per token", "between", "tokens/s", "between")
_BURST = ("batch", "passes", "first", "mean", "last")
_MEASURED = ("", "median", "interval", "as written, predicted", "between", "engine, at least")
#: What memory is for, by the names of `Memory`.
_USES = ("weights", "adapters", "drafter", "cache", "activations", "reserve")
_FITS = ("batch", "longest context", "largest batch", "devices needed")


def _describe_engine(report: LanguageModelReport) -> str:
    device = report.device
    layout = f", {report.cost.layout}" if report.cost.devices > 1 else ""
    on = f"{report.cost.devices} x {device.name} ({device.tier}){layout}" if device else "no device: counts alone"
    encoded = "".join(f", {inputs.tokens:,} of {inputs.encoder.kind}," for inputs in report.cost.inputs)
    return f"{report.prompt:,} tokens of prompt{encoded} and {report.new:,} new: {on}"


def _model_rows(report: LanguageModelReport) -> Iterable[tuple[str, str]]:
    facts = report.facts
    yield "name", report.name
    yield "parameters", show_count(facts.parameters)
    yield "formats", describe_formats(report)
    yield "longest context", "no maximum" if facts.sizes.longest_context is None else f"{facts.sizes.longest_context:,}"
    yield ("as written" if facts.traced else "read from"), str(facts.execution)
    for encoder, count in report.cost.inputs:
        yield str(encoder.kind), f"{count:,} of {encoder.size}, each {encoder.tokens:,} tokens"
        yield "their encoder", f"{show_count(encoder.macs)} MACs for each"
    adapters = report.cost.adapters
    if adapters is not None:
        yield (
            "adapters",
            f"{adapters.count:,} of rank {adapters.rank}, {show_count(adapters.parameters)} parameters each",
        )
        yield "", f"beside {', '.join(dict.fromkeys(matrix.name for matrix in adapters.matrices))}"
    slope = sum(layer.bytes_per_token for layer in report.cost.cache_layers)
    constant = sum(layer.constant_bytes for layer in facts.cache.parts)
    yield "cache of a token", f"{slope:,.0f} B" if slope else "none"
    if constant:
        yield "cache of a sequence", f"{constant:,} B whatever its length"
    windows = sorted({layer.window for layer in facts.cache.parts if layer.window})
    if windows:
        layers = {find_layer(part.path) for part in facts.cache.parts}
        limited = {find_layer(part.path) for part in facts.cache.parts if part.window}
        title = "chunks" if any(layer.is_chunked for layer in facts.cache.parts) else "windows"
        yield title, f"{len(limited)} of {len(layers)} layers: {', '.join(f'{w:,}' for w in windows)} tokens"


def _list_passes(report: LanguageModelReport) -> Iterator[TextTable]:
    """Yield the table of the passes that were traced, if any were."""
    traced = report.facts.traced
    if traced is not None:
        rows = list(_pass_rows(traced.prefill, traced.decode))
        yield TextTable("Passes as written", ("", "prefill", "decode"), rows)


def _pass_rows(first: PassCounts, second: PassCounts) -> Iterable[tuple[str, ...]]:
    yield "new tokens", f"{first.new_tokens:,}", f"{second.new_tokens:,}"
    yield "in the cache before", f"{first.cached_tokens:,}", f"{second.cached_tokens:,}"
    yield "MACs, attention in full", f"{first.macs:,}", f"{second.macs:,}"
    yield "FLOPs", f"{first.flops:,}", f"{second.flops:,}"
    yield "operators", f"{first.operators:,}", f"{second.operators:,}"


def _list_serving_titles(report: LanguageModelReport) -> tuple[str, ...]:
    titles = (*_SERVING[:3], _ROUTED, *_SERVING[3:]) if report.facts.has_experts else _SERVING
    return (*titles, "bound by")


def _write_serving_row(report: LanguageModelReport, index: int) -> tuple[str, ...]:
    number = report.serving[index]
    bound = " / ".join(step.bound_by for step in (number.prefill, number.decode) if step.bound_by) or "-"
    return (
        f"{number.batch:,}",
        show_seconds(number.time_to_first_token),
        show_seconds(number.time_per_output_token),
        *([show_seconds(number.uniform_time_per_output_token)] if report.facts.has_experts else []),
        show_rate(number.tokens_per_second),
        show_bytes(number.cache_bytes),
        bound,
    )


def _write_memory(report: LanguageModelReport) -> TextTable:
    """Return the table of memory, with a column for each use of it that any row has."""
    uses = [name for name in _USES if any(getattr(fit.memory, name) != 0 for fit in report.fits)]
    rows = [_write_memory_row(fit, uses) for fit in report.fits]
    return TextTable("Memory of one device", ("batch", *uses, "total", "fits"), rows)


def _write_memory_row(fit: Fit, uses: Iterable[str]) -> tuple[str, ...]:
    sizes = (show_bytes(getattr(fit.memory, name)) for name in (*uses, "total"))
    return (f"{fit.batch:,}", *sizes, "yes" if fit.memory.fits else "no")


def _write_fit_row(fit: Fit) -> tuple[str, ...]:
    context = f"{fit.longest_context:,} (model)" if fit.is_models_maximum else show_most(fit.longest_context)
    return (
        f"{fit.batch:,}",
        context,
        show_most(fit.largest_batch),
        "never" if fit.needed_devices is None else f"{fit.needed_devices:,}",
    )


def is_traced_pass(report: LanguageModelReport) -> bool:
    """Return whether what was measured is what was traced: one sequence, and the same prompt."""
    tokens, traced = report.measured, report.facts.traced
    if tokens is None or traced is None:
        return False
    return (tokens.batch, tokens.prompt) == (traced.prefill.batch, traced.prefill.new_tokens)


def _write_measured_rows(report: LanguageModelReport) -> Iterable[tuple[str, ...]]:
    tokens = report.measured
    assert tokens is not None  # noqa: S101
    match = next((serving for serving in report.serving if serving.batch == tokens.batch), None)
    both = (report.as_written() if is_traced_pass(report) else None) or (None, None)
    names = (("time_to_first_token", "first token"), ("time_per_output_token", "per token"))
    for (name, title), predicted in zip(names, both, strict=True):
        measured = getattr(tokens, name)
        low, high = measured.interval
        bound = getattr(match, name) if match else None
        estimate = ("-", "-")
        if predicted is not None:
            estimate = show_seconds(predicted.estimate), _between(predicted.low, predicted.high, show_seconds)
        yield (
            title,
            show_seconds(measured.median),
            f"{show_seconds(low)} to {show_seconds(high)}",
            *estimate,
            show_seconds(bound),
        )


def _estimate_row(serving: Serving) -> tuple[str, ...]:
    cells = [f"{serving.batch:,}"]
    for estimate, shown in (
        (serving.first_token, show_seconds),
        (serving.per_token, show_seconds),
        (serving.rate, show_rate),
    ):
        if estimate is None:
            cells += ["-", "-"]
        else:
            cells += [shown(estimate.value), _between(estimate.low, estimate.high, shown)]
    return tuple(cells)


def _between(low: float | None, high: float | None, shown: Callable[[float | None], str]) -> str:
    if high is None:
        return "-" if low is None else f"at least {shown(low)}"
    return f"at most {shown(high)}" if low is None else f"{shown(low)} to {shown(high)}"


def _list_queues(report: LanguageModelReport) -> Iterator[TextTable]:
    """Yield the table of prompts that arrive at once and take several passes, and that of requests at a rate."""
    bursts = [row.burst for row in report.serving if row.burst is not None and row.burst.passes > 1]
    if bursts:
        rows = [_write_burst(burst) for burst in bursts]
        yield TextTable("Prompts that arrive at once", _BURST, rows, "run in order: seconds until the first token")
    arrivals = report.serving[-1].arrivals
    if arrivals is not None:
        title = f"{arrivals.rate:g} requests/s that arrive at random"
        yield TextTable(title, _PAIRS, list(_write_arrivals(arrivals)))


def _write_burst(burst: Burst) -> tuple[str, ...]:
    seconds = (burst.first, burst.mean, burst.last)
    return f"{burst.batch:,}", f"{burst.passes:,}", *(show_seconds(value) for value in seconds)


def _write_arrivals(arrivals: Arrivals) -> Iterable[tuple[str, str]]:
    yield "most", f"{arrivals.most_requests:.3g} requests/s can be served"
    yield "prompts", f"take {100 * arrivals.load:.3g} % of the time"
    if arrivals.first_token is None or arrivals.sequences is None:
        yield "first token", "the queue grows without end"
        return
    yield (
        "first token",
        f"at least {show_seconds(arrivals.first_token)}, of which a prompt waits {show_seconds(arrivals.wait)}",
    )
    yield (
        "later tokens",
        f"at least {show_seconds(arrivals.per_token)} each, of {arrivals.sequences:,} sequences at once",
    )


def comparison_text(comparison: LanguageModelComparison) -> str:
    """Return one row for each report and batch size, the notes that all have, and those of each model."""
    names: dict[str, dict[str, None]] = {}
    for report in comparison.reports:
        for note in report.facts.notes:
            names.setdefault(note, {})[report.name] = None
    of_models = (f"{', '.join(models)}: {note}" for note, models in names.items())
    notes = _wrap(f"- {line}" for line in (*general_notes(comparison.reports), *of_models))
    return f"{_draw(compare_in_table(comparison))}\n\n{notes}"


def compare_in_table(comparison: LanguageModelComparison) -> TextTable:
    """Return a table with one row for each report and batch size."""
    rows: list[tuple[str, ...]] = []
    lengths = {(report.prompt, report.new) for report in comparison.reports}
    has_experts = any(report.facts.has_experts for report in comparison.reports)
    for report in comparison.reports:
        for index, serving in enumerate(report.serving):
            fit = report.fits[index] if report.fits else None
            device = report.device.name if report.device else "-"
            slope = sum(layer.bytes_per_token for layer in report.cost.cache_layers)
            name = report.name if len(lengths) == 1 else f"{report.name} ({report.prompt:,} + {report.new:,} tokens)"
            row = (name, device, _name_formats(report), f"{serving.batch:,}", show_seconds(serving.time_to_first_token))
            rate = show_rate(serving.tokens_per_second)
            rows.append(
                (
                    *row,
                    show_seconds(serving.time_per_output_token),
                    *([show_seconds(serving.uniform_time_per_output_token)] if has_experts else []),
                    rate,
                    show_bytes(slope),
                    "-" if fit is None else show_bytes(fit.memory.total),
                    "-" if fit is None else _say_fits(fit),
                )
            )
    times = ("first token", "per token", *([_ROUTED] if has_experts else []), "tokens/s")
    titles = ("model", "device", "weights, cache", "batch", *times, "cache/token", "total", "fits")
    detail = "engine"
    if len(lengths) == 1:
        detail += ", {:,} tokens of prompt and {:,} new".format(*lengths.pop())
    return _move_to_detail(TextTable("Language models", titles, rows, detail))


def _name_formats(report: LanguageModelReport) -> str:
    """Return the format of weights, and that of the cache if it is another one."""
    stored = report.cost.cache_format
    return ", ".join(dict.fromkeys((report.weights, report.facts.dtype if stored is None else stored.name)))


def _move_to_detail(table: TextTable) -> TextTable:
    """Return a table whose device, formats and batch stand behind the title where they are those of every row."""
    _, headings, rows, detail = table
    shared = [index for index in (1, 2, 3) if len({row[index] for row in rows}) == 1]
    for index in shared:
        detail += f", {headings[index] + ' ' if headings[index] == 'batch' else ''}{rows[0][index]}"
    left = [index for index in range(len(headings)) if index not in shared]
    columns, cells = [headings[index] for index in left], [tuple(row[index] for index in left) for row in rows]
    return TextTable(table.title, columns, cells, detail)


def _say_fits(fit: Fit) -> str:
    """Return whether it fits, else how many devices it needs."""
    if fit.memory.fits is None:
        return "-"
    if fit.memory.fits:
        return "yes"
    return "never" if fit.needed_devices is None else f"needs {fit.needed_devices:,}"


def _wrap(lines: Iterable[str]) -> str:
    """Return lines in the width of notes; an address stays whole, so that it can be copied."""
    wrapper = textwrap.TextWrapper(_WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    return "\n".join(map(wrapper.fill, lines))


def _draw(table: TextTable) -> str:
    """Return a table as text: the first column to the left, the others to the right, or left without headings."""
    header = [list(table.headings)] if any(table.headings) else []
    lines = [*header, *map(list, table.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headings))]
    aligned = [
        "  ".join(
            cell.rjust(width) if column and header else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    if header:
        aligned.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([table.caption, *(line.rstrip() for line in aligned)])
