"""Language models: memory against context, the terms of a step, and tokens per second against the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from profilerkit.errors import ArgumentError, by_likeness
from profilerkit.piping.quantity import Scale
from profilerkit_pages.figures.canvas import (
    COLOURS,
    GREY,
    finish,
    legend_above,
    new_figure,
    plain,
    title_axis,
    unit_for,
)

from ..engine.fitting import DeviceMemory
from ..engine.serving import make_cycle
from ..engine.step import Step
from .data import ReportData
from .tables import list_steps

_POINTS = 33
_LARGEST_BATCH = 512


def draw_language_models(reports: Sequence[ReportData], kind: str) -> Any:
    """Return a figure of reports of language models; raises `ArgumentError` for an unknown kind."""
    if kind not in LANGUAGE_MODEL_KINDS:
        raise ArgumentError(
            f"no figure {kind!r} of language models; there are, nearest first: "
            f"{', '.join(by_likeness(str(kind), LANGUAGE_MODEL_KINDS))}"
        )
    return LANGUAGE_MODEL_KINDS[kind](reports)


def cache_memory(reports: Sequence[ReportData]) -> Any:
    """Return a figure of the fullest device's weights and cache against the context, for the largest batch of a report.

    The memory includes adapters and the drafter. A line across shows the memory of the device, less the reserve.
    """
    figure = new_figure(7.5, 4.5)
    axis = figure.subplots()
    longest = max(report.facts.sizes.longest_context or 8 * (report.prompt + report.new) for report in reports)
    lines = [_list_memory(report, longest) for report in reports]
    unit, name = unit_for(max(max(line.values()) for line in lines), "B", Scale.IEC)
    for index, (report, line) in enumerate(zip(reports, lines, strict=True)):
        label = plain(f"{report.title}, batch {report.serving[-1].batch}", 44)
        style = ":" if line in lines[:index] else "-"  # one on another lets that be seen
        sizes = [size / unit for size in line.values()]
        axis.plot([*line], sizes, style, color=COLOURS[index % len(COLOURS)], label=label)
    for device, roof in _list_capacities(reports).items():
        axis.axhline(roof / unit, color=GREY, linestyle="--", linewidth=1, label=plain(device))
    axis.xaxis.set_major_formatter("{x:,.10g}")
    axis.set_xlabel("Tokens of context")
    axis.set_ylabel(title_axis("Weights and cache", name))
    return _finish(figure, axis, "memory against context", "Without activations.")


def tokens_per_second(reports: Sequence[ReportData]) -> Any:
    """Return a figure of the tokens per second of decoding against the batch, below the roofs of each device.

    One roof is for the products alone, one for the bytes alone; both are upper bounds. Batches whose cache does not fit
    are dotted. Raises `ValueError` if a report has no device, or a device without a peak or a bandwidth.
    """
    figure = new_figure(7.5, 4.5)
    axis = figure.subplots()
    sizes = [2**power for power in range(_LARGEST_BATCH.bit_length())]
    for index, report in enumerate(reports):
        rates = [_compute_rates(report, size) for size in sizes]
        _plot_speeds(axis, report, sizes, [rate.step for rate in rates], COLOURS[index % len(COLOURS)])
        roof: Any = {"color": GREY, "linewidth": 1}
        labels = ("products", "bytes") if index == 0 else (None, None)  # the legend names the roofs once
        axis.plot(sizes, [rate.products for rate in rates], "--", label=labels[0], **roof)
        axis.plot(sizes, [rate.bytes for rate in rates], "-.", label=labels[1], **roof)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    for numbers in (axis.xaxis, axis.yaxis):
        numbers.set_major_formatter("{x:,.10g}")
    axis.set_xlabel("Batch size (dotted: the cache does not fit)")
    axis.set_ylabel("Tokens per second, at most")
    bound = "Lower bounds of times, so that rates are upper bounds."
    return _finish(figure, axis, "tokens per second against batch", bound)


def _plot_speeds(axis: Any, report: ReportData, sizes: Sequence[int], speeds: Sequence[float], colour: str) -> None:
    """Draw the speeds of a report by the size of the batch: a line while the cache fits, then dots."""
    largest = report.fits[0].largest_batch if report.fits else None
    inside = len(sizes) if largest is None else sum(size <= largest for size in sizes)
    axis.plot(sizes[:inside], speeds[:inside], "o-", color=colour, label=plain(report.title))
    last_inside = max(inside - 1, 0)
    axis.plot(sizes[last_inside:], speeds[last_inside:], ":", color=colour)


def step_terms(reports: Sequence[ReportData]) -> Any:
    """Return a figure of the seconds of a prefill and of the last step: a bar for each resource, stacked of its terms.

    The steps are from the first report and its largest batch. The longest bar of a step binds it. Raises `ValueError`
    for a report without a device, or with a device that lacks a figure.
    """
    report, row = reports[0], reports[0].serving[-1]
    steps = {name.capitalize(): step for name, step in list_steps(report).items()}
    if any(step.seconds is None for step in steps.values()):
        raise _make_error("step_terms", report)
    names = dict.fromkeys(term.name for step in steps.values() for term in step.terms)
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    figure = new_figure(7.5, 4.5)
    for axis, (title, step) in zip(figure.subplots(len(steps)), steps.items(), strict=True):
        _stack_terms(axis, step, colours)
        axis.set_ylabel(title)
    bars: dict[str, Any] = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        bars |= dict(zip(labels, handles, strict=True))
    figure.legend(bars.values(), bars, loc="outside right upper", fontsize="small", frameon=False)
    notes = [f"Batch {row.batch:,}, each device: lower bounds of times. The longest bar of a step binds it."]
    return finish(figure, (), "where a step goes", notes)


def _stack_terms(axis: Any, step: Step, colours: Mapping[str, str]) -> None:
    """Draw a bar for each resource that a step takes, stacked of its terms."""
    unit, name = unit_for(step.seconds or 0.0, "s", Scale.TIME)
    ends: dict[str, float] = {}
    for term in step.terms:
        start, length = ends.get(term.resource, 0.0), (term.seconds or 0.0) / unit
        axis.barh(term.resource, length, left=start, color=colours[term.name], label=term.name)
        ends[term.resource] = start + length
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel(title_axis("At least", name))


#: The figures of language models by their names.
LANGUAGE_MODEL_KINDS: dict[str, Callable[[Sequence[ReportData]], Any]] = {
    "cache_memory": cache_memory,
    "step_terms": step_terms,
    "tokens_per_second": tokens_per_second,
}


def _list_memory(report: ReportData, longest: int) -> dict[int, int]:
    """Return the bytes that a device keeps of a report between steps, by tokens of context up to the longest."""
    most = min(report.facts.sizes.longest_context or longest, longest)
    batch, memory = report.serving[-1].batch, DeviceMemory(report.cost, 1, 0.0, report.speculation)
    return {
        context: memory.count(batch, context).resident
        for context in sorted({max(most * index // (_POINTS - 1), 1) for index in range(_POINTS)})
    }


def _list_capacities(reports: Sequence[ReportData]) -> dict[str, float]:
    """Return the memory of one device of each report, less the reserve, by the name of the device."""
    memories = {
        f"1 x {report.device.name}": report.fits[0].memory for report in reports if report.device and report.fits
    }
    return {
        name: float(memory.capacity - memory.reserve)
        for name, memory in memories.items()
        if memory.capacity is not None
    }


class _Rates(NamedTuple):
    """The most tokens per second of a step: by all that it takes, by its products alone, and by its bytes alone."""

    step: float
    products: float
    bytes: float


def _compute_rates(report: ReportData, batch: int) -> _Rates:
    """Return the rates of a step in the middle of the generation."""
    speculation = report.speculation
    check, draft, drafted = make_cycle(report.cost, batch, report.prompt + report.new // 2, speculation)
    steps = [check] if draft is None else [check, draft.repeat(drafted)]
    tokens = batch * speculation.count_tokens(drafted)
    durations = ([step.seconds, step.compute_seconds, step.memory_seconds] for step in steps)
    totals = [sum(seconds or 0.0 for seconds in of_steps) for of_steps in zip(*durations, strict=True)]
    if not all(totals):
        raise _make_error("tokens_per_second", report)
    return _Rates(*(tokens / total for total in totals))


def _make_error(kind: str, report: ReportData) -> ValueError:
    return ValueError(f"{kind} of {report.title}: give a device with a peak for the dtype and a bandwidth")


def _finish(figure: Any, axis: Any, what: str, bound: str) -> Any:
    axis.spines[["top", "right"]].set_visible(False)
    if len(axis.get_legend_handles_labels()[0]) <= 2:
        legend_above(axis)
    else:
        axis.legend(fontsize="small", frameon=False)
    axis.set_ylim(bottom=0 if axis.get_yscale() == "linear" else None)
    return finish(figure, (), what, [f"Execution model: engine. {bound}"])
