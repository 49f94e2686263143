"""``profilerkit doctor``: the installed packages, and the capabilities of each backend."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from textwrap import fill
from typing import TYPE_CHECKING

import click

from ..errors import ArgumentError
from ..hooks.commands import load_command
from ..hooks.manager import list_infos
from ..process.clean_output import terminal_columns
from ..process.progress import track
from .configuration import choose_values, read_configuration
from .examining import examine_by_loading
from .printing import emit

if TYPE_CHECKING:
    from ..backend import Backend

__all__ = ["command"]

#: Optional packages, and their purposes; frameworks are listed with their backends.
OPTIONAL = {
    "pandas": "to_pandas()",
    "matplotlib": "figures",
    "timm": "timm:NAME on the command line",
    "torchvision": "torchvision:NAME on the command line",
    "transformers": "hf:NAME on the command line",
}
#: The columns of the name in a line; two spaces are before it, and one behind it.
_NAME_WIDTH = 16


@click.command("doctor")
def command() -> None:
    """Show what is installed, and what each backend can do here.

    Useful for a bug report, and before a measurement.
    """
    emit("This machine", bold=True)
    _show_machine()
    emit("\nPackages", bold=True)
    _show_packages()
    emit("\nConfiguration", bold=True)
    _show_configuration()
    emit("\nBackends", bold=True)
    _show_backends()


def _show_machine() -> None:
    from ..piping.quantity import Scale, scale_value
    from ..process import environment

    for name, value in environment.machine().items():
        if name.endswith("_bytes"):
            name, value = name.removesuffix("_bytes"), str(scale_value(int(value), "B", Scale.IEC))
        _print_line(name, value)


def _show_packages() -> None:
    _print_line("profilerkit", version("profilerkit"))
    for package, use in OPTIONAL.items():
        _print_line(package, f"{_find_version(package)}  ({use})")


def _show_configuration() -> None:
    """Print the options that ``pyproject.toml`` sets, or its error."""
    try:
        configuration = read_configuration()
        for configured in filter(None, map(load_command, configuration.commands)):
            choose_values(configuration, configured)  # for the errors that it raises
    except ArgumentError as error:
        emit(f"  {error}")
        return
    if configuration.path is None:
        emit("  none: no pyproject.toml here or above has a table [tool.profilerkit]")
        return
    _print_line("file", str(configuration.path))
    tables = {"": configuration.shared, **{f"{name}.": table for name, table in configuration.commands.items()}}
    for prefix, table in tables.items():
        for key, value in table.items():
            _print_line(f"{prefix}{key}", str(value))


def _show_backends() -> None:
    """Print each backend as soon as it is loaded, those that cannot be loaded at the end."""
    from ..hooks.infos import BackendInfo

    unusable: dict[str, str] = {}
    for offer in list_infos(BackendInfo):
        name = offer.item.name
        # The bar ends with the list, before anything is printed.
        [(backend, line, _)] = [examine_by_loading(loading) for loading in track([offer], f"Loading {name}")]
        if backend is None:
            unusable[name] = line
            continue
        _print_line(name, line or "ready")
        for heading, things in _list_abilities(backend).items():
            _print_paragraph(heading, things)
    for name, reason in unusable.items():
        _print_line(name, reason)


def _print_line(name: str, value: str) -> None:
    emit(f"  {name:<{_NAME_WIDTH}} {value}".rstrip())


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _print_paragraph(heading: str, things: list[str]) -> None:
    """Print things, if there are any, as lines that fit the terminal, below the values of `_print_line`."""
    if things:
        width = max(60, terminal_columns(100))
        indent = " " * (2 + _NAME_WIDTH + 1)
        emit(fill(f"{heading}: {'; '.join(things)}", width, initial_indent=indent, subsequent_indent=f"{indent}  "))


def _list_abilities(backend: Backend) -> dict[str, list[str]]:
    """Return the optional capabilities that a backend, or a plugin for it, has and lacks."""
    from ..hooks.backend_additions import list_capabilities
    from ..protocols import abilities

    is_offered = abilities(backend, list_capabilities())
    return {
        "offers": [ability for ability in is_offered if is_offered[ability]],
        "runs models as": list(backend.execution_modes),
        "options of a run": list(backend.offered_options) or ["none"],
        "does not offer": [ability for ability in is_offered if not is_offered[ability]],
    }
