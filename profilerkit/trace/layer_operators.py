"""The names of operators that stand for the whole call of a layer with its own cost formula."""

from __future__ import annotations

from typing import Literal

__all__ = ["find_layer_type", "name_layer_operator"]

#: The words of frameworks for a layer.
_WORDS = ("layer", "module")


def name_layer_operator(word: Literal["layer", "module"], layer_type: str) -> str:
    """Return the name of the operator that stands for a call of a layer of a type.

    >>> name_layer_operator("module", "Swish")
    'module::Swish'
    """
    return f"{word}::{layer_type}"


def find_layer_type(operator: str) -> str | None:
    """Return the type of the layer that an operator stands for; None for an operator that is one itself.

    >>> find_layer_type("module::Swish"), find_layer_type("aten::silu"), find_layer_type("Conv2D")
    ('Swish', None, None)
    """
    word, _, layer_type = operator.partition("::")
    return layer_type if word in _WORDS and layer_type else None
