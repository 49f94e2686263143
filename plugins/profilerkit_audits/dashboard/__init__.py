"""An audit's store as one page: a table, a scatter with its Pareto front, and each model's history over runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from .writing import Output, render, write

__all__ = ["Output", "render", "write"]

install_lazy_names(__name__, module_of_each({".writing": "Output render write"}), "profilerkit[audit]")
