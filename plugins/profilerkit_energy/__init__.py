"""Energy: the joules of a forward pass, of a sample and of a token, with the power of the idle machine beside them."""

from __future__ import annotations

from .energy import ComputeEnergy
from .hardware import Hardware
from .keys import Energy, EnergyPerSample, EnergyPerToken, IdlePower, Power

__all__ = ["ComputeEnergy", "Energy", "EnergyPerSample", "EnergyPerToken", "Hardware", "IdlePower", "Power"]
