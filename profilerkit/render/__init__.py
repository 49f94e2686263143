"""The forms of a report, for people and for programs, one file each; plugins can offer further ones."""

from __future__ import annotations

from ..hooks.renderers import render, renderer
from ..process.inner_states import keep_random_state
from ..trace.records import LayerTable

__all__ = ["layer_text", "render", "renderer"]


def layer_text(layers: LayerTable) -> str:
    """Return the table of a model's layers as text: paths indented by depth, counts with the layers inside included."""
    with keep_random_state():  # rich draws random numbers when it is imported
        from .console import grid_text
        from .layer_grids import layer_grid
    return grid_text(layer_grid(layers))
