"""Functions around a module: compiled, mapped, differentiated, partial, bound, or written by the user.

The module that a function leads to is the model: its arrays are the weights. A pass runs the function with a copy of
the module in its place, as `Subject.call` makes one.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["LIBRARIES", "find_modules", "is_equinox_wrapper", "replace_module"]

#: Packages whose functions lead to modules only by what they close over.
LIBRARIES = ("equinox", "flax", "jax", "jaxlib", "keras", "numpy", "optax")
#: The most elements of a list that is searched.
_LONGEST = 1_000


def find_modules(function: Any, is_module: Callable[[Any], bool]) -> list[Any]:
    """Return the modules that a function leads to, each once: through wrappers, arguments and what it closes over."""
    modules: dict[int, Any] = {}
    met: dict[int, Any] = {}
    waiting = [function]
    while waiting:
        last = waiting.pop()
        if id(last) in met:
            continue
        met[id(last)] = last
        if is_module(last):
            modules[id(last)] = last
        else:
            waiting += reversed(list(_list_inside(last)))
    return list(modules.values())


def _list_inside(value: Any) -> Iterator[Any]:
    """Yield what a function leads to; nothing for a value of another type."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, FunctionType):
        yield from _list_variables(value).values()
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    elif type(value) in (list, tuple) and len(value) <= _LONGEST:
        yield from value
    elif type(value) is dict and len(value) <= _LONGEST:
        yield from value.values()
    elif _is_compiled(value):
        yield value.__wrapped__
    elif is_equinox_wrapper(value):
        yield from vars(value).values()


def is_equinox_wrapper(value: Any) -> bool:
    """Return whether a value is what ``equinox.filter_jit`` and the like return: a module around any function."""
    return type(value).__module__.partition(".")[0] == "equinox" and hasattr(value, "__wrapped__")


def _is_compiled(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("jaxlib", "flax") and hasattr(value, "__wrapped__")


def _list_variables(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a function closes over, and the global ones of its module that it names."""
    variables = {}
    around = function.__globals__
    if str(around.get("__name__")).partition(".")[0] not in LIBRARIES:
        for name in filter(around.__contains__, _list_global_names(function.__code__)):
            value = around[name]
            if not isinstance(value, FunctionType) or value.__globals__ is around:
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


def replace_module(function: Any, module: Any, copy: Any) -> Any:
    """Return a function that runs with a copy in the place of a module; a compiled one as what it compiles.

    Functions that do not lead to the module are handed on as they are, and nothing is changed.
    """
    if copy is module:
        return function
    return _Replacement(module, copy).replace(function)


class _Replacement:
    """Puts a copy in the place of a module in functions; each value is rebuilt once, and kept so that its id stays."""

    def __init__(self, module: Any, copy: Any) -> None:
        self._made: dict[int, Any] = {id(module): copy}
        self._kept: list[Any] = [module]

    def replace(self, value: Any) -> Any:
        """Return a value in which a copy stands in the place of the module; itself if the module is not in it."""
        if id(value) not in self._made:
            self._kept.append(value)
            self._made[id(value)] = value  # a function that leads to itself keeps to the original there
            self._made[id(value)] = self._rebuild(value)
        return self._made[id(value)]

    def _rebuild(self, value: Any) -> Any:
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            function, arguments, keywords = changed = self.replace(parts)
            return value if changed is parts else functools.partial(function, *arguments, **keywords)
        if isinstance(value, MethodType):
            bound = (value.__func__, value.__self__)
            changed = self.replace(bound)
            return value if changed is bound else MethodType(*changed)
        if isinstance(value, FunctionType):
            return self._rebuild_function(value)
        if type(value) in (list, tuple) and len(value) <= _LONGEST:
            elements = [self.replace(item) for item in value]
            is_same = all(one is two for one, two in zip(elements, value, strict=True))
            return value if is_same else type(value)(elements)
        if type(value) is dict and len(value) <= _LONGEST:
            return self._replace_in_mapping(value)
        if _is_compiled(value):
            inside = self.replace(value.__wrapped__)
            return value if inside is value.__wrapped__ else inside
        if is_equinox_wrapper(value):
            return self._rebuild_wrapper(value)
        return value

    def _replace_in_mapping(self, mapping: Mapping[str, Any]) -> Mapping[str, Any]:
        changed = {name: self.replace(value) for name, value in mapping.items()}
        return changed if any(changed[name] is not value for name, value in mapping.items()) else mapping

    def _rebuild_wrapper(self, wrapper: Any) -> Any:
        attributes = self._replace_in_mapping(vars(wrapper))
        if attributes is vars(wrapper):
            return wrapper
        copy = object.__new__(type(wrapper))
        for name, value in attributes.items():
            object.__setattr__(copy, name, value)
        return copy

    def _rebuild_function(self, function: FunctionType) -> Any:
        variables = _list_variables(function)
        changed = {name: new for name, value in variables.items() if (new := self.replace(value)) is not value}
        defaults, named_defaults = self.replace(function.__defaults__), self.replace(function.__kwdefaults__)
        if not changed and defaults is function.__defaults__ and named_defaults is function.__kwdefaults__:
            return function
        free = function.__code__.co_freevars
        cells = tuple(
            CellType(changed[name]) if name in changed else cell
            for name, cell in zip(free, function.__closure__ or (), strict=True)
        )
        named = {name: value for name, value in changed.items() if name not in free}
        rebuilt = FunctionType(
            function.__code__,
            {**function.__globals__, **named} if named else function.__globals__,
            function.__name__,
            defaults,
            cells,
        )
        rebuilt.__kwdefaults__ = named_defaults
        rebuilt.__dict__.update({name: value for name, value in vars(function).items() if name != "__wrapped__"})
        return rebuilt
