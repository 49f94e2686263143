"""Which function computes which status key, and who wins where two claim the same one.

- Registering over a key that another function holds replaces it, with a warning.
- ``override=True`` takes precedence over any plain registration, made before or after.
- Two ``override=True`` on one key are an error. A failed registration leaves no trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any

from ..arguments.names import status_name
from ..error_text import shown
from ..errors import (
    ArgumentError,
    RegistrationConflictError,
    RegistrationWarning,
    UnknownStatusError,
    nearest,
)
from .function import ArgumentBundle, ProfilerFunction, describe
from .status import StatusKey

__all__ = [
    "PROVIDED",
    "Binding",
    "Registry",
    "is_bundle",
    "require_usable",
    "why_no_function",
]

#: What every profiler provides by name; no status key may be called so.
PROVIDED = ("model", "data_splits", "backend", "profiler")
#: Parameters of the profiler's own methods, which could never reach a function.
RESERVED = frozenset({"name", "recompute", "print_mode", "short_print", "strict"})

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

    @classmethod
    def of_defaults(cls, functions: Iterable[ProfilerFunction], leave_out: Container[str]) -> Registry:
        """Return a registry of the functions that plugins offer, for all their keys but those left out."""
        registry = cls()
        for function in functions:
            registry.bind(function, on_demand=function.ON_DEMAND, leave_out=leave_out)
        return registry

    def add(self, other: Registry, leave_out: Container[str]) -> None:
        """Add the bindings of another registry, except for those of keys that are left out."""
        self._bindings |= {name: binding for name, binding in other._bindings.items() if name not in leave_out}

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
        One whose profiler only traces says so by ``TRACES_ALONE``.
        """
        binding = self[name]
        if binding.key.NAME in _TRACES or binding.function.TRACES_ALONE:
            return False
        reached = self._reach(
            [binding.function], lambda source: source.key.NAME not in _TRACES and not is_bundle(source.function)
        )
        return not _RUN_WITH.isdisjoint({binding.key.NAME, *reached})

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
        others = [function for function in self.functions() if not is_bundle(function)]
        return self._reach(others, lambda source: is_bundle(source.function))

    def find_reaching(self, names: Iterable[str]) -> set[str]:
        """Return the names of the arguments that reach the functions of status keys, and those that these need."""
        return self._reach([self._bindings[name].function for name in names], lambda source: True)

    def list_arguments(self, function: ProfilerFunction) -> set[str]:
        """Return the names of the arguments that reach a function, those in the bundles it names with them."""
        return self._reach([function], lambda source: is_bundle(source.function))

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

    def copy(self) -> Registry:
        """Return a registry with the same bindings that changes on its own."""
        twin = Registry()
        twin._bindings = dict(self._bindings)
        return twin


def is_bundle(function: ProfilerFunction) -> bool:
    """Return whether a function puts arguments of the caller's together to one value."""
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
