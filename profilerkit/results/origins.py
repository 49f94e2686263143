"""The inputs and the traces from which the values of a report were computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..backend import Backend
from ..inputs import ModelInputs
from ..piping.input_source import find_batch_size
from ..piping.intrinsic import Inputs, Trace
from ..piping.status import StatusKey, list_origins
from ..times.measurement import Measurement
from ..trace.records import ModelTrace

__all__ = ["Origins"]


class Origins(NamedTuple):
    """The inputs and traces from which the values of a report were computed.

    Attributes:
        inputs: The inputs of the model.
        traced: The status of its trace.
        trace: The trace.
        traces: All traces, the model's first; another one may be the trace of a training step.
        have_run: Whether the model was run.
    """

    inputs: ModelInputs | None
    traced: StatusKey | None
    trace: ModelTrace | None
    traces: Sequence[ModelTrace]
    have_run: bool

    @classmethod
    def read(cls, shown: Sequence[StatusKey], statuses: Mapping[str, StatusKey]) -> Origins:
        """Return the origins of the shown statuses among all computed ones."""
        origins = list_origins(*shown)
        inputs, traced = (_find_origin(key, origins, statuses) for key in (Inputs.NAME, Trace.NAME))
        trace = None if traced is None else traced.value
        # The value of a text that is drawn when it is first read is its source.
        values = [origin.outcome.value for origin in origins]
        return cls(
            inputs.value if inputs is not None and isinstance(inputs.value, ModelInputs) else None,
            traced,
            trace if isinstance(trace, ModelTrace) else None,
            [value for value in (trace, *values) if isinstance(value, ModelTrace)],
            any(isinstance(value, Measurement) for value in values) or any(origin.outcome.runs for origin in origins),
        )

    def list_conditions(self, backend: Backend) -> tuple[str, ...]:
        """Return the caller's settings that change numbers: the framework's, if the model ran, and the traces'."""
        settings = backend.non_default_settings if self.have_run else ()
        return tuple(dict.fromkeys((*settings, *(setting for trace in self.traces for setting in trace.conditions))))

    def find_batch_sizes(self, shown: Sequence[StatusKey], backend: Backend, model: Any) -> dict[str, int]:
        """Return by status key the batch size of the inputs that its value was computed from, if these tell one."""
        trace = None if self.trace is None or self.trace.left_out else self.trace  # a backend needs all layers
        traced_inputs = () if self.traced is None else self.traced.sources
        inputs = {id(origin): origin for origin in list_origins(*shown) if isinstance(origin, Inputs)}
        sizes = {
            number: find_batch_size(origin.value, backend, model, trace if origin in traced_inputs else None)
            for number, origin in inputs.items()
        }
        batches: dict[str, int] = {}
        for status in shown:
            numbers = [size for origin in list_origins(status) if (size := sizes.get(id(origin))) is not None]
            if numbers:
                batches[status.NAME] = numbers[-1]
        return batches


def _find_origin(key: str, origins: Iterable[StatusKey], statuses: Mapping[str, StatusKey]) -> StatusKey | None:
    """Return the inputs or the trace that the shown values were computed from; the newest if they have several or none.

    The newest may be of another request, with a batch of another size.
    """
    candidates = [origin for origin in origins if key == origin.NAME]
    return candidates[0] if len(candidates) == 1 else statuses.get(key)
