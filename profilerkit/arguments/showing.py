"""The arguments of `profilerkit.arguments.keywords` in the signatures and the help of functions that pass them on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, TypeVar, cast

from .keywords import ComputeOptions, ProfileOptions

__all__ = ["documents_options", "own_parameters", "shows_options"]

F = TypeVar("F", bound="Callable[..., Any]")

#: What stands before the arguments in the help of a function.
HEADING = "Keyword Args:"


class _NotGiven:
    """The default of an argument in a signature: each function that takes the argument has its own."""

    def __repr__(self) -> str:
        return "..."


def shows_options(options: type[ProfileOptions] | type[ComputeOptions]) -> Callable[[F], F]:
    """Return a decorator that puts arguments into what `help`, `inspect.signature` and completion show of a function.

    How the function is called does not change: its ``**kwargs`` have these arguments, and those of plugins.

    >>> @shows_options(ProfileOptions)
    ... def measure(model, **kwargs):
    ...     return sorted(kwargs)
    >>> "max_seconds" in inspect.signature(measure).parameters
    True
    >>> measure(None, max_seconds=1)
    ['max_seconds']
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *declared, rest = signature.parameters.values()
        taken = {parameter.name for parameter in declared}
        shown = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=_NOT_GIVEN, annotation=_text(annotation))
            for name, annotation in options.__annotations__.items()
            if name not in taken
        ]
        dynamic = cast("Any", function)
        dynamic.__signature__ = signature.replace(parameters=[*declared, *shown, rest])
        return function

    return decorate


_NOT_GIVEN = _NotGiven()


def documents_options(function: F) -> F:
    """Put the text of each argument of `ProfileOptions` at the end of a function's help: a decorator."""
    text = inspect.cleandoc(ProfileOptions.__doc__ or "").partition("\nArgs:\n")[2]
    if function.__doc__ and text:  # neither is there with ``python -OO``
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n{HEADING}\n{text}"
    return function


def own_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's own arguments, without those that only its signature shows.

    >>> own_parameters(documents_options)
    ('function',)
    """
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _text(annotation: Any) -> str:
    """Return an annotation of a ``TypedDict``, which keeps a text as a forward reference, as text."""
    return str(getattr(annotation, "__forward_arg__", annotation))
