"""The large model of `harming_torch`."""

from __future__ import annotations

from harming_torch import made_large as made

__all__ = ["made"]
