"""The report of a language model as JSON holds it: plain values in base units."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...prediction.calibration import Corrected
from ..engine.fitting import Fit
from ..engine.serving import Serving
from ..engine.speculation import Speculation
from ..engine.step import Step
from ..facts.records import GeneratedTokens
from .data import ReportData
from .notes import general_notes, report_notes

#: The properties that are written of the contents of a cache, of an encoder, and of a step besides its fields.
_OF_CACHES = ("context", "batch", "logical_bytes", "allocated_bytes")
_OF_ENCODERS = ("kind", "size", "tokens", "macs")
_OF_STEPS = ("bytes", "compute_seconds", "memory_seconds", "link_seconds", "seconds", "bound_by")


def write_report(report: ReportData) -> dict[str, Any]:
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
            "prefill": facts.traced and asdict(facts.traced.prefill),
            "decode": facts.traced and asdict(facts.traced.decode),
            "cache": [{name: getattr(contents, name) for name in _OF_CACHES} for contents in facts.cache.contents],
        },
        "engine": _write_engine(report),
        "measured": report.measured and _write_measured(report, report.measured),
        "notes": list(report_notes(report)),
    }


def _write_engine(report: ReportData) -> dict[str, Any]:
    cost = report.cost
    return {
        "device": report.device and report.device.name,
        "tier": report.device and report.device.tier,
        "devices": cost.devices,
        "layout": str(cost.layout),
        "name": cost.engine.name,
        "block_size": cost.block_size,
        "rate": report.rate,
        "arrivals": report.arrivals and asdict(report.arrivals),
        "inputs": [
            {name: getattr(encoder, name) for name in _OF_ENCODERS} | {"count": number, "notes": list(encoder.notes)}
            for encoder, number in cost.inputs
        ],
        "shared_prefix": cost.shared_prefix,
        "adapters": cost.adapters and asdict(cost.adapters) | {"parameters": cost.adapters.parameters},
        "cache_dtype": cost.cache_format.name if cost.cache_format else cost.facts.dtype,
        "speculation": _write_speculation(report.speculation) if report.speculation.draft_tokens else None,
        "assumptions": list(general_notes([report])),
        "serving": [_write_serving(serving) for serving in report.serving],
        "estimates": report.reason_without_estimates or "by a calibration",
        "fits": [_write_fit(fit) for fit in report.fits],
    }


def _write_serving(serving: Serving) -> dict[str, Any]:
    values = asdict(serving)
    for name in ("prefill", "decode", "draft"):
        step: Step | None = getattr(serving, name)
        if step is not None:
            values[name] |= {key: getattr(step, key) for key in _OF_STEPS}
    for name in ("first_token", "per_token", "rate"):
        estimate: Corrected | None = getattr(serving, name)
        values[name] = estimate and estimate._asdict()
    return values


def _write_fit(fit: Fit) -> dict[str, Any]:
    values = asdict(fit)
    values["memory"] |= {"total": fit.memory.total, "fits": fit.memory.fits}
    return values


def _write_speculation(speculation: Speculation) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: getattr(speculation, name) for name in ("draft_tokens", "acceptance", "tokens_per_step")
    }
    if speculation.drafter is None:
        return values | {"drafter": None}
    facts = speculation.drafter.facts
    drafter = {"name": facts.name, "parameters": facts.parameters, "count": speculation.drafters}
    return values | {"drafter": drafter}


def _write_measured(report: ReportData, tokens: GeneratedTokens) -> dict[str, Any]:
    """Return the measured times, and the prediction of the same code if it has the same batch and prompt."""
    first, later = tokens.time_to_first_token, tokens.time_per_output_token
    both, predicted = report.predict_measured(), None
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
