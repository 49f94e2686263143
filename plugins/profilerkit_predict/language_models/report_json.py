"""The report of a language model as JSON holds it: plain values in base units."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .notes import general_notes, report_notes
from .report_tables import is_traced_pass

if TYPE_CHECKING:
    from .fitting import Fit
    from .records import GeneratedTokens, PassCounts
    from .report import LanguageModelReport
    from .serving import Serving
    from .speculation import Speculation
    from .steps import Step

__all__ = ["write_report"]


def write_report(report: LanguageModelReport) -> dict[str, Any]:
    """Return all of a report as values that JSON can hold, in base units: counts, bytes, seconds."""
    facts = report.facts
    return {
        "kind": "language model",
        "name": report.name,
        "parameters": facts.parameters,
        "dtype": facts.dtype,
        "weights": report.weights,
        "weight_parts": [asdict(part) for part in facts.weights],
        "longest_context": facts.sizes.longest_context,
        "prompt": report.prompt,
        "new": report.new,
        "as_written": {
            "execution": asdict(facts.execution),
            "prefill": None if facts.traced is None else _write_counts(facts.traced.prefill),
            "decode": None if facts.traced is None else _write_counts(facts.traced.decode),
            "cache": [
                {
                    "context": contents.context,
                    "batch": contents.batch,
                    "logical_bytes": contents.logical_bytes,
                    "allocated_bytes": contents.allocated_bytes,
                }
                for contents in facts.cache.contents
            ],
        },
        "engine": {
            "device": report.device.name if report.device else None,
            "tier": report.device.tier if report.device else None,
            "devices": report.cost.devices,
            "layout": str(report.cost.layout),
            "name": report.cost.engine.name,
            "block_size": report.cost.block_size,
            "rate": report.rate,
            "inputs": [
                {
                    "kind": encoder.kind,
                    "count": number,
                    "size": encoder.size,
                    "tokens": encoder.tokens,
                    "macs": encoder.macs,
                    "notes": list(encoder.notes),
                }
                for encoder, number in report.cost.inputs
            ],
            "shared_prefix": report.cost.shared_prefix,
            "adapters": None
            if report.cost.adapters is None
            else asdict(report.cost.adapters) | {"parameters": report.cost.adapters.parameters},
            "cache_dtype": report.cost.cache_format.name if report.cost.cache_format else report.facts.dtype,
            "speculation": None if report.speculation is None else _write_speculation(report.speculation),
            "assumptions": list(general_notes([report])),
            "serving": [_write_serving(serving) for serving in report.serving],
            "estimates": report.reason_without_estimates or "by a calibration",
            "fits": [_write_fit(fit) for fit in report.fits],
        },
        "measured": None if report.measured is None else _write_measured(report, report.measured),
        "notes": list(report_notes(report)),
    }


def _write_counts(counts: PassCounts) -> dict[str, Any]:
    return asdict(counts) | {"uncounted": dict(counts.uncounted)}


#: What a step tells besides its fields.
_OF_STEPS = ("bytes", "compute_seconds", "memory_seconds", "link_seconds", "seconds", "bound_by")


def _write_serving(serving: Serving) -> dict[str, Any]:
    values = asdict(serving)
    for name in ("prefill", "decode", "draft"):
        step: Step | None = getattr(serving, name)
        if step is not None:
            values[name] |= {key: getattr(step, key) for key in _OF_STEPS}
    return values


def _write_fit(fit: Fit) -> dict[str, Any]:
    values = asdict(fit)
    values["memory"] |= {"total": fit.memory.total, "fits": fit.memory.fits}
    return values


def _write_speculation(speculation: Speculation) -> dict[str, Any]:
    drafter = speculation.drafter
    return {
        "draft_tokens": speculation.draft_tokens,
        "acceptance": speculation.acceptance,
        "tokens_per_step": speculation.tokens_per_step,
        "drafter": None
        if drafter is None
        else {"name": drafter.facts.name, "parameters": drafter.facts.parameters, "count": speculation.drafters},
    }


def _write_measured(report: LanguageModelReport, tokens: GeneratedTokens) -> dict[str, Any]:
    """Return what was measured, and the prediction of the same code where it is of the same batch and prompt."""
    first, later = tokens.time_to_first_token, tokens.time_per_output_token
    both = report.as_written() if is_traced_pass(report) else None
    predicted = None
    if both is not None:
        names = ("estimate", "low", "high", "tier")
        of_first, of_later = ({name: getattr(prediction, name) for name in names} for prediction in both)
        predicted = {"time_to_first_token": of_first, "time_per_output_token": of_later}
    return {
        **{name: getattr(tokens, name) for name in ("prompt", "batch", "device", "dtype", "cache_bytes")},
        "seconds_of_tokens": [list(run) for run in tokens.runs],
        "time_to_first_token": {"median": first.median, "interval": list(first.interval)},
        "time_per_output_token": {"median": later.median, "interval": list(later.interval)},
        "environment": dict(tokens.environment),
        "predicted_as_written": predicted,
    }
