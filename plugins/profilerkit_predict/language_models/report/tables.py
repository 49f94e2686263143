"""The tables of one report: the answers, times and memory, the model, and the measured generation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from profilerkit.devices import DeviceInfo
from profilerkit.times.measurement import Measurement

from ...prediction import Prediction
from ...prediction.calibration import Corrected
from ..engine.adapters import Adapters
from ..engine.fitting import Fit
from ..engine.queueing import Arrivals
from ..engine.serving import Serving
from ..engine.step import Resource, Step, StepTerm
from ..facts.model_cache import CacheLayer, find_layer
from ..facts.records import GeneratedTokens
from .data import ReportData
from .text_table import (
    PAIRS,
    Column,
    TextTable,
    join_columns,
    show_bytes,
    show_count,
    show_most,
    show_rate,
    show_seconds,
)

#: The purposes of memory, by the names of `Memory`.
_USES = ("weights", "adapters", "drafter", "cache", "activations", "reserve")


def list_tables(report: ReportData) -> Iterator[TextTable]:
    """Yield the tables of one report."""
    if report.device is not None:
        yield TextTable("Answer", PAIRS, list(list_answers(report, report.device)))
    yield _tabulate_serving(report)
    if report.serving[0].first_token is not None:
        yield _tabulate_estimates(report)
    if report.fits:
        yield _tabulate_memory(report)
        yield _tabulate_fits(report)
    yield tabulate_terms(report)
    yield from _list_queues(report)
    yield TextTable("Model", PAIRS, list(_list_model_rows(report)))
    yield from _list_passes(report)
    if report.measured is not None:
        yield _tabulate_measured(report, report.measured)


# The answers ----------------------------------------------------------------------------------------------------------


def list_answers(report: ReportData, device: DeviceInfo) -> Iterable[tuple[str, str]]:
    """Yield whether the model fits on a device, for how many users, its speed and its limits."""
    if report.fits:
        yield from _list_memory_answers(report, report.fits[-1])
    elif device.memory is None:
        yield "fits", f"not known: the memory of {device.name} is not known"
    yield "formats", describe_formats(report)
    fastest, most = report.serving[0], report.serving[-1]
    if fastest.time_to_first_token is None:
        return
    first = f"at least {show_seconds(fastest.time_to_first_token)}, batch {fastest.batch:,}"
    of_all = f"; {show_seconds(most.time_to_first_token)} for all of {most.batch:,} prompts"
    yield "first token", first if most == fastest else first + of_all
    if fastest.time_per_output_token and most.decode_tokens_per_second:
        later = f"at most {show_rate(1 / fastest.time_per_output_token)} tokens/s a user, batch {fastest.batch:,}"
        of_all = f"; {show_rate(most.decode_tokens_per_second)} for all of batch {most.batch:,}"
        yield "later tokens", later if most == fastest else later + of_all
    limits = f"first token: {_name_limit(fastest.prefill)}"
    yield "limited by", f"{limits}; later: {_name_limit(fastest.decode)}" if report.new > 1 else limits


def _list_memory_answers(report: ReportData, fit: Fit) -> Iterable[tuple[str, str]]:
    """Yield whether a batch fits, and for how many users."""
    memory, devices = fit.memory, report.cost.devices
    needed = "on no number of devices" if fit.needed_devices is None else f"needs {fit.needed_devices:,} devices"
    verdict = "yes" if memory.fits else f"no, {needed}"
    taken = f"batch {fit.batch:,} takes {show_bytes(memory.total)} of {show_bytes(memory.capacity)}"
    yield "fits", f"{verdict}: {taken}{f' on each of {devices}' if devices > 1 else ''}, with reserve"
    users = f"{show_most(fit.largest_batch)} users" if fit.largest_batch else "not one user"
    yield "users", f"{users} with {report.prompt + report.new:,} tokens each at the same time"


def describe_formats(report: ReportData) -> str:
    """Return the formats of weights, activations and cache."""
    stored, dtype = report.cost.cache_format, report.facts.dtype
    others = f"activations and cache {dtype}" if stored is None else f"activations {dtype}, cache {stored.name}"
    return f"weights {report.weights}, {others}"


def _name_limit(step: Step) -> str:
    """Return the resource that binds a step, with the largest of its terms and the share of the term."""
    terms = [term for term in step.terms if term.resource is step.bound_by and term.seconds]
    if len(terms) < 2:
        return str(step.bound_by)
    largest = max(terms, key=lambda term: term.seconds or 0.0)
    share = (largest.seconds or 0.0) / sum(term.seconds or 0.0 for term in terms)
    return f"{step.bound_by} ({largest.name} {100 * share:.0f} %)"


# Times and memory by batch size ---------------------------------------------------------------------------------------


def _tabulate_serving(report: ReportData) -> TextTable:
    """Return the bounds for each batch size, and the resources that bind the first and the last step."""
    steps = [
        (serving.prefill, serving.decode)[: report.new] for serving in report.serving
    ]  # one token has no later one
    bounds = [" / ".join(step.bound_by for step in both if step.bound_by) or "-" for both in steps]
    columns = [
        *list_serving_columns(report.serving, report.facts.has_experts),
        Column("cache", [show_bytes(serving.cache_bytes) for serving in report.serving]),
        Column("bound by", bounds),
    ]
    return join_columns("Engine", columns, _describe_engine(report))


def list_serving_columns(servings: Sequence[Serving], has_experts: bool) -> list[Column]:
    """Return the columns of batch sizes and their bounds; with experts also for tokens that choose them at random."""
    uniform = Column("uniform routing", [show_seconds(serving.uniform_time_per_output_token) for serving in servings])
    return [
        Column("batch", [f"{serving.batch:,}" for serving in servings]),
        Column("first token", [show_seconds(serving.time_to_first_token) for serving in servings]),
        Column("per token", [show_seconds(serving.time_per_output_token) for serving in servings]),
        *([uniform] if has_experts else []),
        Column("tokens/s", [show_rate(serving.tokens_per_second) for serving in servings]),
    ]


def _describe_engine(report: ReportData) -> str:
    device = report.device
    layout = f", {report.cost.layout}" if report.cost.devices > 1 else ""
    on = f"{report.cost.devices} x {device.name} ({device.tier}){layout}" if device else "no device: counts alone"
    encoded = "".join(f", {inputs.tokens:,} of {inputs.encoder.kind}," for inputs in report.cost.inputs)
    return f"{report.prompt:,} tokens of prompt{encoded} and {report.new:,} new: {on}"


def _tabulate_estimates(report: ReportData) -> TextTable:
    headings = ("batch", "first token", "between", "per token", "between", "tokens/s", "between")
    rows = [
        (
            f"{serving.batch:,}",
            *_write_estimate(serving.first_token, show_seconds),
            *_write_estimate(serving.per_token, show_seconds),
            *_write_estimate(serving.rate, show_rate),
        )
        for serving in report.serving
    ]
    return TextTable("Estimates", headings, rows, "engine, calibrated")


def _write_estimate(estimate: Corrected | None, show: Callable[[float | None], str]) -> tuple[str, str]:
    """Return an estimate and its interval."""
    if estimate is None:
        return "-", "-"
    return show(estimate.estimate), f"{show(estimate.low)} to {show(estimate.high)}"


def _tabulate_memory(report: ReportData) -> TextTable:
    """Return the memory of a device, with a column for each use of it that any batch size has."""
    uses = [*(name for name in _USES if any(getattr(fit.memory, name) != 0 for fit in report.fits)), "total"]
    rows = [
        (
            f"{fit.batch:,}",
            *(show_bytes(getattr(fit.memory, name)) for name in uses),
            "yes" if fit.memory.fits else "no",
        )
        for fit in report.fits
    ]
    return TextTable("Memory of one device", ("batch", *uses, "fits"), rows)


def _tabulate_fits(report: ReportData) -> TextTable:
    headings = ("batch", "longest context", "largest batch", "devices needed")
    rows = [
        (
            f"{fit.batch:,}",
            f"{fit.longest_context:,} (model)" if fit.is_models_maximum else show_most(fit.longest_context),
            show_most(fit.largest_batch),
            "never" if fit.needed_devices is None else f"{fit.needed_devices:,}",
        )
        for fit in report.fits
    ]
    return TextTable("What fits", headings, rows)


# The terms of a step --------------------------------------------------------------------------------------------------


def list_steps(report: ReportData) -> dict[str, Step]:
    """Return the steps of the largest batch by name: the prefill, the last step, and the drafting for the last step."""
    row = report.serving[-1]
    steps = {"first token": row.prefill}
    if report.new > 1:
        steps["last token"] = row.decode
    if row.draft is not None:
        drafted = report.speculation.count_drafted(report.prompt + report.new - 2, report.facts.sizes.longest_context)
        steps[f"{drafted} drafted"] = row.draft.repeat(drafted)
    return steps


def tabulate_terms(report: ReportData) -> TextTable:
    """Return a row for each term of the steps; of all resources the slowest binds."""
    steps = list_steps(report)
    terms = [{term.name: term for term in step.terms} for step in steps.values()]
    names = dict.fromkeys(name for of_step in terms for name in of_step)
    rows = [(name, *(cell for of_step in terms for cell in _write_term(of_step.get(name)))) for name in names]
    headings = ("", *(title for step in steps for title in (step, "takes")))
    return TextTable("Where a step goes", headings, rows, f"batch {report.serving[-1].batch:,}, on each device")


def _write_term(term: StepTerm | None) -> tuple[str, str]:
    if term is None:
        return "-", "-"
    amount = f"{show_count(term.amount)} MACs" if term.resource is Resource.COMPUTE else show_bytes(term.amount)
    return amount, show_seconds(term.seconds)


# Prompts that wait ----------------------------------------------------------------------------------------------------


def _list_queues(report: ReportData) -> Iterator[TextTable]:
    """Yield the table of prompts that arrive at once, and the table of requests at a rate."""
    bursts = [(row.batch, row.burst) for row in report.serving if row.burst is not None and row.batch > 1]
    if bursts:
        rows = [(f"{batch:,}", *map(show_seconds, (burst.first, burst.mean, burst.last))) for batch, burst in bursts]
        detail = "run in order: seconds until the first token"
        yield TextTable("Prompts that arrive at once", ("batch", "first", "mean", "last"), rows, detail)
    if report.arrivals is not None:
        title = f"{report.arrivals.rate:,g} requests/s that arrive at random"
        yield TextTable(title, PAIRS, list(_list_arrival_rows(report.arrivals)))


def _list_arrival_rows(arrivals: Arrivals) -> Iterable[tuple[str, str]]:
    share = f"take {100 * arrivals.load:.3g} % of the time"
    yield "prompts", share if arrivals.load <= 1 else f"need {arrivals.load:,.3g} times the time that there is"
    if arrivals.first_token is None:
        yield "first token", "the queue grows without end"
    else:
        wait = show_seconds(arrivals.wait)
        yield "first token", f"at least {show_seconds(arrivals.first_token)}, of which a prompt waits {wait}"


# The model ------------------------------------------------------------------------------------------------------------


def _list_model_rows(report: ReportData) -> Iterator[tuple[str, str]]:
    facts, longest = report.facts, report.facts.sizes.longest_context
    yield "name", report.name
    yield "parameters", show_count(facts.parameters)
    yield "formats", describe_formats(report)
    yield "longest context", "no maximum" if longest is None else f"{longest:,}"
    yield ("code" if facts.traced else "read from"), str(facts.execution)
    for encoder, count in report.cost.inputs:
        yield str(encoder.kind), f"{count:,} of {encoder.size}, each {encoder.tokens:,} tokens"
        yield "their encoder", f"{show_count(encoder.macs)} MACs for each"
    if report.cost.adapters is not None:
        yield from _list_adapter_rows(report.cost.adapters)
    of_token = report.cost.cache.bytes_per_token
    yield "cache of a token", f"{of_token:,.0f} B" if of_token else "none"
    yield from _list_cache_rows(facts.cache.parts)


def _list_adapter_rows(adapters: Adapters) -> Iterator[tuple[str, str]]:
    yield "adapters", f"{adapters.count:,} of rank {adapters.rank}, {show_count(adapters.parameters)} parameters each"
    yield "", f"beside {', '.join(dict.fromkeys(matrix.name for matrix in adapters.matrices))}"


def _list_cache_rows(parts: Sequence[CacheLayer]) -> Iterator[tuple[str, str]]:
    """Yield the bytes of a cache that do not depend on its length, and how many of its layers have windows."""
    constant = sum(part.constant_bytes for part in parts)
    if constant:
        yield "cache of a sequence", f"{constant:,} B whatever its length"
    limited = [part for part in parts if part.window]
    if limited:
        sizes = ", ".join(f"{window:,}" for window in sorted({part.window for part in parts if part.window}))
        layers = f"{_count_layers(limited)} of {_count_layers(parts)} layers"
        yield "chunks" if any(part.is_chunked for part in limited) else "windows", f"{layers}: {sizes} tokens"


def _count_layers(parts: Iterable[CacheLayer]) -> int:
    return len({find_layer(part.path) for part in parts})


def _list_passes(report: ReportData) -> Iterator[TextTable]:
    """Yield the table of the passes that were traced, if any were."""
    if report.facts.traced is None:
        return
    first, second = report.facts.traced.prefill, report.facts.traced.decode
    rows = [
        ("new tokens", f"{first.new_tokens:,}", f"{second.new_tokens:,}"),
        ("in the cache before", f"{first.cached_tokens:,}", f"{second.cached_tokens:,}"),
        ("MACs, attention in full", f"{first.macs:,}", f"{second.macs:,}"),
        ("FLOPs", f"{first.flops:,}", f"{second.flops:,}"),
        ("operators", f"{first.operators:,}", f"{second.operators:,}"),
    ]
    yield TextTable("Passes as written", ("", "prefill", "decode"), rows)


# A measured generation ------------------------------------------------------------------------------------------------


def _tabulate_measured(report: ReportData, tokens: GeneratedTokens) -> TextTable:
    """Return the measured times beside the prediction for the code as written, and the bounds of the engine."""
    first, later = report.predict_measured() or (None, None)
    bounds = {serving.batch: (serving.time_to_first_token, serving.time_per_output_token) for serving in report.serving}
    bound_of_first, bound_of_later = bounds.get(tokens.batch, (None, None))
    rows = [
        _write_measured_row("first token", tokens.time_to_first_token, first, bound_of_first),
        _write_measured_row("per token", tokens.time_per_output_token, later, bound_of_later),
    ]
    headings = ("", "median", "interval", "as written, predicted", "between", "engine, at least")
    return TextTable("Measured", headings, rows)


def _write_measured_row(
    title: str, measured: Measurement, predicted: Prediction | None, bound: float | None
) -> tuple[str, ...]:
    low, high = measured.interval
    estimate, between = "-", "-"
    if predicted is not None:
        estimate = show_seconds(predicted.estimate)
        between = f"at least {show_seconds(predicted.low)}"
        if predicted.high is not None:
            between = f"{show_seconds(predicted.low)} to {show_seconds(predicted.high)}"
    ends = f"{show_seconds(low)} to {show_seconds(high)}"
    return title, show_seconds(measured.median), ends, estimate, between, show_seconds(bound)
