"""Which function computes which status key, and who wins where two claim the same one.

- Registering over a key that another function holds replaces it, with a warning.
- ``override=True`` takes precedence over any plain registration, made before or after.
- Two ``override=True`` on one key are an error. A failed registration leaves no trace.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any

from ..arguments.checks import BATCH_SIZE
from ..arguments.names import argument_hint, foreign_hint, status_name
from ..error_text import shown
from ..errors import (
    ArgumentError,
    ArgumentWarning,
    RegistrationConflictError,
    RegistrationWarning,
    UnknownStatusError,
    nearest,
)
from .function import ArgumentBundle, ProfilerFunction, describe
from .status import Metric, StatusKey

__all__ = [
    "PROVIDED",
    "Binding",
    "Registry",
    "read_arguments",
    "require_usable",
    "select_arguments",
    "why_no_function",
]

#: What every profiler provides by name; no status key may be called so.
PROVIDED = ("model", "data_splits", "backend", "profiler")
#: Parameters of the profiler's own methods, which could never reach a function.
RESERVED = frozenset({"name", "recompute", "print_mode", "short_print", "strict"})
#: What a profiler is made with; `profile` and `compare` take them too.
MADE_WITH = ("inputs", "input_shape", "data_splits")


#: What a function takes that runs the model, and the traces, which are made without running it where that is possible.
_RUN_WITH = frozenset({"inputs", "data_splits", "sampling", "profiler", "batch_sizes"})
_TRACES = frozenset({"trace", "training_trace", "nonzero_trace"})


@dataclass(frozen=True)
class Binding:
    """A status key's template with the function that computes it.

    A binding ``on_demand`` is computed only where something needs it; it belongs to no table.
    """

    key: StatusKey
    function: ProfilerFunction
    override: bool = False
    on_demand: bool = False


class Registry:
    """Maps the name of each status key to its binding."""

    def __init__(self) -> None:
        self._bindings: dict[str, Binding] = {}

    def register(
        self,
        function: ProfilerFunction,
        override: bool = False,
        on_demand: bool = False,
        leave_out: Container[str] = (),
    ) -> None:
        """Bind a function to all its keys but those left out, or to none if anything is wrong with it."""
        require_usable(function)
        self.bind(function, override, on_demand, leave_out)

    def bind(
        self,
        function: ProfilerFunction,
        override: bool = False,
        on_demand: bool = False,
        leave_out: Container[str] = (),
    ) -> None:
        """Bind a function that `require_usable` lets through, as `register` does."""
        bindings = [
            Binding(key, function, override, on_demand) for key in function.list_keys() if key.NAME not in leave_out
        ]
        for binding in bindings:
            self._require_no_second_override(binding)
        for binding in bindings:
            self._bind(binding)

    def bind_on_demand(self, *functions: ProfilerFunction) -> None:
        """Bind functions whose keys are computed only where something needs them."""
        for function in functions:
            self.bind(function, on_demand=True)

    def bind_defaults(self, functions: Iterable[ProfilerFunction], leave_out: Container[str]) -> None:
        """Bind the functions that plugins offer to all their keys but those left out."""
        for function in functions:
            self.bind(function, on_demand=function.ON_DEMAND, leave_out=leave_out)

    def replace_function(self, old: ProfilerFunction, new: ProfilerFunction) -> None:
        """Put ``new`` in the place of ``old`` for the keys it holds, and bind it to the keys that are new."""
        replaced = {name: binding for name, binding in self._bindings.items() if binding.function is old}
        override = any(binding.override for binding in replaced.values())
        require_usable(new)
        added = [Binding(key, new, override) for key in new.list_keys() if key.NAME not in replaced]
        for binding in added:
            self._require_no_second_override(binding)
        self._bindings.update({name: replace(binding, function=new) for name, binding in replaced.items()})
        for binding in added:
            self._bind(binding)

    def _require_no_second_override(self, binding: Binding) -> None:
        name, function = binding.key.NAME, binding.function
        previous = self._bindings.get(name)
        if previous and previous.override and binding.override and previous.function is not function:
            raise RegistrationConflictError(
                f"{describe(previous.function)} and {describe(function)} are both registered with override=True for "
                f"status key {name!r}; register only one of them with override=True"
            )

    def _bind(self, binding: Binding) -> None:
        name = binding.key.NAME
        previous = self._bindings.get(name)
        if previous and (previous.function is binding.function or (previous.override and not binding.override)):
            return
        if previous and not previous.on_demand and previous.override == binding.override:
            warnings.warn(
                f"{describe(previous.function)} no longer computes {name!r}: {describe(binding.function)} replaces it; "
                "pass override=True if this is intended",
                RegistrationWarning,
                stacklevel=5,
            )
        self._bindings[name] = binding

    def __getitem__(self, name: str | type[StatusKey]) -> Binding:
        key_name = name if type(name) is str else status_name("name", name)
        binding = self._bindings.get(key_name) or self._by_alias(key_name)
        if binding is None:
            raise UnknownStatusError(key_name, [*self.names(), *self._alias_like(key_name)])
        return binding

    def _alias_like(self, name: str) -> list[str]:
        """Return the other name of a status key that a name resembles, as "latncy" does "latency"; none for most."""
        alias = nearest(name, [alias for binding in self._bindings.values() for alias in binding.key.ALIASES])
        return [] if alias is None else [alias]

    def find_source(self, parameter: Parameter) -> Binding | None:
        """Return what a parameter of a function gets its value from: a status key, by its name, or by an alias.

        An alias counts for a parameter without a default: one with a default may well be an option of that name.
        """
        by_name = self._bindings.get(parameter.name)
        return self._by_alias(parameter.name) if by_name is None and parameter.default is Parameter.empty else by_name

    def like(self, name: str, function: ProfilerFunction) -> str | None:
        """Return what a parameter of a function resembles: another's status key, or what every profiler has."""
        others = [binding.key for binding in self._bindings.values() if binding.function is not function]
        return nearest(name, [*PROVIDED, *(name for key in others for name in (key.NAME, *key.ALIASES))])

    def _by_alias(self, name: str) -> Binding | None:
        return next((binding for binding in self._bindings.values() if name in binding.key.ALIASES), None)

    def __contains__(self, name: object) -> bool:
        return (name if type(name) is str else status_name("name", name)) in self._bindings

    def runs_the_model(self, name: str) -> bool:
        """Return whether the model is run for a status key beyond the trace: to time it, to measure it, or on data.

        A function says so in its signature: it takes inputs, data splits, a profiler, or what is computed with these.
        """
        binding = self[name]
        if binding.key.NAME in _TRACES:
            return False
        reached = self._reach(
            [binding.function], lambda source: source.key.NAME not in _TRACES and not _is_bundle(source.function)
        )
        return not _RUN_WITH.isdisjoint({binding.key.NAME, *reached})

    def static_names(self, names: Iterable[str] | None = None) -> list[str]:
        """Return the names of the keys for which nothing is run: of all metrics of the tables, unless some are named.

        Raises `ArgumentError` for a named one that runs the model.
        """
        if names is None:
            metrics = [name for name in self.names() if isinstance(self[name].key, Metric)]
            return [name for name in metrics if not self.runs_the_model(name)]
        listed = [self[name].key.NAME for name in names]
        running = [name for name in listed if self.runs_the_model(name)]
        if running:
            raise ArgumentError(
                f"static=True runs nothing, and {', '.join(running)} needs the model to run; leave out one of both"
            )
        return listed

    def __iter__(self) -> Iterator[Binding]:
        return iter(tuple(self._bindings.values()))

    def names(self) -> tuple[str, ...]:
        """Return the names of the keys that belong to tables, in the order of registration."""
        return tuple(name for name, binding in self._bindings.items() if not binding.on_demand)

    def functions(self) -> list[ProfilerFunction]:
        """Return every bound function once."""
        return list({id(binding.function): binding.function for binding in self}.values())

    def parameters(self) -> set[str]:
        """Return every argument name that some bound function takes."""
        others = [function for function in self.functions() if not _is_bundle(function)]
        return self._reach(others, lambda source: _is_bundle(source.function))

    def select(self, names: Iterable[str] | None, arguments: Mapping[str, Any]) -> list[str]:
        """Return the status keys to compute: the named ones, or all of the tables, and those that an argument asks for.

        Raises `UnknownStatusError` for a name that no function computes, and `ArgumentError` where an argument has
        several values, and nobody would read but the first of them.
        """
        requested = [self[name].key.NAME for name in (self.names() if names is None else names)]
        read = first_of_several(arguments)
        asking = [function for function in self.functions() if not read.keys().isdisjoint(function.COMPUTED_WITH)]
        if "batch_sizes" in read and not any("batch_sizes" in function.COMPUTED_WITH for function in asking):
            raise ArgumentError(
                f"batch_size={arguments.get('batch_size')!r}: several batch sizes are for a function that takes "
                "'batch_sizes', and none is registered; register one, or give one batch size"
            )
        return list(dict.fromkeys([*requested, *(name for function in asking for name in self._list_keys(function))]))

    def _list_keys(self, function: ProfilerFunction) -> list[str]:
        return [name for name, binding in self._bindings.items() if binding.function is function]

    def find_reaching(self, names: Iterable[str]) -> set[str]:
        """Return the names of the arguments that reach the functions of status keys, and those that these need."""
        return self._reach([self._bindings[name].function for name in names], lambda source: True)

    def keys_that_take(self, argument: str) -> list[str]:
        """Return the status keys for people whose functions an argument reaches."""
        metrics = [name for name, binding in self._bindings.items() if isinstance(binding.key, Metric)]
        return [name for name in metrics if argument in self.find_reaching([name])]

    def list_arguments(self, function: ProfilerFunction) -> set[str]:
        """Return the names of the arguments that reach a function, those in the bundles it names with them."""
        return self._reach([function], lambda source: _is_bundle(source.function))

    def _reach(self, functions: Iterable[ProfilerFunction], is_followed: Callable[[Binding], bool]) -> set[str]:
        """Return the names of the parameters of functions, and of those that compute a parameter and are followed."""
        waiting, met, names = [*functions], set[int](), set[str]()
        while waiting:
            function = waiting.pop()
            if id(function) in met:
                continue
            met.add(id(function))
            for parameter in function.parameters().values():
                names.add(parameter.name)
                source = self.find_source(parameter)
                if source is not None and is_followed(source):
                    waiting.append(source.function)
        return names

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that its functions take, for a method that a user calls; see `read_arguments`."""
        return read_arguments(arguments, [self])

    def require_once(self, arguments: Mapping[str, Any]) -> None:
        """Raise `ArgumentError` where a bundle is given as a whole and in parts."""
        for name in arguments:
            binding = self._bindings.get(name)
            if binding is None or not _is_bundle(binding.function):
                continue
            parts = sorted(binding.function.parameters().keys() & arguments.keys())
            if parts:
                raise ArgumentError(
                    f"both {name} and {', '.join(parts)} were given; give one of them: {name} holds "
                    f"{'it' if len(parts) == 1 else 'them'} too"
                )

    def copy(self) -> Registry:
        """Return a registry with the same bindings that changes on its own."""
        twin = Registry()
        twin._bindings = dict(self._bindings)
        return twin


def _is_bundle(function: ProfilerFunction) -> bool:
    return isinstance(function, ArgumentBundle)


def require_usable(function: Any) -> None:
    """Raise for a function that no profiler can take.

    Raises `ArgumentError` for what is no `ProfilerFunction`, and `TypeError` for a function whose arguments cannot be
    passed by name, or that takes or computes a name which the profiler itself uses.
    """
    if not isinstance(function, ProfilerFunction):
        raise ArgumentError(f"cannot register {shown(function)}: {why_no_function(function)}")
    if not function.can_pipe():
        raise TypeError(
            f"cannot register {describe(function)}: arguments are passed by name, which *args and **kwargs in its "
            "signature make ambiguous; name its parameters"
        )
    reserved = sorted(RESERVED & function.parameters().keys())
    if reserved:
        raise TypeError(
            f"{describe(function)} has a parameter {reserved[0]!r}, which the methods of a profiler, such as "
            "compute_status, take themselves and cannot pass on; rename the parameter"
        )
    for key in function.list_keys():
        if key.NAME in PROVIDED:
            raise TypeError(
                f"{describe(function)}: a status key cannot be called {key.NAME!r}, every profiler provides that"
            )


def why_no_function(value: Any) -> str:
    """Say why a value is no function of a profiler's, and what to do."""
    if isinstance(value, type) and issubclass(value, ProfilerFunction):
        return f"it is a class; give an instance, {value.__name__}()"
    if isinstance(getattr(value, "NAME", None), str):
        return "it is a metric, no ProfilerFunction; ask for it with metrics=, and register what computes it"
    if callable(value):
        return "it is no ProfilerFunction; wrap it: ComputeEvalMetric(function), or ExternalProfilerFunction"
    return "it is no ProfilerFunction; give instances, such as ComputeEvalMetric(get_accuracy)"


def read_request(
    registries: Sequence[Registry],
    names: Iterable[str] | None,
    arguments: Mapping[str, Any],
    strict: bool = False,
    static: bool = False,
    caller: Callable[..., Any] | None = None,
) -> tuple[list[list[str]], dict[str, Any]]:
    """Return the status keys to compute of each registry, and the arguments that reach the functions of these.

    ``static`` leaves out what runs the model, and its arguments. See `read_arguments` and `select_arguments`.
    """
    read = read_arguments(arguments, registries, strict, caller)
    if static:
        return [registry.static_names(names) for registry in registries], read
    requested = [registry.select(names, read) for registry in registries]
    return requested, select_arguments(read, list(zip(registries, requested, strict=True)), strict=strict)


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
        message = f"no registered function takes an argument {name!r}; {argument_hint(name, names, elsewhere)}"
        if strict:
            raise ArgumentError(message)
        warnings.warn(message, ArgumentWarning, stacklevel=_level_of_user())
    for registry in registries:
        registry.require_once(kwargs)
    functions = [function for registry in registries for function in registry.functions()]
    checks = {name: check for function in functions for name, check in function.CHECKS.items()}
    read = {name: value for name, value in kwargs.items() if name in taken}
    return {name: checks[name](name, value) if name in checks else value for name, value in read.items()}


def first_of_several(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's arguments with the first of several batch sizes, and with all of them as ``batch_sizes``.

    >>> first_of_several({"batch_size": (8, 1), "split": "test"})
    {'batch_sizes': (8, 1), 'batch_size': 8, 'split': 'test'}
    """
    sizes = BATCH_SIZE("batch_size", arguments.get("batch_size"))
    if not isinstance(sizes, tuple):
        return dict(arguments)
    return {"batch_sizes": sizes, **arguments, "batch_size": sizes[0]}


def select_arguments(
    arguments: Mapping[str, Any], requested: Sequence[tuple[Registry, Iterable[str]]], *, strict: bool = False
) -> dict[str, Any]:
    """Return the arguments that reach what is requested: for each registry the status keys.

    One that only other functions take changes nothing, which a warning says; with ``strict`` it is an `ArgumentError`.
    The batch size and the device belong to every request: a report states them.
    """
    if not arguments:
        return {}
    reaching = {name for registry, names in requested for name in registry.find_reaching(names)}
    unused = sorted(arguments.keys() - reaching - {"batch_size", "device"})
    options = {name for name in reaching - {*PROVIDED} if all(name not in registry for registry, _ in requested)}
    for name in unused:
        takers = {key for registry, _ in requested for key in registry.keys_that_take(name)}
        meant = nearest(name, options)
        message = (
            f"nothing that is requested takes an argument {name!r}, only {', '.join(sorted(takers))}; leave it out, or "
            f"request one of these{'' if meant is None else f'; did you mean {meant!r}?'}"
        )
        if strict:
            raise ArgumentError(message)
        warnings.warn(message, ArgumentWarning, stacklevel=_level_of_user())
    return {name: value for name, value in arguments.items() if name not in unused}


def _level_of_user() -> int:
    """Return the ``stacklevel`` of the nearest caller outside profilerkit, whose line a warning is about."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "profilerkit":
        frame, level = frame.f_back, level + 1
    return level
