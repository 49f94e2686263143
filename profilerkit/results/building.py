"""From a profiler's computed statuses to the `Report` that holds them as plain data."""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from ..backend_kit.failures import name_backend
from ..errors import ProfilerKitError
from ..input_shapes import dtype_name
from ..inputs import ModelInputs
from ..models.loaded_files import in_plain_names
from ..piping.input_source import find_batch_size
from ..piping.intrinsic import Inputs, Trace
from ..piping.outcome import Completeness
from ..piping.status import Metric, StatusKey, list_origins
from ..process.environment import machine
from ..times.measurement import Measurement
from ..trace.conditions import write_notes
from ..trace.records import LayerTable, ModelTrace
from .report import Report, StatusRecord

if TYPE_CHECKING:
    from ..backend import Backend

__all__ = ["build_report"]

T = TypeVar("T")


def build_report(
    name: str,
    backend: Backend,
    model: Any,
    statuses: Mapping[str, StatusKey],
    names: Container[str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Report:
    """Return computed statuses of a model as plain data, of the named metrics only if there are names."""
    arguments = arguments or {}
    shown = [
        status for key, status in statuses.items() if (isinstance(status, Metric) if names is None else key in names)
    ]
    records = [StatusRecord.of(status) for status in shown if isinstance(status, Metric)]
    others = [status for status in shown if not isinstance(status, Metric)]
    origins = list({id(origin): origin for status in shown for origin in list_origins(status)}.values())
    inputs = _read_value(_find_origin(Inputs.NAME, origins, statuses), ModelInputs)
    traced = _find_origin(Trace.NAME, origins, statuses)
    trace = _read_value(traced, ModelTrace)
    outcomes = [origin.outcome for origin in origins]
    has_run = any(isinstance(outcome.value, Measurement) or outcome.runs for outcome in outcomes)
    # That of the model, and the others that values were computed from, as of a training step.
    traces = [value for value in (trace, *(outcome.value for outcome in outcomes)) if isinstance(value, ModelTrace)]
    settings = backend.non_default_settings if has_run else ()
    conditions = tuple(dict.fromkeys((*settings, *(text for trace in traces for text in trace.conditions))))
    whole_trace = None if arguments.get("ignore") else traced
    batches = _find_batch_sizes(shown, backend, model, whole_trace)
    notes = [
        *([inputs.note] if inputs is not None and inputs.note else []),
        *write_notes(conditions),
        *_list_notes(traces, others, batches, records),
    ]
    ran = trace if trace is not None and trace.failure is None else None
    report = Report(
        name=name,
        backend=backend.name,
        model_type=in_plain_names(backend.model_type(model)),
        statuses={record.key: record for record in records},
        batch_size=next(iter(batches.values())) if len(set(batches.values())) == 1 else None,
        inputs="" if inputs is None else repr(inputs),
        input_dtypes="" if inputs is None else _list_dtypes(inputs),
        layers=trace.table if trace else None,
        notes=tuple(dict.fromkeys(notes)),
        conditions=conditions,
        environment=_describe_environment(backend, model, arguments.get("device"), has_run),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        data={status.NAME: status.value for status in others if status.value is not None},
        operators=ran.operator_table if ran else None,
        memory=ran.memory if ran else None,
        arguments={key: _shorten(value) for key, value in arguments.items()},
        fingerprint=_make_fingerprint(trace) if trace else "",
    )
    return replace(report, data={key: _add_times(value, report) for key, value in report.data.items()})


# What values were computed from ---------------------------------------------------------------------------------------


def _find_origin(key: str, origins: Iterable[StatusKey], statuses: Mapping[str, StatusKey]) -> StatusKey | None:
    """Return the inputs or the trace that the shown values were computed from; the newest if they have several or none.

    The newest may be of another request, with a batch of another size.
    """
    candidates = [origin for origin in origins if key == origin.NAME]
    return candidates[0] if len(candidates) == 1 else statuses.get(key)


def _read_value(status: StatusKey | None, kind: type[T]) -> T | None:
    """Return the value of a status if it is of this kind, not of its text, which is drawn when it is first read."""
    value = None if status is None else status.outcome.value
    return value if isinstance(value, kind) else None


def _find_batch_sizes(
    shown: Iterable[StatusKey], backend: Backend, model: Any, traced: StatusKey | None
) -> dict[str, int]:
    """Return by status key the batch size of the inputs that its value was computed from, if these tell one.

    Args:
        shown: The statuses of the report.
        backend: The backend of the model.
        model: The model.
        traced: The status of a trace of all layers; where it was made with the inputs, the backend needs no other one.
    """
    sizes: dict[int, int | None] = {}  # most values share their inputs, which are asked once
    batches: dict[str, int] = {}
    for status in shown:
        for origin in list_origins(status):
            if not isinstance(origin, Inputs):
                continue
            if id(origin) not in sizes:
                trace = traced.outcome.value if traced is not None and origin in traced.sources else None
                sizes[id(origin)] = find_batch_size(origin.value, backend, model, trace)
            size = sizes[id(origin)]
            if size is not None:
                batches[status.NAME] = size
    return batches


# Notes ----------------------------------------------------------------------------------------------------------------


def _list_notes(
    traces: Sequence[ModelTrace],
    others: Iterable[StatusKey],
    batches: Mapping[str, int],
    records: Sequence[StatusRecord],
) -> Iterator[str]:
    """Yield the notes of traces and of what is no metric, then those of metrics that are not among them."""
    notes_of_traces = [note for trace in traces for note in (*trace.notes, *trace.contradictions)]
    yield from notes_of_traces
    yield from _explain_gaps(others)
    if len(set(batches.values())) > 1:
        listing = ", ".join(f"{key} of {size}" for key, size in batches.items())
        yield f"values are for batches of different sizes: {listing}"
    yield from _name_metrics((record, record.note) for record in records if record.note not in ("", *notes_of_traces))
    measured = [record for record in records if isinstance(record.value, Measurement)]
    yield from _name_metrics((record, text) for record in measured for text in dict.fromkeys(record.value.warnings))


def _explain_gaps(others: Iterable[StatusKey]) -> Iterator[str]:
    """Yield what values that are no metrics lack; the tables of layers, and their text, say it themselves."""
    for status in others:
        outcome = status.outcome
        if outcome.completeness is not Completeness.COMPLETE and not isinstance(outcome.value, (LayerTable, str)):
            reasons = "; ".join(filter(None, (*outcome.missing, outcome.note)))
            yield f"{status.NAME} {outcome.completeness.value}: {reasons}"


def _name_metrics(texts: Iterable[tuple[StatusRecord, str]]) -> Iterator[str]:
    """Yield each text once, after the names of all metrics that have it."""
    names_by_text: dict[str, list[str]] = {}
    for record, text in texts:
        names_by_text.setdefault(text, []).append(record.friendly_name)
    yield from (f"{', '.join(names)}: {text}" for text, names in names_by_text.items())


# Facts ----------------------------------------------------------------------------------------------------------------


def _describe_environment(backend: Backend, model: Any, device: Any, has_run: bool) -> dict[str, str]:
    """Return the facts of the machine, the versions of the software, and the device if the model was run.

    The name of the host is left out unless ``PROFILERKIT_KEEP_HOST`` is set: reports are shared, and it may say more of
    a company than its owner wants.
    """
    facts = machine()
    if not os.environ.get("PROFILERKIT_KEEP_HOST"):
        del facts["host"]
    with name_backend(backend.name, "environment"):
        environment = {**facts, **backend.environment()}
    if has_run:
        with suppress(ProfilerKitError):  # it is on that device no more
            environment["device"] = backend.resolve_device(model, device)
    return environment


def _add_times(value: Any, report: Report) -> Any:
    """Return the layers with their times beside their counts, joined when first read; any other value as it is."""
    return LayerTable(lambda: report.layerwise) if value is report.layers and value is not None else value


def _list_dtypes(inputs: ModelInputs) -> str:
    """Return the dtypes of inputs by the names that all frameworks have for them, each once."""
    dtypes = [getattr(leaf, "dtype", None) for leaf in inputs.leaves()]
    return ", ".join(dict.fromkeys(dtype_name(dtype) for dtype in dtypes if dtype is not None))


def _make_fingerprint(trace: ModelTrace) -> str:
    """Return what is equal for models of the same layers with weights of the same names, sizes and dtypes."""
    described = []
    for layer in trace.layers:
        weights = [(weight.name, weight.count, weight.dtype) for weight in (*layer.parameters, *layer.buffers)]
        described.append(repr((layer.path, layer.type, weights)))
    return hashlib.sha256("".join(described).encode()).hexdigest()[:16]


def _shorten(value: Any) -> str:
    """Return an argument as short text: an argument may be a tensor or an object of any size."""
    shown = value.value if isinstance(value, Enum) else value
    if isinstance(shown, FunctionType):
        return f"{shown.__module__}.{shown.__qualname__}"
    return shown if isinstance(shown, str) else reprlib.repr(shown)
