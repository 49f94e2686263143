"""How long each layer takes, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar, TypeVar

from profilerkit import ProfilerFunction, Unavailable
from profilerkit.arguments.checks import FLAG, Check, at_least
from profilerkit.backend import AS_IT_IS, Backend, DeviceLike, RunOptions
from profilerkit.inputs import ModelInputs
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.protocols import TimesLayers, require_capability
from profilerkit.times.layer_times import LayerTime, layer_time_table
from profilerkit.times.steps import WatchedSteps
from profilerkit.trace.observed_runs import ObservedRun, TimedLayers, Witnessed

from .execution_time import note_left_out
from .kinds import LayerRows

__all__ = ["ComputeLayerTimes", "LayerTimes"]

T = TypeVar("T")


class LayerTimes(LayerRows):
    """Seconds of each layer, forward and backward, as a table: medians over several passes, and their samples.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> table = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["layer_times"], passes=2)["layer_times"]
    >>> table[0]["forward_seconds"] > 0
    True
    """

    NAME: str = "layer_times"
    FORMULA: str = (
        "medians over the passes of the seconds between the start and the end of each layer; own times are "
        "those without the layers inside"
    )
    OMISSIONS: str = "nothing: work outside of all layers is in the row of the model itself"
    SOURCE: str = "the clock of the device: events on GPUs, the CPU's clock elsewhere"


class ComputeLayerTimes(ProfilerFunction):
    """Times every layer: with the layers inside it, and its own work alone. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (LayerTimes,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"passes": at_least(1), "backward": FLAG}
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
        watched: WatchedSteps | None = None,
        max_seconds: float | None = None,
        run_options: RunOptions = AS_IT_IS,
    ) -> Any:
        """Return the table; unavailable if the backend does not time layers, and for a model without values.

        For the columns see `profilerkit.times.layer_times`. A layer without work of its own has 0.0, and a layer that
        was not called has None; if a backend knows of work that it could not time, ``missing`` names this work. Work
        that is missing from the whole model makes the table partial.

        Args:
            model: The model; it is run in inference mode, and in training steps for the backward times.
            backend: The model's backend.
            inputs: The inputs of the model's call.
            device: The device that runs the model. Default: the current device of the model.
            passes: The number of passes that time layers and operators. The table has the medians, and the samples.
            backward: If True, the backward pass is timed too.
            watched: Measured steps of a training loop. Their times are then returned, and the model does not run.
            max_seconds: Most seconds to spend: as many passes are made as fit, and one at least.
            run_options: The options of ``execution_time``, which a note names: layers are timed without them.
        """
        if watched is not None:
            reason = watched.without_calls or watched.explain_absence("forward")
            return _make_table(watched.layers) if watched.layers else Unavailable(reason)
        timer, model_inputs = require_capability(backend, TimesLayers), ModelInputs.of(inputs)

        def measure(count: int) -> Sequence[LayerTime]:
            return timer.layer_times(model, model_inputs, device, count, backward)

        if max_seconds is None:
            times, note = measure(passes), ""
        else:
            times, note = _measure_within(max_seconds, passes, measure)
        return Witnessed(_make_table(times, note, note_left_out(run_options)), tuple(_list_runs(times)))


def _make_table(times: Sequence[LayerTime], *notes: str) -> Any:
    """Return the table of the times; partial if work is missing from the whole model."""
    missing = tuple(time.missing for time in times if time.missing and not time.path)
    return qualify(layer_time_table(times), missing, notes)


def _measure_within(max_seconds: float, passes: int, measure: Callable[[int], T]) -> tuple[T, str]:
    """Return the times of as many passes as fit, and a note if fewer passes fit than requested.

    A first pass tells how many fit; it counts only if no further pass fits.
    """
    begin = perf_counter()
    first = measure(1)
    fitting = count_fitting_passes(perf_counter() - begin, max_seconds, passes)
    note = f"{fitting} of {passes} passes fit into max_seconds={max_seconds:g}" if fitting < passes else ""
    return measure(fitting) if fitting > 1 else first, note


def _list_runs(times: Sequence[LayerTime]) -> Iterator[ObservedRun]:
    """Yield the observed passes: none for a backend that has the calls from its own static pass."""
    if any(time.each_call for time in times):
        yield ObservedRun("the last timed pass", calls={time.path: time.calls for time in times})
    if isinstance(times, TimedLayers):
        yield from times.runs


def count_fitting_passes(seconds: float, max_seconds: float, requested: int) -> int:
    """Return how many passes fit into the seconds that are left after one of that length: at least one.

    >>> count_fitting_passes(1.0, 5.5, 10), count_fitting_passes(9.0, 5.0, 10), count_fitting_passes(0.1, 5.0, 10)
    (4, 1, 10)
    """
    if seconds <= 0:
        return requested
    return max(1, min(requested, int((max_seconds - seconds) / seconds)))
