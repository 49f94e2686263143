"""From a profiler's computed statuses to the `Report` that holds them as plain data."""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections.abc import Container, Iterator, Mapping, Sequence
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
from ..piping.status import Metric, StatusKey
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
    known_sizes: dict[int, list[int]] = {}
    if trace is not None and not (arguments or {}).get("ignore"):  # without what it ignores it says less of samples
        known_sizes = _read_traced_sizes(statuses[Trace.NAME], backend, model)
    batches = {metric.NAME: size for metric in metrics for size in _batch_sizes(metric, backend, model, known_sizes)}
    requested = [status for key, status in statuses.items() if names is not None and key in names]
    data = {status.NAME: status for status in requested if not isinstance(status, Metric)}
    ran = trace if trace is not None and trace.failure is None else None
    has_run = any(map(_is_measured, statuses.values()))
    environment = {**_machine(), **backend.environment()}
    if has_run:
        environment |= _find_device(backend, model, (arguments or {}).get("device"))
    settings = backend.non_default_settings if has_run else ()
    shown = requested if names is not None else statuses.values()
    traces = (*([trace] if trace else ()), *(source for status in shown for source in _list_traces(status)))
    conditions = tuple(dict.fromkeys((*settings, *(words for source in traces for words in source.conditions))))
    notes = (*_of_inputs(inputs), *write_notes(conditions), *_notes(trace, records, data, batches))
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


def _list_traces(status: StatusKey) -> Iterator[ModelTrace]:
    """Yield the traces that a status was computed from: of the forward pass, of a training step."""
    if isinstance(status.outcome.value, ModelTrace):
        yield status.outcome.value
    for source in status.sources:
        yield from _list_traces(source)


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
    trace: ModelTrace | None,
    records: Sequence[StatusRecord],
    data: Mapping[str, StatusKey],
    batches: Mapping[str, int],
) -> Iterator[str]:
    """Yield the notes on the report as a whole, then those on single values that it has not already."""
    of_all = (*trace.notes, *trace.contradictions) if trace else ()
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


def _of_inputs(inputs: Any) -> tuple[str, ...]:
    return (inputs.note,) if isinstance(inputs, ModelInputs) and inputs.note else ()


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


def _batch_sizes(status: StatusKey, backend: Backend, model: Any, known_sizes: dict[int, list[int]]) -> list[int]:
    """Return the batch size of the inputs that a status was computed from, if it was computed from any.

    ``known_sizes`` has the sizes of statuses that were read before, by ``id``: many metrics share their sources.
    """
    sizes: list[int] = []
    for source in status.sources:
        if id(source) not in known_sizes:
            size = find_batch_size(source.value, backend, model) if isinstance(source, Inputs) else None
            direct = [] if size is None else [size]
            known_sizes[id(source)] = [*direct, *_batch_sizes(source, backend, model, known_sizes)]
        sizes += known_sizes[id(source)]
    return sizes


def _read_traced_sizes(traced: StatusKey, backend: Backend, model: Any) -> dict[int, list[int]]:
    """Return the batch size of the inputs that a trace was made with, by the ``id`` of their status.

    The trace has what the layers took: the backend need not make another one to find it.
    """
    inputs = [source for source in traced.sources if isinstance(source, Inputs)]
    sizes = {id(source): find_batch_size(source.value, backend, model, traced.value) for source in inputs}
    return {number: [] if size is None else [size] for number, size in sizes.items()}
