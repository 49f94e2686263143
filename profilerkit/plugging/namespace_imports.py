"""What code of a namespace imports instead of the usual: modules that are imported already, and ``importlib``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["Importlib", "make_imported_spec"]


def make_imported_spec(fullname: str, module: ModuleType) -> ModuleSpec:
    """Return a spec under a name, by which a module is found that is imported already."""
    return ModuleSpec(fullname, _ImportedLoader(module), is_package=hasattr(module, "__path__"))


class _ImportedLoader(Loader):
    """Returns a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # importlib has replaced it by the spec that the search returned


class Importlib(ModuleType):
    """The ``importlib`` that code of a namespace imports: its ``import_module`` finds the modules of the folder.

    Args:
        name: The full name of the namespace's package.
        holds: Returns whether a module belongs to the namespace.
    """

    def __init__(self, name: str, holds: Callable[[str], bool]) -> None:
        super().__init__("importlib")

        def import_module(module: str, package: str | None = None) -> ModuleType:
            is_relative = module.startswith(".")
            return importlib.import_module(f"{name}.{module}" if not is_relative and holds(module) else module, package)

        self.__dict__["import_module"] = import_module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib, name)
