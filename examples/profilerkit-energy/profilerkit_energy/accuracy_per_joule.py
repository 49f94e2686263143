"""A derived metric: the signature of its function names the two it is made of."""

from __future__ import annotations

from typing import Any

from profilerkit import Comparative, Measurement, Metric, ProfilerFunction

__all__ = ["AccuracyPerJoule", "ComputeAccuracyPerJoule"]


class AccuracyPerJoule(Metric):
    """What the evaluation function returned, over the joules of one forward pass."""

    NAME = "accuracy_per_joule"
    UNIT = "1/J"
    COMPARATIVE = Comparative.DIV


class ComputeAccuracyPerJoule(ProfilerFunction):
    """Divides the evaluation metric by the energy per inference. Computed where it is asked for by name."""

    KEYS = (AccuracyPerJoule,)
    # Without an evaluation function there is no accuracy: most profiles have none.
    ON_DEMAND = True

    def __call__(self, eval_metric: Any, energy_per_inference: float | Measurement) -> Any:
        """Return a measurement where the energy is one: it keeps its confidence interval."""
        return float(eval_metric) / energy_per_inference
