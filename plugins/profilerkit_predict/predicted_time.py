"""How long a pass will take on a device that need not be here: predicted, never measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from profilerkit import Noted, Partial, ProfilerFunction, Unavailable
from profilerkit.backend import Backend, RunOptions
from profilerkit.devices import DeviceInfoLike, UnknownPeakError, device
from profilerkit.piping.function import Keys
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace
from profilerkit_metrics.kinds import LayerRows, Seconds
from profilerkit_metrics.utilization import choose_device

if TYPE_CHECKING:
    from .prediction import Prediction


class PredictedTime(Seconds):
    """Seconds that one forward pass will take on a device: a bound, or an estimate between two ends; not measured.

    >>> from torch import nn
    >>> from profilerkit import DeviceInfo, profile
    >>> from profilerkit.devices import Figure
    >>> toy = DeviceInfo("toy", dense_peaks={"float32": Figure(320.0, "an example")})
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["predicted_time"], on=toy)["predicted_time"]
    0.1
    """

    NAME: str = "predicted_time"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    GROWS: bool = True
    FORMULA: str = (
        "from a data sheet: max(sum of 2 * macs / peak by dtype, compulsory bytes / bandwidth); from a calibration: "
        "the sum over regions of operators of their time in its tables, and the time of the host"
    )
    OMISSIONS: str = "loading data; other programs on the device"
    SOURCE: str = "the roofline: Williams and others, 2009; the estimate is profilerkit's own"


class PredictedTrainingTime(Seconds):
    """Seconds that one training step will take on a device, as `PredictedTime` for its trace; not measured."""

    NAME: str = "predicted_training_time"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    GROWS: bool = True
    FORMULA: str = "as predicted_time, of the trace of a training step"
    OMISSIONS: str = "the loss and the optimizer's update; loading data"
    SOURCE: str = "the roofline: Williams and others, 2009; the estimate is profilerkit's own"


class PredictedLayers(LayerRows):
    """Predicted seconds of each layer's own operators, and their limit: matrix products, memory traffic or dispatch.

    ``bound_seconds`` is the bound of the layer by itself; ``estimate_seconds`` is None by a data sheet.
    """

    NAME: str = "predicted_layers"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = "predicted_time of the operators of each layer, without those of the layers inside it"
    OMISSIONS: str = "nothing: operators that a compiler fuses across layers belong to the layer of the product"
    SOURCE: str = "profilerkit's own definition"


class PredictingFunction(ProfilerFunction):
    """Predicts times on the device of the argument ``on``, from traces alone."""

    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise `DeviceNotKnownError` for the name of an unknown device, before the model is traced."""
        if arguments.get("on") is not None:
            device(arguments["on"])


class ComputePredictedTime(PredictingFunction):
    """Predicts the time of a forward pass on a device; the model is not run. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (PredictedTime, PredictedLayers)
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ("on",)

    def __call__(
        self,
        model: Any,
        backend: Backend,
        trace: ModelTrace,
        run_options: RunOptions,
        on: DeviceInfoLike | None = None,
        dtype: str | None = None,
    ) -> dict[str, Any]:
        """Return the seconds, and the table of the layers.

        Args:
            model: The model.
            backend: The model's backend.
            trace: The model's trace.
            run_options: How the model would be run; with ``compile`` it is predicted as a compiled graph.
            on: The device of predicted times: a `DeviceInfo`, a name, or the path of a file. Default: the device of the
                model.
            dtype: The dtype of matrix products. Default: the dtype in the trace.
        """
        predicted = _predict(model, backend, trace, run_options, on, dtype)
        if isinstance(predicted, Unavailable):
            return {PredictedTime.NAME: predicted, PredictedLayers.NAME: predicted}
        return {PredictedTime.NAME: _make_value(predicted), PredictedLayers.NAME: predicted.layers}


class ComputePredictedTrainingTime(PredictingFunction):
    """Predicts the time of a training step on a device; the model is not run. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (PredictedTrainingTime,)

    def __call__(
        self,
        model: Any,
        backend: Backend,
        training_trace: ModelTrace,
        run_options: RunOptions,
        on: DeviceInfoLike | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return the seconds; see `ComputePredictedTime` for the arguments."""
        predicted = _predict(model, backend, training_trace, run_options, on, dtype)
        return predicted if isinstance(predicted, Unavailable) else _make_value(predicted)


def _predict(
    model: Any, backend: Backend, trace: ModelTrace, options: RunOptions, on: DeviceInfoLike | None, dtype: str | None
) -> Prediction | Unavailable:
    """Return the prediction of a trace; unavailable if a peak is not known or there is nothing to predict."""
    from .prediction import NothingToPredictError, predict_trace

    target = choose_device(model, backend, options, on)
    try:
        return predict_trace(trace, target, dtype=dtype, compiled="compile" in options.requested)
    except (UnknownPeakError, NothingToPredictError) as error:
        return Unavailable(str(error))


def _make_value(predicted: Prediction) -> Any:
    """Return a prediction as a value between two ends, with its source: the device, the tier and the notes."""
    is_bound = predicted.estimate is None
    missing = "what the device does not reach of its peaks" if is_bound else "predicted, not measured"
    least = "" if is_bound else f", at least {scale_value(predicted.bound.seconds, 's', Scale.TIME)}"
    where = f"on {predicted.device.name} ({predicted.tier}), bound by {predicted.binds}{least}"
    value = Partial(predicted.seconds, (missing,), Bounds(predicted.low, predicted.high))
    return Noted(value, "; ".join((where, *predicted.notes)))
