"""Energy as a metric of profilerkit, over any backend: joules per inference, accuracy per joule."""

from __future__ import annotations

from .accuracy_per_joule import AccuracyPerJoule, ComputeAccuracyPerJoule
from .energy import ComputeEnergy, EnergyPerInference

__all__ = ["AccuracyPerJoule", "ComputeAccuracyPerJoule", "ComputeEnergy", "EnergyPerInference"]
