"""What a shell offers to complete: for a MODEL a library, a name in it or a file; for a device its name or a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from ..process.clean_output import results_alone

if TYPE_CHECKING:
    import click

    from ..hooks.extension import LoaderInfo

__all__ = ["devices", "models"]

#: The most names that are offered: a shell asks before it shows more.
_MOST = 200


def models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions: of ``torchvision:res`` that library's models, else libraries and files.

    A library that is not installed offers nothing.
    """
    from ..hooks.extension import LoaderInfo
    from ..hooks.manager import list_infos

    library, colon, _ = incomplete.partition(":")
    with results_alone():
        loaders = [offer.item for offer in list_infos(LoaderInfo) if offer.item.names is not None]
        if colon:
            names = [name for name in _list_names(loaders, library) if name.startswith(incomplete)]
            return list(map(CompletionItem, names[:_MOST]))
    libraries = [CompletionItem(f"{loader.name}:") for loader in loaders if loader.name.startswith(library)]
    return [*libraries, CompletionItem(incomplete, type="file")]


def _list_names(loaders: Iterable[LoaderInfo], library: str) -> Iterator[str]:
    """Yield the names of a library's models, each behind the library's and a colon."""
    for loader in loaders:
        if loader.name == library and loader.names is not None:
            with suppress(Exception):  # the library is not installed, or fails to import
                yield from loader.names()


def devices(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions for a device that times are predicted for: the names of the catalog, and files."""
    from ..devices.catalog import device_names

    with results_alone():
        names = [name for name in device_names() if name.startswith(incomplete)]
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]
