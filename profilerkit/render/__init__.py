"""The forms of a report, for people and for programs, one file each; plugins can offer further ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..plugging.renderers import render, renderer
from ..process.randomness import keep_random_state

if TYPE_CHECKING:
    from types import ModuleType

    from ..trace.records import LayerTable

__all__ = ["layer_text", "render", "renderer", "rich_tables"]


def rich_tables() -> ModuleType:
    """Return the module that draws with rich, for what rich itself is to print."""
    with keep_random_state():
        from . import console
    return console


def layer_text(layers: LayerTable) -> str:
    """Return the table of a model's layers as text."""
    console = rich_tables()
    text: str = console.to_text(console.layer_table(layers))
    return text
