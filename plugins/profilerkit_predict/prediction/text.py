"""A prediction as text: how long, what binds it, the layers that take most, and what a reader must know besides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from profilerkit.piping.quantity import Scale, scale_value

if TYPE_CHECKING:
    from .predicting import Prediction

__all__ = ["write_prediction"]

_SHOWN_LAYERS = 3


def write_prediction(prediction: Prediction) -> str:
    """Return a prediction in a few lines."""
    what = "a training step" if prediction.phase == "training" else "a forward pass"
    return "\n".join(
        [
            f"Predicted time of {what} on {prediction.device.name}: {_write_time(prediction)}",
            f"Bound by {prediction.binds}, {prediction.tier}.",
            "Layers that take most:",
            *_list_layers(prediction),
            *(f"{note[:1].upper()}{note[1:]}." for note in prediction.notes),
        ]
    )


def _write_time(prediction: Prediction) -> str:
    if prediction.estimate is None or prediction.high is None:
        return f"at least {_write_seconds(prediction.bound.seconds)}"
    low, high = _write_seconds(prediction.low), _write_seconds(prediction.high)
    return f"{_write_seconds(prediction.estimate)}, from {low} to {high}"


def _list_layers(prediction: Prediction) -> Iterator[str]:
    column = "bound_seconds" if prediction.estimate is None else "estimate_seconds"
    rows = [row for row in prediction.layers if row[column]]
    for row in sorted(rows, key=lambda row: -row[column])[:_SHOWN_LAYERS]:
        itself = "" if row["is_leaf"] or not row["path"] else " itself"  # its time is without the layers inside it
        yield f"  {row['path'] or '(itself)'} ({row['type']}){itself}: {_write_seconds(row[column])}"


def _write_seconds(seconds: float) -> str:
    return str(scale_value(seconds, "s", Scale.TIME))
