"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol, TypeVar

import click

from ..arguments.checks import DEPTH, TOP
from ..backend import RUN_CHECKS
from ..times.sampling import SAMPLING_CHECKS
from .completions import complete_forms, complete_metrics
from .option_values import (
    TIMEOUT,
    check_batch_sizes,
    check_form,
    check_memory,
    check_optimizer,
    check_outputs,
    check_shapes,
    make_callback,
    require_writable,
    split_names,
)

__all__ = [
    "SharedOption",
    "TypedOption",
    "choose_form",
    "console_or_json",
    "format_option",
    "input_options",
    "isolation_options",
    "measuring_options",
    "output_option",
    "output_options",
    "pick",
    "strict_option",
    "trust_option",
]

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


class CommandDecorator(Protocol):
    """Adds options to a command, and returns it."""

    def __call__(self, command: F, /) -> F: ...


def pick(kind: type[T], options: Mapping[str, Any]) -> T:
    """Return a dataclass whose fields are filled from a command's options."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in options.items() if name in names})


class SharedOption(click.Option):
    """An option that means the same in every command that has it, so that ``pyproject.toml`` can set it for all."""


class TypedOption(click.Option):
    """An option that ``pyproject.toml`` cannot set: it may run code, or overwrite files, of whoever wrote that file."""


def _make_shared(*names: str, **attributes: Any) -> CommandDecorator:
    return click.option(*names, cls=SharedOption, **attributes)


def _combine(*options: CommandDecorator) -> CommandDecorator:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


trust_option: CommandDecorator = click.option(
    "--trust", is_flag=True, cls=TypedOption, help="Also load files that may run code, such as pickled models."
)

input_options: CommandDecorator = _combine(
    _make_shared(
        "--input-shape",
        multiple=True,
        metavar="SHAPE",
        callback=make_callback(check_shapes),
        help="Shape of one sample: 3,224,224, 128:int64 or ids=128:int64; repeat it for several inputs.",
    ),
    _make_shared(
        "--batch-size",
        metavar="SIZES",
        callback=make_callback(check_batch_sizes),
        help="Samples in one forward pass; several sizes, such as 1,8,32, are timed one after the other.",
    ),
    _make_shared("--device", help="Where to run: cpu, gpu, or a device name of the framework, such as cuda:1."),
    trust_option,
)

measuring_options: CommandDecorator = _combine(
    _make_shared(
        "--metric",
        multiple=True,
        metavar="NAMES",
        callback=split_names,
        shell_complete=complete_metrics,
        help="Compute only these metrics: macs,latency; it can be repeated.",
    ),
    _make_shared(
        "--leave-out",
        multiple=True,
        metavar="NAMES",
        callback=split_names,
        shell_complete=complete_metrics,
        help="Do not compute these metrics or status keys; it can be repeated.",
    ),
    _make_shared("--static", is_flag=True, help="Do not run the model: counts, sizes and memory only."),
    _make_shared(
        "--name", multiple=True, metavar="NAME", help="Name of the model in the result; repeat it for several models."
    ),
    _make_shared(
        "--optimizer",
        metavar="NAME",
        callback=make_callback(check_optimizer),
        help="Optimizer whose state is part of the training memory, such as adam. Default: none.",
    ),
    _make_shared(
        "--fit-in",
        metavar="SIZE",
        help="Find the largest batch that fits into a memory: '8 GB', or a device such as t4.",
    ),
    _make_shared(
        "--max-seconds",
        type=click.FloatRange(min=0, min_open=True),
        callback=make_callback(SAMPLING_CHECKS["max_seconds"]),
        help="Most seconds for the measurement of each time.",
    ),
    _make_shared(
        "--num-threads",
        type=click.IntRange(min=1),
        callback=make_callback(RUN_CHECKS["num_threads"]),
        help="Threads of an operator while times are measured; 1 gives the steadiest times.",
    ),
)

isolation_options: CommandDecorator = _combine(
    _make_shared(
        "--isolate", is_flag=True, help="Profile each model in a separate process; a crash is reported, not fatal."
    ),
    _make_shared(
        "--timeout",
        metavar="SECONDS",
        callback=make_callback(TIMEOUT),
        help="End a model's process after this time; implies --isolate.",
    ),
    _make_shared(
        "--memory",
        metavar="SIZE",
        callback=make_callback(check_memory),
        help="Most memory that a model's process may use: bytes, or '4 GiB'; implies --isolate.",
    ),
)


def output_option(help: str, callback: Callable[..., Any] = require_writable, **attributes: Any) -> Callable[[F], F]:
    """Return the option ``-o``, ``--output`` of a command, with its help and a function that reads the path."""
    kind = click.Path()  # the callback checks the path
    attributes |= {"metavar": "FILE", "type": kind, "callback": callback, "cls": TypedOption}
    return click.option("-o", "--output", help=help, **attributes)


def format_option(
    help: str, callback: Callable[..., Any], default: str = "console", **attributes: Any
) -> Callable[[F], F]:
    """Return the option ``--format`` of a command, with its help and a function that checks the name."""
    attributes |= {"metavar": "NAME", "default": default, "show_default": True, "callback": callback}
    return click.option("--format", "form", help=help, **attributes)


def choose_form(*forms: str, help: str = "") -> Callable[[F], F]:
    """Return the option ``--format`` with these names; its help names them unless another one is given."""

    def check(context: click.Context, parameter: click.Parameter, value: str) -> str:
        if value not in forms and not context.resilient_parsing:
            raise click.BadParameter(f"{value!r}: there are {', '.join(forms)}")
        return value

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        return [form for form in forms if form.startswith(incomplete)]

    listing = f"Format of the result: {', '.join(forms[:-1])} or {forms[-1]}."
    return format_option(help or listing, check, shell_complete=complete)


#: The option ``--format`` of a command whose result no renderer shows.
console_or_json: CommandDecorator = click.option(
    "--format",
    "form",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="Form of the printed result; JSON has every number in base units.",
)


output_options: CommandDecorator = _combine(
    click.option(
        "--layers",
        is_flag=True,
        help="Also show the layers, a description of each metric, and ten rows of each that is a table.",
    ),
    click.option(
        "--depth",
        type=click.IntRange(min=-1),
        callback=make_callback(DEPTH),
        help="Show the layers down to this depth; -1 for the innermost ones.",
    ),
    click.option(
        "--top",
        type=click.IntRange(min=1),
        callback=make_callback(TOP),
        help="Show only this many layers, those with the most MACs, and rows of each table.",
    ),
    click.option(
        "--configuration", is_flag=True, help="Also show how each layer is made, kernel_size=(3, 3), in --format tree."
    ),
    click.option(
        "--advice/--no-advice", default=True, help="Say in words what stands out, or only the numbers. Default: say it."
    ),
    format_option(
        "Format of the printed result: a renderer that 'profilerkit list' names.",
        check_form,
        default="summary",
        shell_complete=complete_forms,
    ),
    output_option(
        "Also write a file, in the format of its suffix (.json, .html, .csv, ...); repeat it for several.",
        check_outputs,
        multiple=True,
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print neither the result nor progress, only errors."),
)

strict_option: CommandDecorator = click.option(
    "--strict", is_flag=True, help="Exit with 1 if a value is partial or unavailable."
)
