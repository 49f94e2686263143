"""How long each layer takes, forward and backward."""

from __future__ import annotations

from typing import Any

from profilerkit import Partial, ProfilerFunction, Unavailable
from profilerkit.backend import Backend, DeviceLike
from profilerkit.inputs import ModelInputs
from profilerkit.protocols import TimesLayers, offered
from profilerkit.times.layer_times import layer_time_table
from profilerkit.times.steps import WatchedSteps
from profilerkit.trace.cross_check import ObservedRun, Witnessed

from .kinds import LayerRows

__all__ = ["ComputeLayerTimes", "LayerTimes"]


class LayerTimes(LayerRows):
    """Seconds of each layer, forward and backward, as a table: medians over several passes, and their samples.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> table = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["layer_times"], passes=2)["layer_times"]
    >>> table[0]["forward_seconds"] > 0
    True
    """

    NAME = "layer_times"
    FORMULA = (
        "medians over the passes of the seconds between the begin and the end of each layer; own times are "
        "those without the layers inside"
    )
    OMISSIONS = "work outside of all layers, which is on the row of the model itself"
    SOURCE = "the clock of the device: events on GPUs, the CPU's clock elsewhere"


class ComputeLayerTimes(ProfilerFunction):
    """Times every layer: with the layers inside it, and its own work alone. Computed only if requested by name."""

    KEYS = (LayerTimes,)
    ON_DEMAND = True
    ONLY_THROUGH_BACKEND = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
        watched: WatchedSteps | None = None,
    ) -> Any:
        """Return the table; unavailable where the backend does not time layers, and for a model without values.

        The columns are those of `profilerkit.times.layer_times`. A layer without work of its own has 0.0; where a
        backend knows of work that it could not time, ``missing`` names it. What is missing from the whole model
        makes the table partial.

        Args:
            model: The model; it is run in inference mode, and in training steps for the backward times.
            backend: The model's backend.
            inputs: What it is called with.
            device: Where to run; where the model is unless given.
            passes: How often; the table has the medians, and the samples behind them.
            backward: Whether to time the backward pass too.
            watched: Steps of a training loop that were measured; their times are returned then, and nothing is run.
        """
        if watched is not None:
            return layer_time_table(watched.layers) if watched.layers else Unavailable(watched.reasons["forward"])
        times = offered(backend, TimesLayers).layer_times(model, ModelInputs.of(inputs), device, passes, backward)
        table = layer_time_table(times)
        missing = tuple(time.missing for time in times if time.missing and not time.path)
        calls = {time.path: time.calls for time in times}
        is_seen = any(time.each_call for time in times)  # else the backend has the calls from its own static pass
        runs = (ObservedRun("the last timed pass", calls=calls),) if is_seen else ()
        return Witnessed(Partial(table, missing) if missing else table, (*runs, *getattr(times, "runs", ())))
