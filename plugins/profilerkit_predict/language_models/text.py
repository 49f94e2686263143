"""A report of a language model, or several side by side, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.piping.quantity import Scale, scale_value

from ..checkpoints.formats import list_product_dtypes
from .serving import ASSUMPTIONS, ESTIMATED

if TYPE_CHECKING:
    from .comparison import LanguageModelComparison
    from .records import PassCounts
    from .report import LanguageModelReport
    from .serving import Serving

__all__ = [
    "comparison_table",
    "comparison_text",
    "is_traced_pass",
    "json_text",
    "report_notes",
    "report_tables",
    "report_text",
]


def json_text(values: Any) -> str:
    """Return values as JSON."""
    return json.dumps(values, indent=2)


def report_text(report: LanguageModelReport) -> str:
    """Return the tables and notes of one report."""
    tables = [_table(*report_table) for report_table in report_tables(report)]
    return "\n\n".join([*tables, _wrap(f"- {note}" for note in report_notes(report))])


def report_tables(report: LanguageModelReport) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Return the tables of one report: the title, the titles of the columns and the rows of each, as texts."""
    serving = [_write_serving_row(report, index) for index in range(len(report.serving))]
    tables: list[tuple[str, Sequence[str], list[tuple[str, ...]]]] = [
        ("Model", ("", ""), list(_model_rows(report))),
        *_list_passes(report),
        (_engine_title(report), _SERVING, serving),
    ]
    if any(
        one_serving.first_token is not None and one_serving.first_token.value is not None
        for one_serving in report.serving
    ):
        tables.append(
            (
                "Estimates, engine, calibrated",
                _ESTIMATES,
                [_estimate_row(one_serving) for one_serving in report.serving],
            )
        )
    if report.fits and report.fits[0].memory.capacity is not None:
        tables.append(("Memory of one device", _FITS, [_fit_row(fit) for fit in report.fits]))
    if report.measured is not None:
        tables.append(("Measured", _MEASURED, list(_write_measured_rows(report))))
    return tables


#: The width of notes.
_WIDTH = 100
_SERVING = (
    *("batch", "first token", "per token", "tokens/s", "prefill MACs", "step MACs", "step weights", "cache"),
    "bound by",
)
_ESTIMATES = ("batch", "first token", "between", "per token", "between", "tokens/s", "between")
_MEASURED = ("", "median", "interval", "as written, predicted", "between", "engine, at least")
_FITS = ("batch", "weights", "cache", "activations", "reserve", "total", "fits", "context", "batch fits", "devices")


def _engine_title(report: LanguageModelReport) -> str:
    device = report.device
    on = f"{report.cost.devices} x {device.name} ({device.tier})" if device else "no device: counts alone"
    return f"Engine, {report.prompt:,} tokens of prompt and {report.new:,} new: {on}"


def _model_rows(report: LanguageModelReport) -> Iterable[tuple[str, str]]:
    facts = report.facts
    yield "name", report.name
    yield "parameters", _si(facts.parameters)
    stored = report.cost.cache_format
    cache = (
        f"activations and cache {facts.dtype}" if stored is None else f"activations {facts.dtype}, cache {stored.name}"
    )
    yield "weights", f"{report.weights}, {cache}"
    yield "longest context", "no maximum" if facts.longest_context is None else f"{facts.longest_context:,}"
    yield ("as written" if facts.prefill else "read from"), str(facts.execution)
    slope = sum(layer.bytes_per_token for layer in report.cost.cache_layers)
    constant = sum(layer.constant_bytes for layer in facts.cache_layers)
    yield "cache of a token", f"{slope:,.0f} B" if slope else "none"
    if constant:
        yield "cache of a sequence", f"{constant:,} B whatever its length"
    windows = sorted({layer.window for layer in facts.cache_layers if layer.window})
    if windows:
        limited = sum(layer.window is not None for layer in facts.cache_layers)
        yield "windows", f"{limited} of {len(facts.cache_layers)} layers: {', '.join(f'{w:,}' for w in windows)} tokens"


def _list_passes(report: LanguageModelReport) -> Iterable[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yield the table of the passes that were traced, if any were."""
    first, second = report.facts.prefill, report.facts.decode
    if first is not None and second is not None:
        yield "Passes as written", ("", "prefill", "decode"), list(_pass_rows(first, second))


def _pass_rows(first: PassCounts, second: PassCounts) -> Iterable[tuple[str, ...]]:
    yield "new tokens", f"{first.new_tokens:,}", f"{second.new_tokens:,}"
    yield "in the cache before", f"{first.cached_tokens:,}", f"{second.cached_tokens:,}"
    yield "MACs, attention in full", f"{first.macs:,}", f"{second.macs:,}"
    yield "FLOPs", f"{first.flops:,}", f"{second.flops:,}"
    yield "operators", f"{first.operators:,}", f"{second.operators:,}"


def _write_serving_row(report: LanguageModelReport, index: int) -> tuple[str, ...]:
    number = report.serving[index]
    bound = " / ".join(step.bound_by for step in (number.prefill, number.decode) if step.bound_by) or "-"
    return (
        f"{number.batch:,}",
        _seconds(number.time_to_first_token),
        _seconds(number.time_per_output_token),
        _rate(number.tokens_per_second),
        _si(number.prefill.macs),
        _si(number.decode.macs),
        _bytes(number.decode.weight_bytes),
        _bytes(number.cache_bytes),
        bound,
    )


def _fit_row(fit: Any) -> tuple[str, ...]:
    memory = fit.memory
    context = (
        "-" if not fit.longest_context else f"{fit.longest_context:,}{' (model)' if fit.is_models_maximum else ''}"
    )
    return (
        f"{fit.batch:,}",
        *(_bytes(size) for size in (memory.weights, memory.cache, memory.activations, memory.reserve, memory.total)),
        "yes" if memory.fits else "no",
        context,
        f"{fit.largest_batch:,}" if fit.largest_batch else "-",
        "never" if fit.needed_devices is None else f"{fit.needed_devices:,}",
    )


def is_traced_pass(report: LanguageModelReport) -> bool:
    """Return whether what was measured is what was traced: one sequence, and the same prompt."""
    tokens, prefill = report.measured, report.facts.prefill
    if tokens is None or prefill is None:
        return False
    return (tokens.batch, tokens.prompt) == (prefill.batch, prefill.new_tokens)


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
            estimate = _seconds(predicted.estimate), _between(predicted.low, predicted.high, _seconds)
        yield title, _seconds(measured.median), f"{_seconds(low)} to {_seconds(high)}", *estimate, _seconds(bound)


def _estimate_row(serving: Serving) -> tuple[str, ...]:
    cells = [f"{serving.batch:,}"]
    for estimate, shown in ((serving.first_token, _seconds), (serving.per_token, _seconds), (serving.rate, _rate)):
        if estimate is None:
            cells += ["-", "-"]
        else:
            cells += [shown(estimate.value), _between(estimate.low, estimate.high, shown)]
    return tuple(cells)


def _between(low: float | None, high: float | None, shown: Callable[[float | None], str]) -> str:
    if high is None:
        return "-" if low is None else f"at least {shown(low)}"
    return f"at most {shown(high)}" if low is None else f"{shown(low)} to {shown(high)}"


def report_notes(report: LanguageModelReport) -> Iterable[str]:
    """Yield what a reader of the numbers must know."""
    yield from (*ASSUMPTIONS, *report.facts.notes)
    if report.device is not None:
        yield report.reason_without_estimates or ESTIMATED
    if report.speculation is not None:
        yield _SPECULATION.format(
            count=report.speculation.draft_tokens,
            share=report.speculation.acceptance,
            tokens=report.speculation.tokens_per_step,
        )
    for fit in report.fits:
        if not fit.memory.fits and fit.memory.capacity is not None:
            yield _NO_FIT.format(
                batch=fit.batch, count=report.cost.devices, needed=fit.needed_devices or "no number of"
            )
    if report.device is not None and report.serving[0].time_to_first_token is None:
        yield f"{report.device.name} has no peak for {report.cost.peak_dtype} or no bandwidth: no times follow"
    yield from _list_missing_peaks(report)
    if report.measured is not None:
        tokens = report.measured
        yield (
            f"measured on {tokens.device} in {tokens.dtype}, batch {tokens.batch}, {len(tokens.runs)} repetitions of "
            f"{len(tokens.runs[0])} tokens"
        )


def _list_missing_peaks(report: LanguageModelReport) -> Iterable[str]:
    """Yield which peaks are not known of the dtypes that an engine may multiply the weights in."""
    device, cost = report.device, report.cost
    if device is None:
        return
    names = report.facts.storage_formats if cost.weights is None else (cost.weights.name,)
    dtypes = dict.fromkeys(dtype for name in names for dtype in list_product_dtypes(name))
    missing = [dtype for dtype in dtypes if device.peak(dtype) is None]
    if missing:
        yield (
            f"no peak of {device.name} is known for {', '.join(missing)}, in which an engine may multiply these "
            "weights where the device can: then products take less time than this bound says"
        )


_SPECULATION = (
    "speculation: each step checks {count} drafted tokens, of which each is accepted with {share:g} where all before "
    "it were, and makes {tokens:.3g} tokens on average; times of a token are those of a step over that number, and the "
    "work and memory of what drafts them are not in them"
)
_NO_FIT = (
    "batch {batch} does not fit on {count} device(s), and needs {needed}: its times are those of a device with "
    "memory enough; give devices={needed} for the bounds of so many"
)


def comparison_text(comparison: LanguageModelComparison) -> str:
    """Return one row for each report and batch size, the notes that all have, and those of each model."""
    of_models = (f"{report.name}: {note}" for report in comparison.reports for note in report.facts.notes)
    notes = _wrap(f"- {line}" for line in dict.fromkeys((*ASSUMPTIONS, *of_models)))
    return f"{_table(*comparison_table(comparison))}\n\n{notes}"


def comparison_table(comparison: LanguageModelComparison) -> tuple[str, Sequence[str], list[tuple[str, ...]]]:
    """Return one row for each report and batch size: the title, the titles of the columns and the rows."""
    rows: list[tuple[str, ...]] = []
    lengths = {(report.prompt, report.new) for report in comparison.reports}
    for report in comparison.reports:
        for index, serving in enumerate(report.serving):
            fit = report.fits[index] if report.fits else None
            needed = "-" if fit is None or fit.needed_devices is None else f"{fit.needed_devices:,}"
            device = report.device.name if report.device else "-"
            slope = sum(layer.bytes_per_token for layer in report.cost.cache_layers)
            name = report.name if len(lengths) == 1 else f"{report.name} ({report.prompt:,} + {report.new:,} tokens)"
            row = (name, device, report.weights, f"{serving.batch:,}", _seconds(serving.time_to_first_token))
            rate = _rate(serving.tokens_per_second)
            rows.append(
                (
                    *row,
                    _seconds(serving.time_per_output_token),
                    rate,
                    _bytes(slope),
                    _bytes(serving.cache_bytes),
                    needed,
                )
            )
    titles = ("model", "device", "weights", "batch", "first token", "per token", "tokens/s", "cache/token", "cache")
    title = "Language models, engine"
    if len(lengths) == 1:
        title += ", {:,} tokens of prompt and {:,} new".format(*lengths.pop())
    return title, (*titles, "devices"), rows


def _wrap(lines: Iterable[str]) -> str:
    return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines)


def _table(title: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of text: the first column to the left, the others to the right."""
    header = [list(titles)] if any(titles) else []
    lines = [*header, *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    aligned = [
        "  ".join(
            cell.ljust(w) if column == 0 else cell.rjust(w)
            for column, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    if header:
        aligned.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([title, *(line.rstrip() for line in aligned)])


def _si(value: float) -> str:
    return str(scale_value(value, "", Scale.SI))


def _bytes(value: float | None) -> str:
    return "-" if value is None else str(scale_value(value, "B", Scale.IEC))


def _seconds(value: float | None) -> str:
    return "-" if value is None else str(scale_value(value, "s", Scale.TIME))


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
