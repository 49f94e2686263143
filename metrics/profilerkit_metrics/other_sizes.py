"""A model at another batch size than its profiler's own, for the metrics that try several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from profilerkit import InputError, Profiler
from profilerkit.count_text import format_count
from profilerkit.inputs import ModelInputs
from profilerkit.piping.input_source import find_batch_size
from profilerkit.piping.outcome import Outcome

__all__ = ["OtherSize"]


class OtherSize(NamedTuple):
    """A clone of a model's profiler, which remembers values of its own inputs, and the settings of these inputs."""

    profiler: Profiler
    arguments: Mapping[str, Any]

    @classmethod
    def make(cls, profiler: Profiler, batch_size: int, **arguments: Any) -> OtherSize:
        """Return the model at a batch size; ``arguments`` are ``split`` and ``call``, or None."""
        others = {name: value for name, value in arguments.items() if value is not None}
        return cls(profiler.clone(), {**others, "batch_size": batch_size})

    def make_inputs(self, what: str) -> ModelInputs:
        """Return inputs of the size; raises `InputError`, naming ``what``, if the model takes another batch size."""
        inputs = ModelInputs.of(self.profiler.compute_status("inputs", **self.arguments))
        size = self.arguments["batch_size"]
        samples = find_batch_size(inputs, self.profiler.backend, self.profiler.model)
        if samples in (None, size):
            return inputs
        raise InputError(
            f"no {what}: the model takes the inputs for batch size {size}, {inputs!r}, as "
            f"{format_count(samples, 'sample')}; give a callable that builds inputs from the batch size, with the "
            "batch in the dimension where the model has it"
        )

    def compute(self, key: str, **further: Any) -> Outcome:
        """Return the outcome of a status key at the size, with further arguments; raises the errors of its function."""
        self.profiler.compute_status(key, **self.arguments, **further)
        outcome: Outcome = self.profiler.status_get(key, to_value=False).outcome
        return outcome
