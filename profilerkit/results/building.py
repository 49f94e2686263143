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
from typing import TYPE_CHECKING, Any

from ..errors import ProfilerKitError
from ..input_shapes import dtype_name
from ..inputs import ModelInputs
from ..piping.input_source import find_batch_size
from ..piping.intrinsic import Inputs, Trace
from ..piping.status import Metric, StatusKey, list_origins
from ..plugging.loaded_files import in_plain_names
from ..process.environment import machine
from ..times.measurement import Measurement
from ..trace.conditions import write_notes
from ..trace.records import LayerTable, ModelTrace
from .report import Report, StatusRecord

if TYPE_CHECKING:
    from ..backend import Backend

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
    inputs, trace = (statuses[key].value if key in statuses else None for key in (Inputs.NAME, Trace.NAME))
    metrics = [status for status in statuses.values() if isinstance(status, Metric)]
    records = [StatusRecord.of(metric) for metric in metrics if names is None or metric.NAME in names]
    # A trace without the layers that are ignored says less of samples.
    traced = None if (arguments or {}).get("ignore") else statuses.get(Trace.NAME)
    batches = _find_batch_sizes(metrics, backend, model, traced)
    requested = [status for key, status in statuses.items() if names is not None and key in names]
    data = {status.NAME: status for status in requested if not isinstance(status, Metric)}
    ran = trace if trace is not None and trace.failure is None else None
    has_run = any(map(_is_measured, statuses.values()))
    environment = {**_machine(), **backend.environment()}
    if has_run:
        environment |= _find_device(backend, model, (arguments or {}).get("device"))
    settings = backend.non_default_settings if has_run else ()
    shown = requested if names is not None else statuses.values()
    values = [origin.outcome.value for status in shown for origin in list_origins(status)]
    traces = [value for value in (trace, *values) if isinstance(value, ModelTrace)]
    conditions = tuple(dict.fromkeys((*settings, *(words for one_trace in traces for words in one_trace.conditions))))
    inputs_note = inputs.note if isinstance(inputs, ModelInputs) else ""
    notes = (*filter(None, [inputs_note]), *write_notes(conditions), *_notes(traces, records, data, batches))
    report = Report(
        name=name,
        backend=backend.name,
        model_type=in_plain_names(backend.model_type(model)),
        statuses={record.key: record for record in records},
        batch_size=next(iter(batches.values())) if len(set(batches.values())) == 1 else None,
        inputs=repr(inputs) if isinstance(inputs, ModelInputs) else "",
        input_dtypes=_dtypes(inputs) if isinstance(inputs, ModelInputs) else "",
        layers=trace.table if trace else None,
        notes=tuple(dict.fromkeys(notes)),
        conditions=conditions,
        environment=environment,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        data={key: status.value for key, status in data.items() if status.value is not None},
        operators=ran.operator_table if ran else None,
        memory=ran.memory if ran else None,
        arguments={key: _brief(value) for key, value in (arguments or {}).items()},
        fingerprint=_fingerprint(trace) if trace else "",
    )
    return replace(report, data={key: _with_times(value, report) for key, value in report.data.items()})


def _is_measured(status: StatusKey) -> bool:
    # Not its value: that of some is a text, drawn when it is first read.
    return isinstance(status.outcome.value, Measurement) or bool(status.outcome.runs)


def _machine() -> dict[str, str]:
    """Return the facts of this machine, without the name of the host unless ``PROFILERKIT_KEEP_HOST`` is set.

    Reports are shared, and a host's name may say more of a company than its owner wants.
    """
    facts = machine()
    if not os.environ.get("PROFILERKIT_KEEP_HOST"):
        del facts["host"]
    return facts


def _find_device(backend: Backend, model: Any, requested: Any) -> dict[str, str]:
    """Return on which device a model has run, in the words of its framework; nothing where it is there no more."""
    with suppress(ProfilerKitError):
        return {"device": backend.resolve_device(model, requested)}
    return {}


def _with_times(value: Any, report: Report) -> Any:
    """Return the layers with their times beside their counts, joined when first read; any other value as it is."""
    return LayerTable(lambda: report.layerwise) if value is report.layers and value is not None else value


def _notes(
    traces: Sequence[ModelTrace],
    records: Sequence[StatusRecord],
    data: Mapping[str, StatusKey],
    batches: Mapping[str, int],
) -> Iterator[str]:
    """Yield the notes on the traces that values are from, then those on single values that are not among them."""
    of_all = [note for trace in traces for note in (*trace.notes, *trace.contradictions)]
    yield from of_all
    yield from (f"{key} {reason}" for key, status in data.items() for reason in _without_value(status))
    if len(set(batches.values())) > 1:
        listing = ", ".join(f"{key} of {size}" for key, size in batches.items())
        yield f"values are for batches of different sizes: {listing}"
    for note in dict.fromkeys(record.note for record in records if record.note and record.note not in of_all):
        noted = ", ".join(record.friendly_name for record in records if record.note == note)
        yield f"{noted}: {note}"
    warned = {
        record.friendly_name: record.value.warnings for record in records if isinstance(record.value, Measurement)
    }
    for warning in dict.fromkeys(warning for warnings in warned.values() for warning in warnings):
        yield f"{', '.join(name for name, warnings in warned.items() if warning in warnings)}: {warning}"


def _dtypes(inputs: ModelInputs) -> str:
    """Return the dtypes of inputs by the names that all frameworks have for them, each once."""
    dtypes = [getattr(leaf, "dtype", None) for leaf in inputs.leaves()]
    return ", ".join(dict.fromkeys(dtype_name(dtype) for dtype in dtypes if dtype is not None))


def _fingerprint(trace: ModelTrace) -> str:
    """Return what is equal for models of the same layers with weights of the same names, sizes and dtypes."""
    described = []
    for layer in trace.layers:
        weights = [(weight.name, weight.count, weight.dtype) for weight in (*layer.parameters, *layer.buffers)]
        described.append(repr((layer.path, layer.type, weights)))
    return hashlib.sha256("".join(described).encode()).hexdigest()[:16]


def _brief(value: Any) -> str:
    """Return an argument as short text: an argument may be a tensor or an object of any size."""
    shown = value.value if isinstance(value, Enum) else value
    if isinstance(shown, FunctionType):
        return f"{shown.__module__}.{shown.__qualname__}"
    return shown if isinstance(shown, str) else reprlib.repr(shown)


def _without_value(status: StatusKey) -> Iterator[str]:
    outcome = status.outcome
    if outcome.value is None:
        yield f"{outcome.completeness.value}: {'; '.join(outcome.missing)}"


def _find_batch_sizes(
    metrics: Iterable[Metric], backend: Backend, model: Any, traced: StatusKey | None
) -> dict[str, int]:
    """Return the batch size of the inputs that each metric was computed from, where there are inputs and they tell it.

    Many metrics share their inputs, which are asked once. A trace that was made with them has what the layers took: the
    backend need not make another one.
    """
    sizes: dict[int, int | None] = {}
    batches = {}
    for metric in metrics:
        for source in list_origins(metric):
            if not isinstance(source, Inputs):
                continue
            if id(source) not in sizes:
                trace = traced.value if traced is not None and source in traced.sources else None
                sizes[id(source)] = find_batch_size(source.value, backend, model, trace)
            size = sizes[id(source)]
            if size is not None:
                batches[metric.NAME] = size
    return batches
