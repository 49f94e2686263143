"""Functions around a module: compiled, mapped, differentiated, partial, bound, or written by the user.

The module that a function leads to is the model: its arrays are the weights. A pass runs the function with a copy of
the module in its place, as `Subject.call` makes one.
"""

from __future__ import annotations

import dis
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple, cast

__all__ = ["LIBRARIES", "find_modules", "is_equinox_wrapper", "list_names", "read_closure", "replace_modules"]

#: Packages whose functions lead to modules only by their closures.
LIBRARIES = ("equinox", "flax", "jax", "jaxlib", "keras", "numpy", "optax")
#: Longer containers are not searched.
_LONGEST = 1_000


def find_modules(function: Any, is_module: Callable[[Any], bool]) -> list[Any]:
    """Return the modules that a function leads to, each once: through wrappers, arguments and its closure."""
    return [value for value, _ in _search(function, is_module).values() if is_module(value)]


def replace_modules(function: Any, copies: Sequence[tuple[Any, Any]]) -> Any:
    """Return a function that runs with copies of modules, of pairs of both; for a compiled one, its Python function.

    Functions that lead to none of the modules are returned as they are. No function is changed.
    """
    return _Replacement(function, {id(module): copy for module, copy in copies if copy is not module}).replace(function)


def _search(function: Any, is_module: Callable[[Any], bool]) -> dict[int, tuple[Any, _Parts]]:
    """Return all values that a function leads to, each taken apart unless it is a module, by their ids."""
    values: dict[int, tuple[Any, _Parts]] = {}
    waiting = [function]
    while waiting:
        value = waiting.pop()
        if id(value) not in values:
            parts = _Parts((), lambda _: None) if is_module(value) else _take_apart(value)
            values[id(value)] = value, parts
            waiting += reversed(parts.values)
    return values


class _Replacement:
    """Puts copies in the place of modules in functions; each value that leads to a module is rebuilt once."""

    def __init__(self, function: Any, copies: Mapping[int, Any]) -> None:
        self._values = _search(function, lambda value: id(value) in copies)
        self._leading = _find_leading(self._values, copies)
        self._made: dict[int, Any] = dict(copies)

    def replace(self, value: Any) -> Any:
        """Return a value in which copies stand in the places of the modules; itself if no module is in it."""
        key = id(value)
        if key not in self._leading:
            return value
        if key not in self._made:
            _, parts = self._values[key]
            # A function that calls itself, perhaps through others, calls there what is made of it in the end.
            self._made[key] = _wrap(value, lambda: self._made[key]) if callable(value) else value
            self._made[key] = parts.rebuild(list(map(self.replace, parts.values)))
        return self._made[key]


def _find_leading(values: Mapping[int, tuple[Any, _Parts]], modules: Iterable[int]) -> set[int]:
    """Return the ids of the values that lead to modules, the ids of the modules among them."""
    around: defaultdict[int, list[int]] = defaultdict(list)
    for key, (_, parts) in values.items():
        for part in parts.values:
            around[id(part)].append(key)
    leading: set[int] = set()
    waiting = list(modules)
    while waiting:
        key = waiting.pop()
        if key not in leading:
            leading.add(key)
            waiting += around[key]
    return leading


def _wrap(function: Any, find: Callable[[], Any]) -> Callable[..., Any]:
    """Return a function that calls the function that is found when it is called."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return find()(*args, **kwargs)

    return call


# Taking a value apart -------------------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    """A function, or a value around functions, taken apart.

    Attributes:
        values: The objects that it leads to.
        rebuild: Returns a function or value like it, made of as many other values in the same order.
    """

    values: Sequence[Any]
    rebuild: Callable[[list[Any]], Any]


def _take_apart(value: Any) -> _Parts:
    """Return the objects that a function, or a value around functions, leads to; none for a value of another type."""
    if isinstance(value, FunctionType):
        return _take_function_apart(value)
    if isinstance(value, functools.partial):
        return _Parts(
            [value.func, value.args, value.keywords], lambda parts: functools.partial(parts[0], *parts[1], **parts[2])
        )
    if isinstance(value, MethodType):
        return _take_method_apart(value)
    if type(value) is dict and len(value) <= _LONGEST:
        return _Parts(list(value.values()), lambda parts: dict(zip(value, parts, strict=True)))
    if type(value) in (list, tuple) and len(value) <= _LONGEST:
        return _Parts(value, type(value))
    if _is_wrapper(value, "equinox", "flax", "jaxlib"):
        return _take_wrapper_apart(value)
    return _Parts((), lambda parts: value)


def _take_method_apart(method: MethodType) -> _Parts:
    """Return the function of a method and its object; of an object of the user's own, a trainer's, the attributes."""
    owner, function = method.__self__, cast(Any, method.__func__)
    packages = {base.__module__.partition(".")[0] for base in type(owner).__mro__}
    is_plain = type(owner).__new__ is object.__new__ and hasattr(owner, "__dict__")
    if not is_plain or not packages.isdisjoint((*LIBRARIES, "profilerkit_jax")):
        return _Parts([owner, function], lambda parts: MethodType(parts[1], parts[0]))

    def rebuild(parts: list[Any]) -> Any:
        copy = object.__new__(type(owner))
        vars(copy).update(parts[0])
        return MethodType(parts[1], copy)

    return _Parts([vars(owner), function], rebuild)


def _take_wrapper_apart(wrapper: Any) -> _Parts:
    """Return the function that a jitted one compiles, or the fields of another wrapper, of Equinox or of nnx."""
    fields = getattr(wrapper, "__dataclass_fields__", None)
    if fields is None or (hasattr(wrapper, "lower") and not is_equinox_wrapper(wrapper)):
        return _Parts([wrapper.__wrapped__], lambda parts: parts[0])
    # nnx copies the attributes of a module beside the fields.
    attributes = {name: value for name, value in vars(wrapper).items() if name in fields}

    def rebuild(parts: list[Any]) -> Any:
        copy = object.__new__(type(wrapper))
        vars(copy).update(vars(wrapper) | parts[0])
        return copy

    return _Parts([attributes], rebuild)


def is_equinox_wrapper(value: Any) -> bool:
    """Return whether a value is a module around any function, like the results of ``equinox.filter_jit``."""
    return _is_wrapper(value, "equinox")


def _is_wrapper(value: Any, *packages: str) -> bool:
    return type(value).__module__.partition(".")[0] in packages and hasattr(value, "__wrapped__")


# Functions that are written in Python ---------------------------------------------------------------------------------


def _take_function_apart(function: FunctionType) -> _Parts:
    """Return the variables and the defaults of a function."""
    variables = _list_variables(function)

    def rebuild(parts: list[Any]) -> Any:
        new_variables, defaults, named_defaults = parts
        replaced = {name: value for name, value in new_variables.items() if value is not variables[name]}
        copy = _copy_function(function, replaced)
        copy.__defaults__, copy.__kwdefaults__ = defaults, named_defaults
        return copy

    return _Parts([variables, function.__defaults__, function.__kwdefaults__], rebuild)


def _copy_function(function: FunctionType, replaced: Mapping[str, Any]) -> FunctionType:
    """Return a function with these values of closure variables; it shares all other variables with the original."""
    free = function.__code__.co_freevars
    cells = zip(free, function.__closure__ or (), strict=True)
    closure = tuple(CellType(replaced[name]) if name in replaced else cell for name, cell in cells)
    replaced_globals = {name: value for name, value in replaced.items() if name not in free}
    around = {**function.__globals__, **replaced_globals} if replaced_globals else function.__globals__
    copy = FunctionType(function.__code__, around, function.__name__, None, closure)
    copy.__dict__.update(vars(function))
    copy.__dict__.pop("__wrapped__", None)  # it leads to the function that the original wraps
    return copy


def _list_variables(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a function closes over, and the global ones of its module that it reads.

    Functions that its module imports are not among them.
    """
    variables = {}
    around = function.__globals__
    if str(around.get("__name__")).partition(".")[0] not in LIBRARIES:
        for name in filter(around.__contains__, list_names(function.__code__, "LOAD_GLOBAL")):  # others are builtins
            value = around[name]
            is_imported = isinstance(value, FunctionType) and value.__globals__ is not around
            if not is_imported:
                variables[name] = value
    return variables | read_closure(function)


def read_closure(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a function closes over, as far as they are set."""
    variables = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not set yet
            variables[name] = cell.cell_contents
    return variables


def list_names(code: CodeType, operation: str) -> Iterator[str]:
    """Yield the names in the steps of one operation ("LOAD_GLOBAL"), of a function and of the functions made in it."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == operation)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from list_names(constant, operation)
