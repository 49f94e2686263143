"""The arguments that `RULES` names are checked here: one name has one rule, in every function that takes it.

``batch_size`` means one thing in `profile`, in a profiler's methods, in a metric's function and on the command line,
and so do the other names of `RULES`. A value that breaks a rule raises `ArgumentError` before anything runs. A numpy
scalar or a tensor without dimensions is converted to the plain Python value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from ..error_text import shown
from ..errors import ArgumentError, nearest
from .rules import RULES, SEVERAL, several

__all__ = [
    "argument_hint",
    "checked",
    "checked_all",
    "checks_arguments",
    "first_of_several",
    "require_shallow",
    "status_name",
    "status_names",
]

F = TypeVar("F", bound="Callable[..., Any]")

#: The most levels of nesting that lists, tuples and mappings may have.
DEEPEST = 100


def checked(name: str, value: Any, rule: str | None = None) -> Any:
    """Return the plain value of an argument; raises `ArgumentError` if the value breaks the rule.

    ``rule`` names the rule if its name differs from the argument's.

    >>> checked("batch_size", 8)
    8
    """
    argument_rule = RULES[rule or name]
    if value is None and argument_rule.optional:
        return None
    try:
        return argument_rule.read(value)
    except (ArgumentError, MemoryError):
        raise
    except Exception:  # whatever the value is and does
        raise ArgumentError(f"{name}={shown(value)}: give {argument_rule.expected}") from None


def checked_all(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the plain values of those that `RULES` names; the others are unchanged."""
    return {name: checked(name, value) if name in RULES else value for name, value in arguments.items()}


def first_of_several(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's arguments, with the first value of an argument that has several, and all of them in another.

    Most functions take one batch size: they get the first. Raises `ArgumentError` if a value breaks the rule.

    >>> first_of_several({"batch_size": (8, 1), "split": "test"})
    {'batch_sizes': (8, 1), 'batch_size': 8, 'split': 'test'}
    """
    result = dict(arguments)
    for name, several_values in SEVERAL.items():
        values = checked(name, arguments.get(name))
        if isinstance(values, tuple):
            result = {several_values.argument: values, **result, name: values[0]}
    return result


def checks_arguments(function: F) -> F:
    """Check the arguments of a function that `RULES` names before each call: a decorator."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update(checked_all(bound.arguments))
        return function(*bound.args, **bound.kwargs)

    return cast(F, call)


# Names of status keys -------------------------------------------------------------------------------------------------


def status_name(argument: str, value: Any) -> str:
    """Return the name of a status key, from its name or its class; raises `ArgumentError` for any other value."""
    name = value if isinstance(value, str) else getattr(value, "NAME", None)
    if not isinstance(name, str):
        raise ArgumentError(
            f"{argument}={shown(value)}: give the name of a status key or its class, such as 'macs' or Macs"
        )
    return name


def status_names(argument: str, value: Any) -> list[str] | None:
    """Return the names of one or several status keys, from their names or classes; None for None."""
    if value is None:
        return None
    if isinstance(value, str) and "," in value:
        names = [name.strip() for name in value.split(",") if name.strip()]
        raise ArgumentError(f"{argument}={shown(value)}: give several names as a list, {argument}={names}")
    keys = [value] if isinstance(value, str) or isinstance(getattr(value, "NAME", None), str) else value
    try:
        return [status_name(f"an entry of {argument}", key) for key in several(keys)]
    except (TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"{argument}={shown(value)}: give names of status keys or their classes, such as ['macs', TotalParams]"
        ) from None


# Structures and keywords ----------------------------------------------------------------------------------------------


def require_shallow(name: str, value: Any) -> None:
    """Raise `ArgumentError` for lists, tuples and mappings that are nested too deeply, or contain themselves."""
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        items: dict[int, Any] = {}
        for container in level:
            if isinstance(container, (list, tuple, dict)):
                items |= {id(item): item for item in (container.values() if isinstance(container, dict) else container)}
        level = [item for item in items.values() if isinstance(item, (list, tuple, dict))]
        if not level:
            return
    raise ArgumentError(
        f"{name}={shown(value)} is nested more than {DEEPEST} levels deep; give a structure with fewer levels"
    )


def argument_hint(name: str, taken: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    """Return the end of the error message for an unknown argument: the nearest name, or the names that are accepted.

    Args:
        name: The argument.
        taken: The names that are accepted here.
        elsewhere: Names that are accepted somewhere else, each with a sentence that says where.
    """
    names = sorted({*taken} - {name})
    if name in elsewhere:
        return elsewhere[name]
    meant = nearest(name, [*names, *elsewhere])
    if meant is None:
        return f"they take: {', '.join(names)}"
    return f"did you mean {meant!r}{'' if meant in names else f'; {elsewhere[meant]}'}?"
