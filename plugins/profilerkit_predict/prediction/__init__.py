"""Predicted time: bounds by data sheets, estimates by calibrations of a machine, always with an interval."""

from __future__ import annotations

from .bound import Bound, compulsory_bytes, compute_bound
from .calibration import Calibration, Network
from .predicting import NothingToPredictError, predict_trace
from .result import Prediction
from .tables import EfficiencyTable, Point

__all__ = [
    "Bound",
    "Calibration",
    "EfficiencyTable",
    "Network",
    "NothingToPredictError",
    "Point",
    "Prediction",
    "compulsory_bytes",
    "compute_bound",
    "predict_trace",
]
