"""What a plugin hands over of renderers and model loaders: a name, and how to get at it when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["LoadedModel", "LoaderInfo", "Renderer", "RendererInfo"]

#: Called with a `Report` or `Comparison`, and by name with those options that its signature has: ``details``.
Renderer: TypeAlias = "Callable[..., Any]"


@dataclass(frozen=True)
class RendererInfo:
    """A form that reports can be given, under a name: ``profilerkit profile --format NAME``.

    ``load`` imports what draws it and returns the renderer: a function that takes a `Report` or a `Comparison` and
    returns text. With a parameter ``details`` it is told whether descriptions and layers are wanted. Without
    ``is_text`` it returns something else, such as a figure, and no command offers it as a format.
    """

    name: str
    load: Callable[[], Renderer]
    description: str = ""
    is_text: bool = True


@dataclass(frozen=True)
class LoadedModel:
    """A model that a loader found, with inputs that fit it: example inputs, or the shapes of one sample.

    They are used where the user gives none. ``name`` is what reports call it, unless it is None.
    """

    model: Any
    inputs: Any = None
    input_shape: Any = None
    name: str | None = None


@dataclass(frozen=True)
class LoaderInfo:
    """A way to find a model that is given as text.

    ``accepts`` says whether a text is meant for it, without importing anything heavy. ``load`` returns the model, or a
    `LoadedModel` that has inputs for it too; it raises `InputError` for a text that leads nowhere. With a parameter
    ``trust`` it is told whether the user trusts the file: what may run code when it is loaded is refused otherwise.
    ``description`` is what such a text looks like: ``package.module:name``.
    """

    name: str
    accepts: Callable[[str], bool]
    load: Callable[..., Any]
    description: str
