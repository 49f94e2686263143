"""What the well-known arguments may be, by name, in one place: the same rule wherever a name is taken.

``batch_size`` means one thing in `profile`, in a profiler's methods, in a metric's function and on the command line,
and so do the other names of `RULES`. A value that breaks a rule raises `ArgumentError` before anything runs; one that
stands for a plain value, such as a scalar of numpy or a tensor without dimensions, becomes that plain value.
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

#: How deep lists, tuples and mappings may be nested.
DEEPEST = 100


def checked(name: str, value: Any, rule: str | None = None) -> Any:
    """Return the plain value of an argument; raises `ArgumentError` where it breaks its rule.

    ``rule`` is the name of the rule where it is not that of the argument.

    >>> checked("batch_size", 8)
    8
    """
    known = RULES[rule or name]
    if value is None and known.optional:
        return None
    try:
        return known.read(value)
    except ArgumentError:
        raise
    except Exception:  # whatever the value is and does
        raise ArgumentError(f"{name}={shown(value)}: give {known.wanted}") from None


def checked_all(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the plain values of those that are well known; the others as they are."""
    return {name: checked(name, value) if name in RULES else value for name, value in arguments.items()}


def first_of_several(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's arguments: of several values the first, for all functions, and all of them as another argument.

    Raises `ArgumentError` where one of them breaks the rule.

    >>> first_of_several({"batch_size": (8, 1), "split": "test"})
    {'batch_sizes': (8, 1), 'batch_size': 8, 'split': 'test'}
    """
    found = dict(arguments)
    for name, several_values in SEVERAL.items():
        values = checked(name, arguments.get(name))
        if isinstance(values, tuple):
            found = {several_values.argument: values, **found, name: values[0]}
    return found


def checks_arguments(function: F) -> F:
    """Read the well-known arguments of a function before each call: a decorator."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update(checked_all(bound.arguments))
        return function(*bound.args, **bound.kwargs)

    return cast(F, call)


# Names of status keys -------------------------------------------------------------------------------------------------


def status_name(argument: str, value: Any) -> str:
    """Return the name of a status key, given as that or as its class; raises `ArgumentError` for anything else."""
    name = value if isinstance(value, str) else getattr(value, "NAME", None)
    if not isinstance(name, str):
        raise ArgumentError(
            f"{argument}={shown(value)}: give the name of a status key or its class, such as 'macs' or Macs"
        )
    return name


def status_names(argument: str, value: Any) -> list[str] | None:
    """Return the names of status keys, of which one or several are given, as texts or as classes; None for None."""
    if value is None:
        return None
    given = [value] if isinstance(value, str) or isinstance(getattr(value, "NAME", None), str) else value
    try:
        return [status_name(f"an entry of {argument}", each) for each in several(given)]
    except (TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"{argument}={shown(value)}: give names of status keys or their classes, such as ['macs', TotalParams]"
        ) from None


# Structures and keywords ----------------------------------------------------------------------------------------------


def require_shallow(name: str, value: Any) -> None:
    """Raise `ArgumentError` for lists, tuples and mappings that are nested too deep to be read, or hold themselves."""
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        inside: dict[int, Any] = {}
        for each in level:
            if isinstance(each, (list, tuple, dict)):
                inside |= {id(one): one for one in (each.values() if isinstance(each, dict) else each)}
        level = [one for one in inside.values() if isinstance(one, (list, tuple, dict))]
        if not level:
            return
    raise ArgumentError(
        f"{name}={shown(value)} is nested more than {DEEPEST} levels deep; give a structure with fewer levels"
    )


def argument_hint(name: str, taken: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    """Return what is said of an argument that nothing takes.

    Args:
        name: The argument.
        taken: What is taken here.
        elsewhere: By name, where else such an argument is taken, in words.
    """
    known = sorted({*taken} - {name})
    if name in elsewhere:
        return elsewhere[name]
    meant = nearest(name, [*known, *elsewhere])
    if meant is None:
        return f"they take: {', '.join(known)}"
    return f"did you mean {meant!r}{'' if meant in known else f'; {elsewhere[meant]}'}?"
