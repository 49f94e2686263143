"""From a profiler's computed statuses to the `Report` that holds them as plain data."""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any

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


def build_report(
    name: str,
    backend: Backend,
    model: Any,
    statuses: Mapping[str, StatusKey],
    names: Container[str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Report:
    """Return computed statuses of a model as plain data, of the named metrics only if there are names."""
    computed = _Computed(backend, model, statuses, names, arguments or {})
    inputs, trace, conditions = computed.inputs, computed.trace, computed.list_conditions()
    ran = trace if trace is not None and trace.failure is None else None
    batches = computed.find_batch_sizes()
    records = computed.make_records()
    report = Report(
        name=name,
        backend=backend.name,
        model_type=in_plain_names(backend.model_type(model)),
        statuses={record.key: record for record in records},
        batch_size=next(iter(batches.values())) if len(set(batches.values())) == 1 else None,
        inputs="" if inputs is None else repr(inputs),
        input_dtypes="" if inputs is None else _list_dtypes(inputs),
        layers=trace.table if trace else None,
        notes=tuple(dict.fromkeys(computed.list_notes(conditions, batches, records))),
        conditions=conditions,
        environment=computed.describe_environment(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        data={status.NAME: status.value for status in computed.list_data() if status.value is not None},
        operators=ran.operator_table if ran else None,
        memory=ran.memory if ran else None,
        arguments={key: _shorten(value) for key, value in computed.arguments.items()},
        fingerprint=_make_fingerprint(trace) if trace else "",
    )
    return replace(report, data={key: _add_times(value, report) for key, value in report.data.items()})


class _Computed:
    """What a profiler has computed of a model: statuses by name; the requested ``names`` are None for all metrics."""

    def __init__(
        self,
        backend: Backend,
        model: Any,
        statuses: Mapping[str, StatusKey],
        names: Container[str] | None,
        arguments: Mapping[str, Any],
    ) -> None:
        self.backend, self.model = backend, model
        self.statuses, self.names, self.arguments = statuses, names, arguments
        # Not from the status's value: that of some is a text, drawn when it is first read.
        outcomes = {key: status.outcome for key, status in statuses.items()}
        inputs = outcomes[Inputs.NAME].value if Inputs.NAME in outcomes else None
        self.inputs = inputs if isinstance(inputs, ModelInputs) else None
        self.trace: ModelTrace | None = outcomes[Trace.NAME].value if Trace.NAME in outcomes else None
        self.metrics = [status for status in statuses.values() if isinstance(status, Metric)]
        shown = [status for key, status in statuses.items() if names is None or key in names]
        values = [origin.outcome.value for status in shown for origin in list_origins(status)]
        #: The trace of the model, and the others that the values of the report were computed from.
        self.traces = [value for value in (self.trace, *values) if isinstance(value, ModelTrace)]
        #: Whether the model was run for one of the values.
        self.has_run = any(isinstance(outcome.value, Measurement) or outcome.runs for outcome in outcomes.values())

    def make_records(self) -> list[StatusRecord]:
        """Return the records of the metrics that the report has."""
        return [StatusRecord.of(metric) for metric in self.metrics if self.names is None or metric.NAME in self.names]

    def list_data(self) -> list[StatusKey]:
        """Return the requested statuses that are no metrics."""
        if self.names is None:
            return []
        return [status for key, status in self.statuses.items() if key in self.names and not isinstance(status, Metric)]

    def describe_environment(self) -> dict[str, str]:
        """Return the facts of the machine, the versions of the software, and the device if the model was run."""
        with name_backend(self.backend.name, "environment"):
            environment = {**_describe_machine(), **self.backend.environment()}
        if self.has_run:
            with suppress(ProfilerKitError):  # it is on that device no more
                environment["device"] = self.backend.resolve_device(self.model, self.arguments.get("device"))
        return environment

    def list_conditions(self) -> tuple[str, ...]:
        """Return the conditions under which the model was run or traced, each once."""
        settings = self.backend.non_default_settings if self.has_run else ()
        traced = [condition for trace in self.traces for condition in trace.conditions]
        return tuple(dict.fromkeys((*settings, *traced)))

    def find_batch_sizes(self) -> dict[str, int]:
        """Return by metric the batch size of the inputs that it was computed from, if these tell one."""
        uses = [
            (metric.NAME, origin)
            for metric in self.metrics
            for origin in list_origins(metric)
            if isinstance(origin, Inputs)
        ]
        distinct = {id(inputs): inputs for _, inputs in uses}  # most metrics share theirs, which are asked once
        sizes = {number: self._find_batch_size(inputs) for number, inputs in distinct.items()}
        return {name: size for name, inputs in uses if (size := sizes[id(inputs)]) is not None}

    def _find_batch_size(self, inputs: Inputs) -> int | None:
        """Return the batch size of inputs; a trace that was made with them spares the backend another one."""
        traced = self.statuses.get(Trace.NAME)
        is_trace_with_them = traced is not None and inputs in traced.sources
        is_whole = not self.arguments.get("ignore")  # without the ignored layers a trace says less of samples
        trace = self.trace if is_trace_with_them and is_whole else None
        return find_batch_size(inputs.value, self.backend, self.model, trace)

    def list_notes(
        self, conditions: Sequence[str], batches: Mapping[str, int], records: Sequence[StatusRecord]
    ) -> Iterator[str]:
        """Yield the notes on the whole report, then those on single values that are not among them."""
        if self.inputs is not None and self.inputs.note:
            yield self.inputs.note
        yield from write_notes(conditions)
        notes_of_traces = [note for trace in self.traces for note in (*trace.notes, *trace.contradictions)]
        yield from notes_of_traces
        for status in self.list_data():
            outcome = status.outcome
            # The tables of layers, and their text, say it themselves.
            if outcome.completeness is not Completeness.COMPLETE and not isinstance(outcome.value, (LayerTable, str)):
                reasons = "; ".join(filter(None, (*outcome.missing, outcome.note)))
                yield f"{status.NAME} {outcome.completeness.value}: {reasons}"
        if len(set(batches.values())) > 1:
            listing = ", ".join(f"{key} of {size}" for key, size in batches.items())
            yield f"values are for batches of different sizes: {listing}"
        without_names = ("", *notes_of_traces)
        yield from _attribute(records, lambda record: () if record.note in without_names else (record.note,))
        yield from _attribute(
            records, lambda record: record.value.warnings if isinstance(record.value, Measurement) else ()
        )


def _attribute(records: Iterable[StatusRecord], list_texts: Callable[[StatusRecord], Iterable[str]]) -> Iterator[str]:
    """Yield each text that records have once, behind the names of the metrics that have it."""
    names_by_text: dict[str, list[str]] = {}
    for record in records:
        for text in dict.fromkeys(list_texts(record)):
            names_by_text.setdefault(text, []).append(record.friendly_name)
    for text, names in names_by_text.items():
        yield f"{', '.join(names)}: {text}"


def _describe_machine() -> dict[str, str]:
    """Return the facts of this machine, without the name of the host unless ``PROFILERKIT_KEEP_HOST`` is set.

    Reports are shared, and a host's name may say more of a company than its owner wants.
    """
    facts = machine()
    if not os.environ.get("PROFILERKIT_KEEP_HOST"):
        del facts["host"]
    return facts


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
