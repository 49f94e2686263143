"""What shells offer: for a MODEL files, the libraries that models are loaded from, and their names; devices."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from ..process.clean_output import results_alone

if TYPE_CHECKING:
    import click

__all__ = ["devices", "models"]

#: The most names that are offered: a shell asks before it shows more.
_MOST = 200


def models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions: of ``torchvision:res`` that library's models, else libraries and files.

    A library that is not installed offers nothing. Bash takes what is typed before a colon as a word of its own, so
    there only what follows the colon is returned.
    """
    from ..plugging.offers import list_loaders

    library, colon, _ = incomplete.partition(":")
    with results_alone():
        loaders = [offer.item for offer in list_loaders()]
        if not colon:
            prefixes = [
                loader.name for loader in loaders if loader.names is not None and loader.name.startswith(library)
            ]
            return [*(CompletionItem(f"{prefix}:") for prefix in prefixes), CompletionItem(incomplete, type="file")]
        names: list[str] = []
        for loader in loaders:
            if loader.names is not None and loader.name == library:
                with suppress(Exception):  # the library is not installed, or fails to import
                    names += [name for name in loader.names() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names[:_MOST]]


def devices(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions for a device that times are predicted for: the names of the catalog, and files."""
    from ..devices.catalog import device_names

    with results_alone():
        names = [name for name in device_names() if name.startswith(incomplete)]
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]
