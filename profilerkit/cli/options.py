"""The options that several commands share, and what their texts mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import NotOfferedError

__all__ = [
    "input_options",
    "measuring_options",
    "output_options",
    "parse_batch_sizes",
    "parse_shapes",
    "picked",
    "require_writable",
    "strict_option",
]

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


def picked(kind: type[T], options: Mapping[str, Any]) -> T:
    """Return a dataclass of those of a command's options that are its fields."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in options.items() if name in known})


def parse_shapes(values: tuple[str, ...]) -> tuple[Any, int | None]:
    """Return (input_shape, batch size) for ``1,3,224,224`` or ``ids=1,128:int64``, several of either.

    The first dimension is the batch, which all inputs share.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    batches = set()
    for value in values:
        name, _, rest = value.rpartition("=")
        sizes, _, dtype = rest.partition(":")
        try:
            batch, *shape = map(_positive, sizes.split(","))
        except ValueError:
            raise click.BadParameter(
                f"{value!r} is no shape; give 1,3,224,224 (batch first), with a name and dtype ids=1,128:int64",
                param_hint="--input-shape",
            ) from None
        batches.add(batch)
        spec = (tuple(shape), dtype or "float32")
        if name:
            named[name] = spec
        else:
            positional.append(spec)
    if len(batches) > 1:
        raise click.BadParameter("the inputs have different batch sizes (first dimensions)", param_hint="--input-shape")
    if positional and named:
        raise click.BadParameter("name all inputs or none of them", param_hint="--input-shape")
    return (named or positional or None), (batches.pop() if batches else None)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number


def parse_batch_sizes(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return one batch size for ``8``, several for ``1,8,32``."""
    if value is None:
        return None
    try:
        sizes = tuple(map(_positive, value.split(",")))
    except ValueError:
        raise click.BadParameter(f"{value!r}: give a whole number from 1, or several: 1,8,32") from None
    return sizes if len(sizes) > 1 else sizes[0]


def _form(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a form by the renderers that plugins offer: now, and not when all is measured."""
    from ..render import renderer

    if context.resilient_parsing:  # nothing runs: only completions are wanted
        return value
    try:
        renderer(value)
    except NotOfferedError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _forms(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..plugins import offered_renderers

    return [offer.item.name for offer in offered_renderers() if offer.item.name.startswith(incomplete)]


def _metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..plugins import offered_status_keys

    return [offer.item.NAME for offer in offered_status_keys() if offer.item.NAME.startswith(incomplete)]


def require_writable(context: click.Context, parameter: click.Parameter, path: Any) -> Any:
    """Check where a file is to go: now, and not when all is measured."""
    if path is None:
        return None
    path = Path(path)
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.is_dir():
        raise click.BadParameter(f"{str(path)!r} is a folder; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"the folder {str(path.parent)!r} is read-only; {path.name!r} has to go elsewhere")
    return path


def _writable(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[Path, ...]:
    """Check where files are to go, and that their suffixes say a form."""
    from .output import form_of

    places = [require_writable(context, parameter, path) for path in paths]
    if not context.resilient_parsing:
        for place in places:
            form_of(place)
    return tuple(places)


def _several(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


input_options = _several(
    click.option("--input-shape", multiple=True, metavar="SHAPE", help="1,3,224,224 or ids=1,128:int64; batch first."),
    click.option(
        "--batch-size",
        metavar="SIZES",
        callback=parse_batch_sizes,
        help="Samples in one forward pass; several, 1,8,32, are timed one after the other.",
    ),
    click.option("--device", help="cpu, gpu, or a string of the framework such as cuda:1."),
)

measuring_options = _several(
    click.option(
        "--metric", multiple=True, shell_complete=_metrics, help="Only this metric; may be given several times."
    ),
    click.option("--leave-out", multiple=True, help="Not this status key of any plugin's; may be given several times."),
    click.option(
        "--max-seconds",
        type=click.FloatRange(min=0, min_open=True),
        help="Longest time to spend on measuring the execution time.",
    ),
)

output_options = _several(
    click.option("--layers", is_flag=True, help="Show descriptions and the layers too."),
    click.option("--depth", type=click.IntRange(min=0), help="Show the layers down to this depth."),
    click.option("--top", type=click.IntRange(min=1), help="Show only so many layers, those with the most MACs."),
    click.option(
        "--format",
        "form",
        metavar="NAME",
        default="console",
        show_default=True,
        callback=_form,
        shell_complete=_forms,
        help="How to print the result: the name of a renderer, which 'profilerkit list' shows.",
    ),
    click.option(
        "--output",
        multiple=True,
        metavar="FILE",
        callback=_writable,
        type=click.Path(),
        help="Write a file too, in the form of its suffix; may be given several times.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print neither the result nor progress; errors are said."),
)

strict_option = click.option("--strict", is_flag=True, help="Exit with 1 where a value is partial or unavailable.")
