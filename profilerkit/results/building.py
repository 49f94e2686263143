"""From a profiler's computed statuses to the `Report` that holds them as plain data."""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from types import FunctionType
from typing import Any, NamedTuple

from ..backend import Backend
from ..backend_kit.failures import name_backend, require_answer
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

__all__ = ["build_report"]


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
    records = {status.NAME: StatusRecord.of(status) for status in shown if isinstance(status, Metric)}
    others = [status for status in shown if not isinstance(status, Metric)]
    origins = _read_origins(shown, statuses, backend)
    inputs, trace = origins.inputs, origins.trace
    completed = trace if trace is not None and trace.failure is None else None
    batches = _find_batch_sizes(shown, origins, backend, model)
    report = Report(
        name=name,
        backend=backend.name,
        model_type=in_plain_names(require_answer(backend.name, "model_type", backend.model_type(model), str)),
        statuses=records,
        batch_size=next(iter(batches.values())) if len(set(batches.values())) == 1 else None,
        inputs="" if inputs is None else repr(inputs),
        input_dtypes="" if inputs is None else _list_dtypes(inputs),
        layers=trace.table if trace else None,
        notes=tuple(dict.fromkeys(_list_notes(origins, others, batches, records.values()))),
        conditions=origins.conditions,
        environment=_describe_environment(backend, model, arguments.get("device"), origins.has_run),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        operators=completed.operator_table if completed else None,
        memory=completed.memory if completed else None,
        arguments={key: _shorten(value) for key, value in arguments.items()},
        fingerprint=_make_fingerprint(trace) if trace else "",
    )
    return replace(report, data=_list_data(others, report)) if others else report


def _list_data(others: Iterable[StatusKey], report: Report) -> dict[str, Any]:
    """Return the values that are no metrics, None for one that failed; the layers get their times when first read."""
    layers = report.layers
    timed = None if layers is None else LayerTable(lambda: report.layerwise)
    return {status.NAME: timed if status.value is layers else status.value for status in others}


# The inputs and traces of values --------------------------------------------------------------------------------------


class _Origins(NamedTuple):
    """What the values of a report were computed from.

    Attributes:
        inputs: The inputs of the model.
        trace: The trace of the model.
        traced_inputs: The statuses of the inputs of this trace.
        traces: All traces, the model's first; another one may be of a training step.
        has_run: Whether the model was run.
        conditions: The caller's settings that change numbers: the framework's, if the model was run, and the traces'.
    """

    inputs: ModelInputs | None
    trace: ModelTrace | None
    traced_inputs: Sequence[StatusKey]
    traces: Sequence[ModelTrace]
    has_run: bool
    conditions: tuple[str, ...]


def _read_origins(shown: Sequence[StatusKey], statuses: Mapping[str, StatusKey], backend: Backend) -> _Origins:
    """Return the origins of the shown statuses among all computed ones."""
    origins = list_origins(*shown)
    inputs, trace = (_find_origin(key, origins, statuses) for key in (Inputs.NAME, Trace.NAME))
    # Read from the outcomes: the value of a text that is drawn when it is first read is its source.
    values = [origin.outcome.value for origin in (*([] if trace is None else [trace]), *origins)]
    traces = [*{id(value): value for value in values if isinstance(value, ModelTrace)}.values()]
    has_run = any(isinstance(value, Measurement) for value in values) or any(origin.outcome.runs for origin in origins)
    settings = backend.non_default_settings if has_run else ()
    return _Origins(
        inputs.value if inputs is not None and isinstance(inputs.value, ModelInputs) else None,
        trace.value if trace is not None and isinstance(trace.value, ModelTrace) else None,
        () if trace is None else trace.sources,
        traces,
        has_run,
        tuple(dict.fromkeys([*settings, *(condition for one in traces for condition in one.conditions)])),
    )


def _find_origin(key: str, origins: Iterable[StatusKey], statuses: Mapping[str, StatusKey]) -> StatusKey | None:
    """Return the inputs or the trace that the shown values were computed from; the newest if they have several or none.

    The newest may be of another request, with a batch of another size.
    """
    candidates = [origin for origin in origins if key == origin.NAME]
    return candidates[0] if len(candidates) == 1 else statuses.get(key)


def _list_dtypes(inputs: ModelInputs) -> str:
    """Return the dtypes of the inputs: "int64, float32"."""
    dtypes = (getattr(leaf, "dtype", None) for leaf in inputs.leaves())
    return ", ".join(dict.fromkeys(dtype_name(dtype) for dtype in dtypes if dtype is not None))


def _find_batch_sizes(shown: Sequence[StatusKey], origins: _Origins, backend: Backend, model: Any) -> dict[str, int]:
    """Return by status key the batch size of the inputs that its value was computed from, if these tell one."""
    trace = None if origins.trace is None or origins.trace.left_out else origins.trace  # a backend needs all layers
    sizes: dict[int, int | None] = {}  # by the id of the inputs' status: many values have the same inputs
    batches: dict[str, int] = {}
    for status in shown:
        for inputs in list_origins(status):
            if not isinstance(inputs, Inputs):
                continue
            if id(inputs) not in sizes:
                trace_of_inputs = trace if inputs in origins.traced_inputs else None
                sizes[id(inputs)] = find_batch_size(inputs.value, backend, model, trace_of_inputs)
            size = sizes[id(inputs)]
            if size is not None:
                batches[status.NAME] = size
    return batches


# Notes ----------------------------------------------------------------------------------------------------------------


def _list_notes(
    origins: _Origins, others: Iterable[StatusKey], batches: Mapping[str, int], records: Collection[StatusRecord]
) -> Iterator[str]:
    """Yield the notes of inputs, of traces and of keys that are no metrics, then further notes of metrics."""
    if origins.inputs is not None and origins.inputs.note:
        yield origins.inputs.note
    yield from write_notes(origins.conditions)
    notes_of_traces = [note for trace in origins.traces for note in (*trace.notes, *trace.contradictions)]
    yield from notes_of_traces
    for status in others:
        yield from _explain_gaps(status)
    if len(set(batches.values())) > 1:
        listing = ", ".join(f"{key} of {size}" for key, size in batches.items())
        yield f"values are for batches of different sizes: {listing}"
    yield from _list_notes_of_metrics(records, notes_of_traces)


def _list_notes_of_metrics(records: Collection[StatusRecord], others: Container[str]) -> Iterator[str]:
    """Yield the notes of metrics that are not among the other ones, then the warnings of measurements.

    Each is there once, behind the names of its metrics.
    """
    names: dict[str, list[str]] = {}
    for record in records:
        if record.note and record.note not in others:
            names.setdefault(record.note, []).append(record.friendly_name)
    for record in records:
        for warning in dict.fromkeys(record.value.warnings if isinstance(record.value, Measurement) else ()):
            names.setdefault(warning, []).append(record.friendly_name)
    yield from (f"{', '.join(metrics)}: {note}" for note, metrics in names.items())


def _explain_gaps(status: StatusKey) -> Sequence[str]:
    """Return the gaps of a value that is no metric; tables of layers, and their text, show their gaps themselves."""
    outcome = status.outcome
    if outcome.completeness is Completeness.COMPLETE or isinstance(outcome.value, (LayerTable, str)):
        return []
    reasons = "; ".join(filter(None, (*outcome.missing, outcome.note)))
    return [f"{status.NAME} {outcome.completeness.value}: {reasons}"]


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
        try:
            resolved = backend.resolve_device(model, device)
        except ProfilerKitError:  # it is on that device no more
            return environment
        environment["device"] = require_answer(backend.name, "resolve_device", resolved, str)
    return environment


def _make_fingerprint(trace: ModelTrace) -> str:
    """Return a text that is equal for models of the same layers with weights of the same names, sizes and dtypes."""
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
