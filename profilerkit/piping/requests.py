"""What a caller asks a profiler for: the status keys to compute, and the arguments that reach their functions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..arguments.checks import BATCH_SIZE
from ..arguments.names import argument_hint, foreign_hint
from ..errors import ArgumentError, ArgumentWarning, nearest
from ..process.user_lines import find_stack_level
from .registry import PROVIDED, RESERVED, Registry, is_bundle
from .status import Metric

__all__ = ["Preference", "first_of_several", "read_arguments", "read_request", "select_keys"]

#: What a profiler is made with; `profile` and `compare` take them too.
MADE_WITH = ("inputs", "input_shape", "data_splits")
#: How many metrics a message names of many.
_NAMED = 4


@dataclass(frozen=True)
class Preference:
    """The value of an argument that holds for whatever takes it, such as one that a file sets for all commands.

    If nothing that is requested takes it, it is left out without a warning.
    """

    value: Any


def read_request(
    registries: Sequence[Registry],
    names: Iterable[str] | None,
    arguments: Mapping[str, Any],
    strict: bool = False,
    static: bool = False,
    caller: Callable[..., Any] | None = None,
) -> tuple[list[list[str]], dict[str, Any]]:
    """Return the status keys to compute of each registry, and the arguments that reach the functions of these.

    ``static`` leaves out what runs the model, and its arguments. See `read_arguments` for ``strict`` and ``caller``.
    """
    preferred = {name for name, value in arguments.items() if isinstance(value, Preference)}
    read = read_arguments(arguments, registries, strict, caller)
    if static:
        return [_select_static_keys(registry, names, read) for registry in registries], read
    requested = [select_keys(registry, names, read) for registry in registries]
    return requested, _select_arguments(read, registries, requested, strict, preferred)


# Arguments ------------------------------------------------------------------------------------------------------------


def read_arguments(
    kwargs: Mapping[str, Any],
    registries: Sequence[Registry],
    strict: bool = False,
    caller: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Return the arguments that functions of the registries take, those that are well known as plain values.

    Raises `ArgumentError` for a value that the checks of the functions refuse. An argument that no function takes
    is most often a typo: a warning says what is meant, with ``strict`` an `ArgumentError`. The
    parameters of ``caller``, the function that the user has called, are among what can be meant.
    """
    if not kwargs:
        return {}
    taken = {name for registry in registries for name in registry.parameters()}
    names = {*taken, *(RESERVED if caller is None else inspect.signature(caller).parameters)} - {"arguments"}
    elsewhere = {name: f"a profiler takes {name!r} when it is made" for name in MADE_WITH if name not in names}
    elsewhere |= {name: hint for name in kwargs if (hint := foreign_hint(name, kwargs[name], names))}
    for name in sorted(kwargs.keys() - taken):
        if isinstance(kwargs[name], Preference):
            continue
        message = f"no registered function takes an argument {name!r}; {argument_hint(name, names, elsewhere)}"
        if strict:
            raise ArgumentError(message)
        warnings.warn(message, ArgumentWarning, stacklevel=find_stack_level())
    for registry in registries:
        _require_once(registry, kwargs)
    functions = [function for registry in registries for function in registry.functions()]
    checks = {name: check for function in functions for name, check in function.CHECKS.items()}
    values = {name: value.value if isinstance(value, Preference) else value for name, value in kwargs.items()}
    read = {name: value for name, value in values.items() if name in taken}
    return {name: checks[name](name, value) if name in checks else value for name, value in read.items()}


def _require_once(registry: Registry, arguments: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` where a bundle is given as a whole and in parts."""
    for name in arguments:
        if name not in registry or not is_bundle(registry[name].function):
            continue
        parts = sorted(registry[name].function.parameters().keys() & arguments.keys())
        if parts:
            raise ArgumentError(
                f"both {name} and {', '.join(parts)} were given; give one of them: {name} holds "
                f"{'it' if len(parts) == 1 else 'them'} too"
            )


def first_of_several(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's arguments with the first of several batch sizes, and with all of them as ``batch_sizes``.

    >>> first_of_several({"batch_size": (8, 1), "split": "test"})
    {'batch_sizes': (8, 1), 'batch_size': 8, 'split': 'test'}
    """
    sizes = BATCH_SIZE("batch_size", arguments.get("batch_size"))
    if not isinstance(sizes, tuple):
        return dict(arguments)
    return {"batch_sizes": sizes, **arguments, "batch_size": sizes[0]}


def _select_arguments(
    arguments: Mapping[str, Any],
    registries: Sequence[Registry],
    requested: Sequence[Sequence[str]],
    strict: bool,
    preferred: Collection[str],
) -> dict[str, Any]:
    """Return the arguments that reach what is requested: the status keys of each registry.

    One that only other functions take changes nothing, which a warning says; with ``strict`` it is an `ArgumentError`.
    Nothing is said of those that are ``preferred``.
    The batch size and the device belong to every request: a report states them.
    """
    if not arguments:
        return {}
    reaching = {
        name for registry, keys in zip(registries, requested, strict=True) for name in registry.find_reaching(keys)
    }
    unused = sorted(arguments.keys() - reaching - {"batch_size", "device"})
    options = {name for name in reaching - {*PROVIDED} if all(name not in registry for registry in registries)}
    functions = [function for registry in registries for function in registry.functions()]
    asking = {name for function in functions for name in function.COMPUTED_WITH}
    for name in unused:
        if name in preferred or (name in asking and arguments[name] is False):
            continue  # one that is False asks for nothing
        takers = {key for registry in registries for key in _list_keys_that_take(registry, name)}
        usual = {key for registry in registries for key in registry.names()}
        meant = nearest(name, options)
        message = (
            f"nothing that is requested takes an argument {name!r}, only "
            f"{_list_some(sorted(takers, key=lambda key: (key not in usual, key)))}; leave it out, or "
            f"request one of these{'' if meant is None else f'; did you mean {meant!r}?'}"
        )
        if strict:
            raise ArgumentError(message)
        warnings.warn(message, ArgumentWarning, stacklevel=find_stack_level())
    return {name: value for name, value in arguments.items() if name not in unused}


def _list_some(names: Sequence[str]) -> str:
    """Return names for a message, the first of them where there are many.

    >>> _list_some(["macs", "flops"]), _list_some([f"m{number}" for number in range(21)])
    ('macs, flops', 'm0, m1, m2, m3 and 17 others')
    """
    some = names if len(names) <= _NAMED + 1 else names[:_NAMED]
    return f"{', '.join(some)}{f' and {len(names) - _NAMED} others' if len(some) < len(names) else ''}"


def _list_keys_that_take(registry: Registry, argument: str) -> list[str]:
    """Return the status keys for people whose functions an argument reaches."""
    metrics = [binding.key.NAME for binding in registry if isinstance(binding.key, Metric)]
    return [name for name in metrics if argument in registry.find_reaching([name])]


# Status keys ----------------------------------------------------------------------------------------------------------


def select_keys(registry: Registry, names: Iterable[str] | None, arguments: Mapping[str, Any]) -> list[str]:
    """Return the status keys to compute: the named ones, or all of the tables, and those that an argument asks for.

    Raises `UnknownStatusError` for a name that no function computes, and `ArgumentError` where an argument has
    several values, and nobody would read but the first of them.
    """
    requested = [registry[name].key.NAME for name in (registry.names() if names is None else names)]
    read = first_of_several(arguments)
    asking = [
        function
        for function in registry.functions()
        if any(read.get(name, False) is not False for name in function.COMPUTED_WITH)
    ]
    if "batch_sizes" in read and not any("batch_sizes" in function.COMPUTED_WITH for function in asking):
        raise ArgumentError(
            f"batch_size={arguments.get('batch_size')!r}: several batch sizes are for a function that takes "
            "'batch_sizes', and none is registered; register one, or give one batch size"
        )
    further = [binding.key.NAME for function in asking for binding in registry if binding.function is function]
    return list(dict.fromkeys([*requested, *further]))


def _select_static_keys(registry: Registry, names: Iterable[str] | None, arguments: Mapping[str, Any]) -> list[str]:
    """Return the status keys for which nothing is run: of all metrics of the tables, unless some are named.

    Those that an argument asks for are among them. Raises `ArgumentError` for a named one that runs the model.
    """
    listed = [registry[name].key.NAME for name in (() if names is None else names)]
    running = [name for name in listed if registry.runs_the_model(name)]
    if running:
        raise ArgumentError(
            f"static=True runs nothing, and {', '.join(running)} needs the model to run; leave out one of both"
        )
    chosen = select_keys(registry, names if names is None else listed, arguments)
    metrics = [name for name in chosen if isinstance(registry[name].key, Metric) and not registry.runs_the_model(name)]
    return list(dict.fromkeys([*listed, *metrics]))
