"""Public names that are imported at their first use, so that a package is cheap to import; those of others."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["INSTEAD", "install_lazy_names", "module_of_each"]


def module_of_each(names: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name, from the names of each module, with blanks between them.

    >>> module_of_each({".costs": "Cost Shape"})
    {'Cost': '.costs', 'Shape': '.costs'}
    """
    return {name: module for module, text in names.items() for name in text.split()}


def install_lazy_names(package: str, names: Mapping[str, str], requirement: str = "") -> None:
    """Give a package a ``__getattr__`` and a ``__dir__`` for its public names.

    Type checkers see neither: they read the imports under ``TYPE_CHECKING``, and find a misspelt name.

    Args:
        package: The name of the package.
        names: The module of each public name; a relative one is relative to the package.
        requirement: What to install where the framework of the package is missing; a name that needs it then raises
            `BackendNotInstalledError`.
    """
    module = sys.modules[package]

    def get(name: str) -> Any:
        if name not in names:
            raise _make_unknown_error(package, name)
        try:
            value = getattr(import_module(names[name], package), name)
        except ModuleNotFoundError as error:
            explained = _explain_missing(f"{package}.{name}", error, requirement)
            if explained is None:
                raise
            raise explained from error
        setattr(module, name, value)  # the next use does not come here
        return value

    def list_names() -> list[str]:
        return sorted({*vars(module), *names})

    vars(module).update(__getattr__=get, __dir__=list_names)


def _make_unknown_error(package: str, name: str) -> Exception:
    """Return the error for a name that a package does not have; for one of another profiler it says what to use."""
    if name in INSTEAD:  # no AttributeError: an import statement would raise another message in its place
        return ImportError(f"{package} has no {name}, a name of another profiler; {INSTEAD[name]}")
    return AttributeError(f"module {package!r} has no attribute {name!r}")


def _explain_missing(name: str, error: ModuleNotFoundError, requirement: str) -> Exception | None:
    """Return what to raise where a module is missing; None if the error itself says all."""
    from ..errors import BackendNotInstalledError, NotOfferedError  # here, so that the import of a package stays cheap

    missing = error.name or ""
    if missing.startswith("profilerkit_") and "." not in missing:
        return NotOfferedError(
            f"{name} cannot be used: the package {missing} is missing, which comes with profilerkit; install "
            "profilerkit again"
        )
    if requirement and not missing.startswith("profilerkit"):
        return BackendNotInstalledError(f"{name} cannot be used: {error}; install it with: pip install '{requirement}'")
    return None


# Names that people import from other profilers ------------------------------------------------------------------------


_PROFILE = "profile(model, inputs) returns a report: report[key] is a number, and print(report) shows all"
_TEXT = "report.status(key).shown is a value as text, and report[key] the number"
_TIMES = (
    "profiler.layer_times() of a Profiler times the layers of any code; .table has the times, .table.to_tree() as dicts"
)

#: What to use for a name, by the name in DeepSpeed, nnprofiler, moduleprofiler, ptflops, thop, fvcore and torchinfo.
INSTEAD = {
    **dict.fromkeys(("get_model_profile", "FlopsProfiler", "add_profile_methods", "ModuleProfiler"), _PROFILE),
    **dict.fromkeys(("get_model_complexity_info", "FlopCountAnalysis", "summary"), _PROFILE),
    **dict.fromkeys(("flops_to_string", "macs_to_string", "params_to_string", "duration_to_string"), _TEXT),
    **dict.fromkeys(("number_to_string", "bytes_to_string", "clever_format"), _TEXT),
    "LayerProf": _TIMES,
    "visulize_the_profile_dict": "report.plot('icicle', by=...) returns a figure: fig, ax = report.plot(...)",
    "print_namespace_tree": "report.to_text(form='tree') is the model with its numbers",
}
