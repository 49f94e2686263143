"""A context around an import by other code."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import AbstractContextManager
from copy import copy
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["AroundImport"]


class AroundImport:
    """Imports some modules within a context, whoever imports them, once it is put into ``sys.meta_path``.

    Args:
        names: The modules, by their whole names.
        context: Returns the context.
    """

    def __init__(self, names: Container[str], context: Callable[[], AbstractContextManager[object]]) -> None:
        self.names = names
        self.context = context

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where Python finds a module, with a loader that loads it within the context; None for others."""
        spec = PathFinder.find_spec(name, path, target) if name in self.names else None
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        around = copy(loader)  # all modules of a zip file have one loader

        def load_within_context(module: ModuleType) -> None:
            module.__loader__ = spec.loader = loader  # the module has the loader that Python made
            with self.context():
                loader.exec_module(module)

        around.exec_module = load_within_context
        spec.loader = around
        return spec
