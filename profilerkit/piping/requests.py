"""The request of a caller: the status keys to compute, and the arguments that reach their functions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..arguments.names import argument_hint, foreign_hint
from ..count_text import list_some
from ..errors import ArgumentError, ArgumentWarning
from ..process.user_lines import find_stack_level
from .function import RESERVED, Need, ProfilerFunction
from .registry import Registry
from .status import Metric

__all__ = ["KeyRequest", "Preference", "first_of_several", "read_arguments", "read_request", "select_keys"]

#: The arguments of a profiler's constructor; `profile` and `compare` take them too.
MADE_WITH = ("inputs", "input_shape", "data_splits")
#: How many metrics a message names of many.
_NAMED = 4


@dataclass(frozen=True)
class Preference:
    """The value of an argument for every function that takes it, such as a value that a file sets for all commands.

    If no requested function takes it, it is left out without a warning.
    """

    value: Any


@dataclass(frozen=True)
class KeyRequest:
    """What a caller asks profilers for.

    Attributes:
        names: The status keys; None for all that each profiler has in its tables.
        arguments: The arguments of the functions, by name.
        strict: Whether an argument that changes nothing, and a value that is not complete, is an error.
        static: Whether functions that run the model are left out, with their arguments.
        caller: The function that the user has called: an unknown argument may mean one of its parameters.
    """

    names: Iterable[str] | None
    arguments: Mapping[str, Any]
    strict: bool = False
    static: bool = False
    caller: Callable[..., Any] | None = None

    @property
    def is_selective(self) -> bool:
        """Whether a report shows the requested keys alone, and not all metrics that the profiler has."""
        return self.static or self.names is not None


def read_request(request: KeyRequest, registries: Sequence[Registry]) -> tuple[list[list[str]], dict[str, Any]]:
    """Return the status keys to compute of each registry, and the arguments that reach the functions of these."""
    arguments = read_arguments(request, registries)
    if request.static:
        return [_select_static_keys(registry, request, arguments) for registry in registries], arguments
    requested = [select_keys(registry, request.names, arguments) for registry in registries]
    if not arguments:
        return requested, {}
    reaching: set[str] = set()
    for registry, keys in zip(registries, requested, strict=True):
        reaching |= registry.list_reaching_arguments(keys)
    return requested, _leave_out_unused(request, arguments, registries, reaching)


# Arguments ------------------------------------------------------------------------------------------------------------


def read_arguments(request: KeyRequest, registries: Sequence[Registry]) -> dict[str, Any]:
    """Return the arguments that functions of the registries take, as the checks of the functions return them.

    Raises `ArgumentError` for a value that a check refuses. An argument that no function takes is most often a typo: a
    warning says what is meant, with ``strict`` an `ArgumentError`.
    """
    if not request.arguments:
        return {}
    taken = {name for registry in registries for name in registry.list_all_arguments()}
    _report_unknown(request, taken)
    for registry in registries:
        _require_once(registry, request.arguments)
    checks = {name: check for function in _list_functions(registries) for name, check in function.CHECKS.items()}
    read: dict[str, Any] = {}
    for name, value in request.arguments.items():
        if name in taken:
            plain = value.value if isinstance(value, Preference) else value
            read[name] = checks[name](name, plain) if name in checks else plain
    return read


def _report_unknown(request: KeyRequest, taken: Collection[str]) -> None:
    """Say of each argument that no function takes what may be meant by it: one that is taken, or one of the caller."""
    own_names = RESERVED if request.caller is None else inspect.signature(request.caller).parameters
    possible = {*taken, *own_names} - {"arguments"}
    hints = {name: f"a profiler takes {name!r} when it is made" for name in MADE_WITH if name not in possible}
    for name, value in sorted(request.arguments.items()):
        if name not in taken and not isinstance(value, Preference):
            hint = foreign_hint(name, value, possible)
            explanation = argument_hint(name, possible, {**hints, name: hint} if hint else hints)
            _refuse_or_warn(f"no registered function takes an argument {name!r}; {explanation}", request.strict)


def _refuse_or_warn(message: str, strict: bool) -> None:
    """Raise an `ArgumentError` of a useless argument if ``strict``; else warn."""
    if strict:
        raise ArgumentError(message)
    warnings.warn(message, ArgumentWarning, stacklevel=find_stack_level())


def _list_functions(registries: Iterable[Registry]) -> list[ProfilerFunction]:
    return [function for registry in registries for function in registry.functions()]


def _require_once(registry: Registry, arguments: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` where a bundle is given as a whole and in parts."""
    for name in arguments:
        if name not in registry or not registry[name].is_bundle:
            continue
        parts = sorted(registry[name].contract.parameters.keys() & arguments.keys())
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
    sizes = arguments.get("batch_size")
    if not isinstance(sizes, (tuple, list)):
        return dict(arguments)
    return {"batch_sizes": sizes, **arguments, "batch_size": sizes[0]}


def _leave_out_unused(
    request: KeyRequest, arguments: Mapping[str, Any], registries: Sequence[Registry], reaching: Collection[str]
) -> dict[str, Any]:
    """Return those of the arguments that reach a requested function, and warn that the others change nothing.

    The batch size and the device belong to every request: a report states them. A `Preference` may reach nothing, and
    so may False for an argument that requests a status key.
    """
    unused = arguments.keys() - {*reaching, "batch_size", "device"}
    requesting = {name for function in _list_functions(registries) for name in function.COMPUTED_WITH}
    for name in sorted(unused):
        requests_nothing = name in requesting and arguments[name] is False
        if not requests_nothing and not isinstance(request.arguments[name], Preference):
            _refuse_or_warn(_explain_unused(name, registries), request.strict)
    return {name: value for name, value in arguments.items() if name not in unused}


def _explain_unused(name: str, registries: Sequence[Registry]) -> str:
    """Return the message on an argument that only functions take which are not requested."""
    takers = {
        binding.key.NAME
        for registry in registries
        for binding in registry
        if isinstance(binding.key, Metric) and name in registry.list_reaching_arguments([binding.key.NAME])
    }
    in_tables = {key for registry in registries for key in registry.names()}
    shown = list_some([*sorted(takers & in_tables), *sorted(takers - in_tables)], _NAMED)
    return f"nothing that is requested takes an argument {name!r}, only {shown}; leave it out, or request one of these"


# Status keys ----------------------------------------------------------------------------------------------------------


def select_keys(registry: Registry, names: Iterable[str] | None, arguments: Mapping[str, Any]) -> list[str]:
    """Return the status keys to compute: the named keys, or all keys of tables, and keys that an argument requests.

    Raises `UnknownStatusError` for a name that no function computes, and `ArgumentError` if an argument has several
    values, but no function reads more than the first.
    """
    requested = [registry[name].key.NAME for name in (registry.names() if names is None else names)]
    if arguments:
        requested += _list_requested_by(registry, arguments)
    return list(dict.fromkeys(requested))


def _list_requested_by(registry: Registry, arguments: Mapping[str, Any]) -> list[str]:
    """Return the status keys that arguments ask for."""
    read = first_of_several(arguments)
    requested = [
        binding
        for binding in registry
        if any(read.get(name, False) is not False for name in binding.function.COMPUTED_WITH)
    ]
    takes_several = any("batch_sizes" in binding.function.COMPUTED_WITH for binding in requested)
    if "batch_sizes" in read and not takes_several:
        raise ArgumentError(
            f"batch_size={arguments.get('batch_size')!r}: several batch sizes are for a function that takes "
            "'batch_sizes', and none is registered; register one, or give one batch size"
        )
    return [binding.key.NAME for binding in requested]


def _select_static_keys(registry: Registry, request: KeyRequest, arguments: Mapping[str, Any]) -> list[str]:
    """Return the status keys for which nothing is run: of all metrics of the tables, unless some are named.

    Those that an argument asks for are among them. Raises `ArgumentError` for a named one that runs the model. A
    function of the user's that is left out because it may run the model is named; with ``strict`` it is an error.
    """
    named = {registry[name].key.NAME for name in request.names or ()}
    requested = select_keys(registry, request.names, arguments)
    # a key that is named need not be a metric
    shown = [name for name in requested if name in named or isinstance(registry[name].key, Metric)]
    running = [name for name in shown if registry.find_need(name) is Need.RUN]
    assumption = _explain_assumption(registry, running)
    refused = [name for name in running if name in named]
    if refused:
        keys = ", ".join(refused)
        raise ArgumentError(
            f"static=True runs nothing, and {keys} needs the model to run; leave out one of both{assumption}"
        )
    if assumption:
        _refuse_or_warn(f"static=True leaves out what may run the model{assumption}", request.strict)
    return [name for name in shown if name not in running]


def _explain_assumption(registry: Registry, names: Iterable[str]) -> str:
    """Say which of the functions of these keys are taken to run the model only because they can; "" if none is."""
    bindings = [registry[name] for name in names]
    assumed = [bound.key.NAME for bound in bindings if bound.function.NEED is None and bound.contract.handles_model]
    if not assumed:
        return ""
    return (
        f": {', '.join(assumed)} can run it, since the function takes the model or its data; if it never does, say "
        '@metric(..., need="model"), or NEED = Need.MODEL in the class'
    )
