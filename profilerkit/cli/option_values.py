"""The values of options: callbacks and checks, which read them now, and not when all is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..arguments.checks import ONE_BATCH_SIZE, Check, positive
from ..errors import ArgumentError, NotOfferedError
from ..input_shapes import shapes_of_text
from ..process.files import obstacle

__all__ = [
    "TIMEOUT",
    "check_batch_sizes",
    "check_form",
    "check_memory",
    "check_optimizer",
    "check_outputs",
    "check_shapes",
    "make_callback",
    "require_suffix",
    "require_writable",
    "split_names",
]

TIMEOUT = Check("a number of seconds above zero, such as 30", lambda text: positive("30").read(float(text)))


def check_form(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a form by the renderers that plugins offer."""
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
    """Check where a file is to go."""
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
    """Return a callback that checks a value as the function does that takes it."""

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        name = parameter.name or ""
        try:
            return None if value is None else check(name, value)
        except ValueError as error:  # `InputError` is one
            raise click.BadParameter(str(error).removeprefix(f"{name}=")) from None

    return read


def check_shapes(name: str, texts: tuple[str, ...]) -> Any:
    """Return ``input_shape``, of one sample, for ``3,224,224`` or ``ids=128:int64``, several of either."""
    return shapes_of_text(texts)


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
