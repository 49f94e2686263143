"""The values of options: callbacks and checks, which read them, and the completions that a shell offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..arguments.checks import ONE_BATCH_SIZE, Check, positive
from ..errors import ArgumentError, NotOfferedError
from ..input_shapes import shapes_of_text
from ..process.clean_output import results_alone
from ..process.files import obstacle

if TYPE_CHECKING:
    from ..hooks.infos import LoaderInfo

__all__ = [
    "TIMEOUT",
    "check_batch_sizes",
    "check_form",
    "check_memory",
    "check_optimizer",
    "check_outputs",
    "complete_devices",
    "complete_forms",
    "complete_metrics",
    "complete_models",
    "make_callback",
    "parse_shapes",
    "require_suffix",
    "require_writable",
    "split_names",
]

#: The most names of models that are offered: a shell asks before it shows more.
_MOST = 200


def parse_shapes(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return ``input_shape``, of one sample, for ``3,224,224`` or ``ids=128:int64``, several of either."""
    try:
        return shapes_of_text(values)
    except ArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--input-shape") from None


def check_form(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a form by the renderers that plugins offer: now, and not when all is measured."""
    from ..render import renderer

    if context.resilient_parsing:  # nothing runs: only completions are wanted
        return value
    try:
        renderer(value)
    except NotOfferedError as error:
        raise click.BadParameter(str(error)) from error
    return value


def split_names(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return names that are given one by one, or several with commas between them."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def require_writable(context: click.Context, parameter: click.Parameter, path: Any) -> Any:
    """Check where a file is to go: now, and not when all is measured."""
    if path is None:
        return None
    wrong = obstacle(path)
    if wrong is not None:
        raise click.BadParameter(wrong)
    return Path(path)


def require_suffix(*suffixes: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that checks where a file is to go, and that the end of its name tells one of these forms."""
    *others, last = suffixes
    names = f"{', '.join(others)} or {last}" if others else last

    def check(context: click.Context, parameter: click.Parameter, path: Any) -> Any:
        target = require_writable(context, parameter, path)
        if target is not None and target.suffix not in suffixes:
            raise click.BadParameter(f"{target.name!r}: give a name that ends in {names}")
        return target

    return check


def check_outputs(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[Path, ...]:
    """Check where files are to go, and that their suffixes say a form."""
    from .output import find_form

    targets = [require_writable(context, parameter, path) for path in paths]
    if not context.resilient_parsing:
        for target in targets:
            find_form(target)
    return tuple(targets)


# Checks, for `make_callback` ------------------------------------------------------------------------------------------


def make_callback(check: Callable[[str, Any], Any]) -> Callable[..., Any]:
    """Return a callback that checks a value as the function does that takes it: now, and not when all is measured."""

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        name = parameter.name or ""
        try:
            return None if value is None else check(name, value)
        except ValueError as error:  # `InputError` is one
            raise click.BadParameter(str(error).removeprefix(f"{name}=")) from None

    return read


TIMEOUT = Check("a number of seconds above zero, such as 30", lambda text: positive("30").read(float(text)))


def check_batch_sizes(name: str, text: str) -> Any:
    """Return one batch size for ``8``, several for ``1,8,32``."""
    try:
        numbers = [int(size) for size in text.split(",")]
    except ValueError:
        raise ArgumentError(f"{text!r}: give a whole number from 1, or several: 1,8,32") from None
    sizes = tuple(ONE_BATCH_SIZE(name, number) for number in numbers)
    return sizes if len(sizes) > 1 else sizes[0]


def check_memory(name: str, text: str) -> int:
    """Return a limit of memory in bytes."""
    from ..isolation.limits import parse_memory

    return parse_memory(text)


def check_optimizer(name: str, optimizer: str) -> str:
    """Return the name of an optimizer; raise an error if there is none of that name."""
    from ..backend_kit.optimizers import optimizer_bytes

    optimizer_bytes(optimizer, ())
    return optimizer


# Completions ----------------------------------------------------------------------------------------------------------


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
