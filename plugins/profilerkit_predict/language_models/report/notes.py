"""Notes on the numbers of language models: notes on all numbers, and on the numbers of one report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from profilerkit.count_text import format_count
from profilerkit.devices import DeviceInfo

from ...checkpoints.formats import list_product_dtypes
from ..engine.fitting import Fit
from ..engine.speculation import Speculation
from .data import ReportData
from .text_table import show_count

#: The assumptions of every predicted time, in words.
ASSUMPTIONS = (
    "times are lower bounds where they are not called estimates: the greatest of products at the dense peak, "
    "compulsory bytes at the bandwidth, and what devices send each other at the rate of their link; no launch, no host",
    "attention of the engine counts as attended: causal, and inside the window; as written it counts in full",
    "no continuous batching: all prompts of a batch start together and have the same length",
)


def general_notes(reports: Sequence[ReportData]) -> Iterable[str]:
    """Yield the notes that hold for all of several reports, or for reports with experts or several devices."""
    yield from ASSUMPTIONS
    if any(report.facts.has_experts for report in reports):
        yield (
            "all tokens of a step choose the same experts in a lower bound; with uniform routing each step reads more "
            "of them (the column beside it), and real routers are between the two"
        )
    if any(report.cost.devices > 1 for report in reports):
        yield (
            "devices that cut layers between them (tp) have one head of keys and values at least, and latents whole, "
            "with the matrices that make them; of stages (pp) the fullest has whole layers, equally large but for "
            "experts; work is divided evenly"
        )


def report_notes(report: ReportData) -> Iterable[str]:
    """Yield further notes on the numbers of one report."""
    yield from report.facts.notes
    if not report.cost.inputs:
        yield from report.facts.notes_on_text
    yield from _list_missing_links(report)
    if report.device is not None:
        yield from _list_device_notes(report, report.device)
    yield from _list_option_notes(report)
    if report.measured is not None:
        tokens = report.measured
        repetitions, length = format_count(len(tokens.runs), "repetition"), format_count(len(tokens.runs[0]), "token")
        yield f"measured on {tokens.device} in {tokens.dtype}, batch {tokens.batch}, {repetitions} of {length}"


def _list_missing_links(report: ReportData) -> Iterable[str]:
    """Yield the reason if the times lack the communication between several devices."""
    if report.cost.devices == 1:
        return
    sizes = report.facts.sizes
    if report.device is None or not report.device.link:
        yield "what devices send each other is not in the times: the rate of the link between them is not known"
    elif sizes.width is None or sizes.layers is None:
        yield (
            "what devices send each other is not in the times: the features of a token, or the number of layers, are "
            "not known"
        )


def _list_device_notes(report: ReportData, device: DeviceInfo) -> Iterable[str]:
    """Yield whether times are bounds or estimates, which batches do not fit, and which peaks are not known."""
    yield report.reason_without_estimates or (
        "estimates are by the device's calibration: products by their shapes, fused attention, traffic after fusion; "
        "no time of the host, as of captured graphs; an interval is made to hold nine of ten networks like those of "
        "the calibration"
    )
    if report.facts.dtype == "float32":
        what = "activations" if report.cost.cache_format else "activations and cache"
        yield f"{what} count in float32; engines serve most models in 16 bits: dtype='bf16' (--dtype bf16)"
    yield from (_describe_misfit(fit, report.cost.devices) for fit in report.fits if not fit.memory.fits)
    if report.serving[0].time_to_first_token is None:
        yield f"{device.name} has no peak for {report.cost.peak_dtype} or no bandwidth: no times follow"
    missing: dict[str, None] = {}
    for name in report.cost.product_formats:
        # The fastest dtype comes first: dtypes behind one with a peak change nothing.
        missing |= dict.fromkeys(takewhile(lambda dtype: device.peak(dtype) is None, list_product_dtypes(name)))
    if missing:
        yield (
            f"no peak of {device.name} is known for {', '.join(missing)}, in which an engine may multiply these "
            "weights where the device can: then products take less time than this bound says"
        )


def _describe_misfit(fit: Fit, devices: int) -> str:
    """Return that a batch does not fit on so many devices, and on how many it would."""
    needed = "nor on any number of them: its times are those of a device with memory enough"
    if fit.needed_devices is not None:
        needed = (
            f"and needs {fit.needed_devices}: its times are those of a device with memory enough; give "
            f"parallel='{fit.needed_layout}' (--parallel) for the bounds of so many"
        )
    return f"batch {fit.batch} does not fit on {format_count(devices, 'device')}, {needed}"


def _list_option_notes(report: ReportData) -> Iterable[str]:
    """Yield notes on the requested options beside prompts and new tokens."""
    if report.cost.shared_prefix:
        yield f"the first {report.cost.shared_prefix:,} tokens of all prompts are the same, and in the cache already"
    if report.cost.adapters is not None:
        yield (
            "each sequence uses an adapter, and those of a step as many different ones as they can; where fewer are "
            "used, or one is merged into the weights, a step may take less"
        )
        if report.cost.layout.tensor > 1:
            yield (
                "both matrices of an adapter count as cut over the devices of a layer: one that engines leave whole by "
                "default, as vLLM does without fully_sharded_loras, takes more memory and more of a step"
            )
    if report.cost.inputs:
        kinds = " and ".join(inputs.encoder.kind for inputs in report.cost.inputs)
        yield (
            f"a prefill runs the encoder of {kinds}, on the same devices: what is encoded elsewhere, or was encoded "
            "before, may take less"
        )
        yield from (note for inputs in report.cost.inputs for note in inputs.encoder.notes)
    yield from _list_engine_notes(report)
    if report.speculation.draft_tokens:
        yield from _list_speculation_notes(report.speculation)
    if report.arrivals is not None:
        yield (
            "requests at a rate run one prompt after the other, and wait for no step that decodes: an engine that runs "
            "short prompts together, or chunks of prompts in steps that decode, may serve more"
        )
    elif report.rate is not None:
        yield (
            f"nothing follows for {report.rate:g} requests/s: give a device (--device) with the figures that times "
            "follow from"
        )


def _list_engine_notes(report: ReportData) -> Iterable[str]:
    """Yield the rules of the named engine that the numbers follow, and their sources."""
    rule = report.cost.engine
    if rule.name is None:
        return
    defaults = "the block size is that" if rule.reserve is None else "the block size and the reserve are those"
    yield f"{defaults} of {rule.name} where not given; its rules were read from {', '.join(rule.sources)}"
    windows = [part for part in report.facts.cache.parts if part.window is not None]
    if windows and rule.window_shares is not None:
        share = rule.window_shares.get(report.facts.architecture)
        kept = "all tokens" if share is None else f"{share:g} times the tokens of a layer without, divided beforehand"
        yield f"{rule.name} keeps in layers with a window {kept}"
    elif not all(part.is_chunked for part in windows):
        yield (
            f"{rule.name}: a window takes a block more than its tokens fill, as it begins inside a block, and whole "
            "blocks are freed"
        )


def _list_speculation_notes(speculation: Speculation) -> Iterable[str]:
    """Yield the assumptions about speculation and about its drafter."""
    drafter = speculation.drafter
    yield (
        f"speculation: each step checks {speculation.draft_tokens} drafted tokens, of which each is accepted with "
        f"{speculation.acceptance:g} where all before it were, and makes {speculation.tokens_per_step:.3g} tokens on "
        "average; times of a token are those of a step over that number"
    )
    if drafter is None:
        yield "what drafts them is counted nowhere: neither its time nor its memory"
    else:
        turns = "" if speculation.drafters == 1 else f" and {speculation.drafters - 1} more like it in turn"
        yield (
            f"they are drafted one after the other by {drafter.facts.name}, {show_count(drafter.facts.parameters)} "
            f"parameters{turns}, on the same devices; a time of a token has that of drafting, and memory its weights "
            "and cache; what drafts elsewhere, or while other tokens are checked, may take less"
        )
        yield from drafter.facts.notes
