"""What a cost formula is given and what it returns; it stands in `profilerkit.costs`, and is imported from here too."""

from __future__ import annotations

from .costs.cost import Cost, Formula, Shape, evaluated

__all__ = ["Cost", "Formula", "Shape", "evaluated"]
