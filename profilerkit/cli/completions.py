"""The completions that a shell offers for the values of options and arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ..process.clean_output import results_alone

if TYPE_CHECKING:
    from ..hooks.infos import LoaderInfo

__all__ = ["complete_devices", "complete_forms", "complete_metrics", "complete_models"]

#: The most names of models that are offered: a shell asks before it shows more.
_MOST = 200


def complete_forms(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the forms that begin so."""
    from ..hooks.renderers import list_forms

    with results_alone():
        return [name for name in list_forms() if name.startswith(incomplete)]


def complete_metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the metrics that begin so, after the last comma; other status keys are nothing that people read."""
    from ..hooks.offers import list_status_keys
    from ..piping.status import Metric

    before, comma, begun = incomplete.rpartition(",")
    with results_alone():
        metrics = [offer.item for offer in list_status_keys() if issubclass(offer.item, Metric)]
        names = [name for metric in metrics for name in (metric.NAME, *metric.ALIASES)]
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]


def complete_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions: of ``torchvision:res`` that library's models, else libraries and files.

    A library that is not installed offers nothing.
    """
    from ..hooks.infos import LoaderInfo
    from ..hooks.manager import list_infos

    library, colon, _ = incomplete.partition(":")
    with results_alone():
        loaders = [offer.item for offer in list_infos(LoaderInfo) if offer.item.names is not None]
        if colon:
            names = [name for name in _list_names(loaders, library) if name.startswith(incomplete)]
            return list(map(CompletionItem, names[:_MOST]))
    libraries = [CompletionItem(f"{loader.name}:") for loader in loaders if loader.name.startswith(library)]
    return [_complete_files(incomplete), *libraries]


def _list_names(loaders: Iterable[LoaderInfo], library: str) -> Iterator[str]:
    """Yield the names of a library's models, each behind the library's and a colon."""
    for loader in loaders:
        if loader.name == library and loader.names is not None:
            with suppress(Exception):  # the library is not installed, or fails to import
                yield from loader.names()


def complete_devices(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions for a device that times are predicted for: the names of the catalog, and files."""
    from ..devices.catalog import device_names

    with results_alone():
        names = [name for name in device_names() if name.startswith(incomplete)]
    return [_complete_files(incomplete), *map(CompletionItem, names)]


def _complete_files(incomplete: str) -> CompletionItem:
    """Return the item for the files that begin so. It stands first: click's script for bash drops what is before it."""
    return CompletionItem(incomplete, type="file")
