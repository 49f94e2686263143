"""Predicted time: bounds by data sheets, estimates by calibrations of a machine, always with an interval."""

from __future__ import annotations

from .bound import Bound, bound_of, compulsory_bytes
from .calibration import Calibration, Network
from .predicting import NothingToPredictError, Prediction, predict_trace
from .tables import EfficiencyTable, Point

__all__ = [
    "Bound",
    "Calibration",
    "EfficiencyTable",
    "Network",
    "NothingToPredictError",
    "Point",
    "Prediction",
    "bound_of",
    "compulsory_bytes",
    "predict_trace",
]
