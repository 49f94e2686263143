"""Functions around a module: compiled, mapped, differentiated, partial, bound, or written by the user.

The module that a function leads to is the model: its arrays are the weights. A pass runs the function with a copy of
the module in its place, as `Subject.call` makes one.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

__all__ = ["LIBRARIES", "find_modules", "is_equinox_wrapper", "replace_module"]

#: Packages whose functions lead to modules only by what they close over.
LIBRARIES = ("equinox", "flax", "jax", "jaxlib", "keras", "numpy", "optax")
#: The most elements of a list that is searched.
_LONGEST = 1_000


class _Parts(NamedTuple):
    """A function, or a value around functions, taken apart.

    Attributes:
        values: What it leads to.
        rebuild: Returns one like it of as many other values, in the same order.
    """

    values: Sequence[Any]
    rebuild: Callable[[list[Any]], Any]


def find_modules(function: Any, is_module: Callable[[Any], bool]) -> list[Any]:
    """Return the modules that a function leads to, each once: through wrappers, arguments and what it closes over."""
    modules: dict[int, Any] = {}
    seen: dict[int, Any] = {}
    waiting = [function]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if is_module(value):
            modules[id(value)] = value
            continue
        parts = _take_apart(value)
        if parts is not None:
            waiting += reversed(parts.values)
    return list(modules.values())


def replace_module(function: Any, module: Any, copy: Any) -> Any:
    """Return a function that runs with a copy in the place of a module; a compiled one as what it compiles.

    Functions that do not lead to the module are handed on as they are. No function is changed.
    """
    if copy is module:
        return function
    return _Replacement(module, copy).replace(function)


class _Replacement:
    """Puts a copy in the place of a module in functions; each value is rebuilt once."""

    def __init__(self, module: Any, copy: Any) -> None:
        self._made: dict[int, Any] = {id(module): copy}
        self._kept: list[Any] = [module]  # while a value is alive, its id is no other one's

    def replace(self, value: Any) -> Any:
        """Return a value in which a copy stands in the place of the module; itself if the module is not in it."""
        if id(value) not in self._made:
            self._kept.append(value)
            self._made[id(value)] = value  # a function that leads to itself keeps to the original there
            self._made[id(value)] = self._rebuild(value)
        return self._made[id(value)]

    def _rebuild(self, value: Any) -> Any:
        parts = _take_apart(value)
        if parts is None:
            return value
        changed = [self.replace(part) for part in parts.values]
        is_same = all(new is old for new, old in zip(changed, parts.values, strict=True))
        return value if is_same else parts.rebuild(changed)


# Taking a value apart -------------------------------------------------------------------------------------------------


def _take_apart(value: Any) -> _Parts | None:
    """Return what a function, or a value around functions, leads to; None for a value of another type."""
    if isinstance(value, functools.partial):
        return _take_partial_apart(value)
    if isinstance(value, MethodType):
        return _Parts([value.__self__, value.__func__], lambda parts: MethodType(parts[1], parts[0]))
    if isinstance(value, FunctionType):
        return _take_function_apart(value)
    if type(value) in (list, tuple) and len(value) <= _LONGEST:
        return _Parts(value, tuple if type(value) is tuple else list)
    if type(value) is dict and len(value) <= _LONGEST:
        return _Parts(list(value.values()), lambda parts: dict(zip(value, parts, strict=True)))
    if _is_compiled(value):
        return _Parts([value.__wrapped__], lambda parts: parts[0])
    return _take_wrapper_apart(value) if is_equinox_wrapper(value) else None


def _take_partial_apart(partial: functools.partial[Any]) -> _Parts:
    count = 1 + len(partial.args)

    def rebuild(parts: list[Any]) -> Any:
        keywords = dict(zip(partial.keywords, parts[count:], strict=True))
        return functools.partial(parts[0], *parts[1:count], **keywords)

    return _Parts([partial.func, *partial.args, *partial.keywords.values()], rebuild)


def _take_wrapper_apart(wrapper: Any) -> _Parts:
    attributes = vars(wrapper)

    def rebuild(parts: list[Any]) -> Any:
        copy = object.__new__(type(wrapper))
        vars(copy).update(zip(attributes, parts, strict=True))
        return copy

    return _Parts(list(attributes.values()), rebuild)


def _take_function_apart(function: FunctionType) -> _Parts:
    """Return the variables and the defaults of a function.

    A rebuilt one shares with it the variables that are not replaced, so that both see what is written to them.
    """
    variables = _list_variables(function)
    defaults = function.__defaults__ or ()
    named_defaults = function.__kwdefaults__ or {}
    first_default = len(variables)
    first_named_default = first_default + len(defaults)

    def rebuild(parts: list[Any]) -> Any:
        pairs = zip(variables, parts[:first_default], strict=True)
        replaced = {name: value for name, value in pairs if value is not variables[name]}
        free = function.__code__.co_freevars
        cells = tuple(
            CellType(replaced[name]) if name in replaced else cell
            for name, cell in zip(free, function.__closure__ or (), strict=True)
        )
        replaced_globals = {name: value for name, value in replaced.items() if name not in free}
        rebuilt = FunctionType(
            function.__code__,
            {**function.__globals__, **replaced_globals} if replaced_globals else function.__globals__,
            function.__name__,
            tuple(parts[first_default:first_named_default]) or None,
            cells,
        )
        rebuilt.__kwdefaults__ = dict(zip(named_defaults, parts[first_named_default:], strict=True)) or None
        rebuilt.__dict__.update(vars(function))
        rebuilt.__dict__.pop("__wrapped__", None)  # it leads to what the original wraps
        return rebuilt

    return _Parts([*variables.values(), *defaults, *named_defaults.values()], rebuild)


def _list_variables(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a function closes over, and the global ones of its module that it reads.

    Functions that its module imports are not among them.
    """
    variables = {}
    around = function.__globals__
    if str(around.get("__name__")).partition(".")[0] not in LIBRARIES:
        for name in filter(around.__contains__, _list_global_names(function.__code__)):  # others are builtins
            value = around[name]
            is_imported = isinstance(value, FunctionType) and value.__globals__ is not around
            if not is_imported:
                variables[name] = value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    return variables


def _list_global_names(code: CodeType) -> Iterator[str]:
    """Yield the names of global variables that a function reads, and the functions that are made in it."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_global_names(constant)


def is_equinox_wrapper(value: Any) -> bool:
    """Return whether a value is what ``equinox.filter_jit`` and the like return: a module around any function."""
    return type(value).__module__.partition(".")[0] == "equinox" and hasattr(value, "__wrapped__")


def _is_compiled(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("jaxlib", "flax") and hasattr(value, "__wrapped__")
