"""How long each operator takes in each layer, its MACs and FLOPs, and the FLOP/s it achieves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from profilerkit import Metric, NotOfferedError, ProfilerFunction, Scale
from profilerkit.arguments.checks import FLAG, PATH, Check, at_least
from profilerkit.backend import AS_IT_IS, Backend, DeviceLike, RunOptions
from profilerkit.backend_kit.operator_join import operator_table
from profilerkit.count_text import format_count
from profilerkit.inputs import ModelInputs
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.piping.quantity import scale_value
from profilerkit.protocols import TimesOperators, Trains, require_capability
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.ignoring import Ignored, without_layers
from profilerkit.trace.observed_runs import Witnessed, explain_contradiction
from profilerkit.trace.records import ModelTrace

from .execution_time import note_left_out

__all__ = ["ComputeOperatorTable", "OperatorTable"]


class OperatorTable(Metric):
    """Seconds, calls, MACs and achieved FLOP/s of each operator in each layer, as an `OperatorTimeTable`.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["operator_table"], passes=2, backward=False)
    >>> sum(row["macs"] or 0 for row in report["operator_table"])
    16
    """

    NAME: str = "operator_table"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = (
        "medians over the passes of the seconds of each operator; FLOP/s are its operations in the trace / "
        "these seconds"
    )
    OMISSIONS: str = "time outside of operators, which is in the note"
    SOURCE: str = "the framework's own profiler"

    def show(self) -> str:
        """Return the number of operators; the table is the value."""
        if self.value is None:
            return ""
        return format_count(len({row["operator"] for row in self.value.by("operator")}), "operator")


class ComputeOperatorTable(ProfilerFunction):
    """Times every operator of every layer by the framework's own profiler. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (OperatorTable,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"passes": at_least(1), "backward": FLAG, "export": PATH.or_none()}
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        trace: ModelTrace,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
        export: str | os.PathLike[str] | None = None,
        ignore: Ignored = (),
        run_options: RunOptions = AS_IT_IS,
    ) -> Any:
        """Return the table; unavailable if the backend does not time operators, and for a model without values.

        For the columns see `profilerkit.times.operator_times`. Work that the times leave out makes the table partial; a
        row whose work is not known has None, and ``missing`` says why.

        Args:
            model: The model; it is run in inference mode, and in training steps for the backward times.
            backend: The model's backend.
            inputs: The inputs of the model's call.
            trace: The static trace, which has the MACs and FLOPs of the forward pass.
            device: The device that runs the model. Default: the current device of the model.
            passes: The number of passes that time layers and operators. The table has the medians, and the samples.
            backward: If True, the backward pass is timed too.
            export: The path of a file for the framework's own trace of one pass. Default: no file.
            ignore: Layers whose operators have times, but no MACs and FLOPs.
            run_options: That of ``layer_times``.
        """
        model_inputs = ModelInputs.of(inputs)
        times = require_capability(backend, TimesOperators).operator_times(
            model, model_inputs, device, passes, backward, export
        )
        traces: dict[str, ModelTrace | str] = {"forward": trace}
        if "backward" in times.whole:
            traces["backward"] = _trace_step(backend, model, model_inputs, ignore)
        table = operator_table(times, traces)
        outside = [f"{scale_value(time, 's', Scale.TIME)} {phase}" for phase, time in table.outside_seconds.items()]
        notes = [f"outside operators, a pass under the profiler takes {' and '.join(outside)}", *times.remarks]
        notes += filter(None, [note_left_out(run_options)])
        missing = [*times.notes, explain_contradiction(trace, times.runs)]
        return Witnessed(qualify(table, tuple(filter(None, missing)), ["; ".join(notes)]), times.runs)


def _trace_step(backend: Backend, model: Any, inputs: ModelInputs, ignore: Ignored) -> ModelTrace | str:
    """Return the trace of a training step, or why there is none."""
    try:
        step = require_capability(backend, Trains).trace_training(model, inputs)
    except NotOfferedError as error:
        return f"not counted: {error}"
    return without_layers(step, ignore)
