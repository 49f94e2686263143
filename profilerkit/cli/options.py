"""The options that several commands share, and what their texts mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from ..arguments.checks import DEPTH, ONE_BATCH_SIZE, TOP, Check, positive
from ..arguments.shape_text import shapes_of_text
from ..backend import RUN_CHECKS
from ..errors import ArgumentError, NotOfferedError
from ..process.clean_output import results_alone
from ..process.files import obstacle
from ..times.sampling import SAMPLING_CHECKS

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
    "parse_batch_sizes",
    "parse_shapes",
    "pick",
    "require_writable",
    "strict_option",
    "trust_option",
]

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


class CommandDecorator(Protocol):
    """Adds options to a command, and returns it."""

    def __call__(self, command: F, /) -> F: ...


def pick(kind: type[T], options: Mapping[str, Any]) -> T:
    """Return a dataclass of those of a command's options that are its fields."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in options.items() if name in names})


def parse_shapes(values: tuple[str, ...]) -> Any:
    """Return ``input_shape``, of one sample, for ``3,224,224`` or ``ids=128:int64``, several of either."""
    try:
        return shapes_of_text(values)
    except ArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--input-shape") from None


def make_callback(check: Callable[[str, Any], Any]) -> Callable[..., Any]:
    """Return a callback that checks a value as the function does that takes it: now, and not when all is measured."""

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        name = parameter.name or ""
        try:
            return None if value is None else check(name, value)
        except ValueError as error:  # `InputError` is one
            raise click.BadParameter(str(error).removeprefix(f"{name}=")) from None

    return read


def _read_batch_size(text: str) -> int:
    size: int = ONE_BATCH_SIZE("batch_size", int(text))
    return size


def parse_batch_sizes(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return one batch size for ``8``, several for ``1,8,32``."""
    if value is None:
        return None
    try:
        sizes = tuple(map(_read_batch_size, value.split(",")))
    except ValueError:
        raise click.BadParameter(f"{value!r}: give a whole number from 1, or several: 1,8,32") from None
    return sizes if len(sizes) > 1 else sizes[0]


def _check_form(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a form by the renderers that plugins offer: now, and not when all is measured."""
    from ..render import renderer

    if context.resilient_parsing:  # nothing runs: only completions are wanted
        return value
    try:
        renderer(value)
    except NotOfferedError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _complete_forms(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..plugging.offers import list_renderers

    with results_alone():
        return [offer.item.name for offer in list_renderers() if offer.item.name.startswith(incomplete)]


def _complete_metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the metrics that begin so, after the last comma; other status keys are nothing that people read."""
    from ..piping.status import Metric
    from ..plugging.offers import list_status_keys

    before, comma, begun = incomplete.rpartition(",")
    with results_alone():
        metrics = [offer.item for offer in list_status_keys() if issubclass(offer.item, Metric)]
        names = [name for metric in metrics for name in (metric.NAME, *metric.ALIASES)]
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]


def _split_names(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
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


def _check_outputs(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[Path, ...]:
    """Check where files are to go, and that their suffixes say a form."""
    from .output import find_form

    targets = [require_writable(context, parameter, path) for path in paths]
    if not context.resilient_parsing:
        for target in targets:
            find_form(target)
    return tuple(targets)


_TIMEOUT = Check("a number of seconds above zero, such as 30", lambda text: positive("30").read(float(text)))


def _check_memory(name: str, text: str) -> int:
    from ..isolation.limits import parse_memory

    return parse_memory(text)


def _check_optimizer(name: str, optimizer: str) -> str:
    from ..backend_kit.optimizers import optimizer_bytes

    optimizer_bytes(optimizer, ())
    return optimizer


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
        help="Shape of one sample: 3,224,224, 128:int64 or ids=128:int64; repeat it for several inputs.",
    ),
    _make_shared(
        "--batch-size",
        metavar="SIZES",
        callback=parse_batch_sizes,
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
        callback=_split_names,
        shell_complete=_complete_metrics,
        help="Compute only these metrics: macs,latency; it can be repeated.",
    ),
    _make_shared(
        "--leave-out",
        multiple=True,
        metavar="NAMES",
        callback=_split_names,
        shell_complete=_complete_metrics,
        help="Do not compute these metrics or status keys; it can be repeated.",
    ),
    _make_shared("--static", is_flag=True, help="Do not run the model: counts, sizes and memory only."),
    _make_shared(
        "--name", multiple=True, metavar="NAME", help="Name of the model in the result; repeat it for several models."
    ),
    _make_shared(
        "--optimizer",
        metavar="NAME",
        callback=make_callback(_check_optimizer),
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
        callback=make_callback(_TIMEOUT),
        help="End a model's process after this time; implies --isolate.",
    ),
    _make_shared(
        "--memory",
        metavar="SIZE",
        callback=make_callback(_check_memory),
        help="Most memory that a model's process may use: bytes, or '4 GiB'; implies --isolate.",
    ),
)


def output_option(help: str, callback: Callable[..., Any] = require_writable, **attributes: Any) -> Callable[[F], F]:
    """Return the option ``-o``, ``--output`` of a command, with its help and what reads the path."""
    kind = click.Path()  # the callback says what is wrong with a path
    attributes |= {"metavar": "FILE", "type": kind, "callback": callback, "cls": TypedOption}
    return click.option("-o", "--output", help=help, **attributes)


def format_option(
    help: str, callback: Callable[..., Any], default: str = "console", **attributes: Any
) -> Callable[[F], F]:
    """Return the option ``--format`` of a command, with its help and what checks the name."""
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
        _check_form,
        default="summary",
        shell_complete=_complete_forms,
    ),
    output_option(
        "Also write a file, in the format of its suffix (.json, .html, .csv, ...); repeat it for several.",
        _check_outputs,
        multiple=True,
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print neither the result nor progress, only errors."),
)

strict_option: CommandDecorator = click.option(
    "--strict", is_flag=True, help="Exit with 1 if a value is partial or unavailable."
)
