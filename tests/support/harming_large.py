"""The large model of `harming_torch`."""

from __future__ import annotations

from harming_torch import _OfLarge

__all__ = ["made"]

made = _OfLarge.made
