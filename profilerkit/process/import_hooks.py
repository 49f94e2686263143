"""A context around an import by other code."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import AbstractContextManager
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
        """Return where Python finds a module, with a loader that loads it within the context; None for other modules.

        Python makes a loader for each module anew, so that its method can be replaced for this one import.
        """
        spec = PathFinder.find_spec(name, path, target) if name in self.names else None
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        load: Callable[[ModuleType], None] = loader.exec_module

        def load_within_context(module: ModuleType) -> None:
            del loader.exec_module  # the module keeps its loader, which is to be as Python makes it
            with self.context():
                load(module)

        loader.exec_module = load_within_context
        return spec
