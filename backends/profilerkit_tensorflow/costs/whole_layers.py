"""Keras layers whose operators are others than the convention counts: the core has their formulas."""

from __future__ import annotations

from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS

from .registry import register_layer_cost

for _name, _formula in KERAS_LAYER_COSTS.items():
    register_layer_cost(_name, _formula, override=True)
