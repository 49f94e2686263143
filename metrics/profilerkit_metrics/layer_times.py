"""How long each layer takes, forward and backward."""

from __future__ import annotations

from typing import Any

from profilerkit import NotOfferedError, ProfilerFunction, StatusKey, Unavailable
from profilerkit.backend import Backend, DeviceLike
from profilerkit.data import ModelInputs
from profilerkit.layer_times import layer_time_table

__all__ = ["ComputeLayerTimes", "LayerTimes"]


class LayerTimes(StatusKey):
    """Seconds of each layer, forward and backward, as a `LayerTable`: medians over several passes."""

    NAME = "layer_times"


class ComputeLayerTimes(ProfilerFunction):
    """Times every layer: with the layers inside it, and its own work alone. Computed where it is asked for by name."""

    ON_DEMAND = True
    ONLY_THROUGH_BACKEND = True

    def get_bounded_status_keys(self) -> type[StatusKey]:
        """Return `LayerTimes`."""
        return LayerTimes

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
    ) -> Any:
        """Return the table; unavailable where the backend does not time layers.

        Args:
            model: The model; it is run in inference mode, or in training steps for the backward times.
            backend: The model's backend.
            inputs: What it is called with.
            device: Where to run; where the model is unless given.
            passes: How often; the table has the medians.
            backward: Whether to time the backward pass too.
        """
        try:
            return layer_time_table(backend.layer_times(model, ModelInputs.of(inputs), device, passes, backward))
        except NotOfferedError as error:
            return Unavailable(str(error))
