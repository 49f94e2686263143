"""The layers right inside of a layer of Keras, and the names and settings that tables show of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from .keras_kinds import is_shipped
from .keras_layers import direct_layers, list_user_attributes

__all__ = ["hides_its_cell", "list_children", "write_settings"]

#: The public attributes that say how one of Keras' own layers was set up.
_SETTINGS = ("filters", "units", "kernel_size", "pool_size", "strides", "dilation_rate", "groups", "padding")


def list_children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and layers directly inside a Keras layer; a layer with several names is yielded under each.

    Inside a layer of the user's own class, the names are those of its attributes (``blocks[0]`` in a list); inside a
    layer of Keras, they are the layers' own names. Input layers, which compute nothing, are left out, and so are the
    cells of Keras' recurrent layers.
    """
    if hides_its_cell(layer):
        return
    layers = direct_layers(layer)
    inside = [child for child in layers if not (is_shipped(child) and type(child).__name__ == "InputLayer")]
    names = {} if is_shipped(layer) else _attribute_names(layer, {id(child) for child in inside})
    yield from _give_names(inside, names)


def _give_names(layers: Sequence[Any], names: Mapping[int, list[str]]) -> Iterator[tuple[str, Any]]:
    """Yield each layer under each of its names, which are given by the layers' ids; without any, under its own."""
    names_in_use: set[str] = set()
    for layer in layers:
        for name in names.get(id(layer)) or [getattr(layer, "name", None) or type(layer).__name__]:
            unique = _make_unique(name.replace(".", "_"), names_in_use)
            names_in_use.add(unique)
            yield unique, layer


def _make_unique(name: str, names_in_use: Collection[str]) -> str:
    """Return a name, with a number if it is in use: ``dense``, ``dense#2``, ``dense#3``."""
    numbered = (f"{name}#{number}" for number in itertools.count(2))
    return next(unique for unique in itertools.chain([name], numbered) if unique not in names_in_use)


def _attribute_names(layer: Any, inside: Collection[int]) -> dict[int, list[str]]:
    """Return, by the ``id`` of each inner layer, the attributes that hold it, also in lists and mappings."""
    names: dict[int, list[str]] = {}

    def look(name: str, value: Any, depth: int) -> None:
        if id(value) in inside:
            names.setdefault(id(value), []).append(name)
        elif depth and isinstance(value, Mapping):
            for key, item in value.items():
                look(f"{name}[{key}]", item, depth - 1)
        elif depth and isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                look(f"{name}[{index}]", item, depth - 1)

    for name, value in list_user_attributes(layer).items():
        look(name, value, 3)
    return names


def hides_its_cell(layer: Any) -> bool:
    """Return whether a layer is one of Keras' recurrent layers, which are shown as one layer, without the cell."""
    return is_shipped(layer) and hasattr(layer, "cell") and type(layer).__name__ != "RNN"


def write_settings(layer: Any) -> str:
    """Return the settings of one of Keras' own layers, as torch prints them: "filters=32, kernel_size=(3, 3)"."""
    if not is_shipped(layer):
        return ""
    settings = {name: getattr(layer, name, None) for name in _SETTINGS}
    return ", ".join(f"{name}={value}" for name, value in settings.items() if isinstance(value, (int, str, tuple)))
