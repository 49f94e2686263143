"""Energy: the joules of a forward pass, of a sample and of a token, with the power of the idle machine beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from .energy import ComputeEnergy
    from .hardware import Hardware
    from .keys import Energy, EnergyPerSample, EnergyPerToken, IdlePower, Power

__all__ = ["ComputeEnergy", "Energy", "EnergyPerSample", "EnergyPerToken", "Hardware", "IdlePower", "Power"]

_MODULES = module_of_each(
    {
        ".energy": "ComputeEnergy",
        ".hardware": "Hardware",
        ".keys": "Energy EnergyPerSample EnergyPerToken IdlePower Power",
    }
)

install_lazy_names(__name__, _MODULES)
