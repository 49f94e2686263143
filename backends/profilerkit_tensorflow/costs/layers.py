"""Keras' layers that are spelt out with other operators than the convention counts: the core has their formulas."""

from __future__ import annotations

from profilerkit.keras_costs import KERAS_LAYER_COSTS

from .registry import register_layer_cost

for _name, _formula in KERAS_LAYER_COSTS.items():
    register_layer_cost(_name, _formula)
