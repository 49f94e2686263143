"""The metrics of energy."""

from __future__ import annotations

from profilerkit import Comparative, Metric, Scale


class Joules(Metric):
    """An energy; the less the better."""

    UNIT: str = "J"
    SCALE: Scale = Scale.TIME  # prefixes downwards from one, as for seconds: 250 mJ
    COMPARATIVE: Comparative = Comparative.RECIPROCAL
    SOURCE: str = "RAPL (Intel, AMD), NVML (NVIDIA), or Apple's counters; see the page on energy"


class Watts(Metric):
    """A power; the less the better."""

    UNIT: str = "W"
    SCALE: Scale = Scale.TIME
    COMPARATIVE: Comparative = Comparative.RECIPROCAL
    SOURCE: str = "as energy"


class Energy(Joules):
    """Joules that processor, memory and GPU used for one forward pass: the median, with its confidence interval."""

    NAME: str = "energy"
    FORMULA: str = "joules counted while the passes of a sample ran / their number; the median of the samples"
    OMISSIONS: str = "what has no counter: power supply, fans, disks, and the memory of most desktop processors"


class EnergyPerSample(Joules):
    """Joules for one sample of the batch."""

    NAME: str = "energy_per_sample"
    FORMULA: str = "energy / batch size"
    OMISSIONS: str = "as energy; it is unavailable if the inputs have no common first dimension"


class EnergyPerToken(Joules):
    """Joules for one token of a language model's inputs, or of those that ``tokens=`` says."""

    NAME: str = "energy_per_token"
    FORMULA: str = "energy / (elements of the input `input_ids`, or the argument `tokens`)"
    OMISSIONS: str = "as energy; padding counts as tokens"


class Power(Watts):
    """Mean watts while the model ran, of the same counters as the energy."""

    NAME: str = "power"
    FORMULA: str = "joules of a sample / its seconds; the median of the samples"
    OMISSIONS: str = "as energy"


class IdlePower(Watts):
    """Watts while the model was in place and this process waited: a share of the energy that is not the model's."""

    NAME: str = "idle_power"
    FORMULA: str = "joules counted while nothing ran / seconds"
    OMISSIONS: str = "as energy; what other processes used meanwhile is in it"


KEYS = (Energy, EnergyPerSample, EnergyPerToken, Power, IdlePower)
