"""Which function computes which status key, and who wins where two claim the same one.

- Registering over a key that another function holds replaces it, with a warning.
- ``override=True`` takes precedence over any plain registration, made before or after.
- Two ``override=True`` on one key are an error. A failed registration leaves no trace.
- A function ``on_demand`` gives way to any other, without a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any

from ..arguments.names import status_name
from ..errors import RegistrationConflictError, RegistrationWarning, UnknownStatusError, nearest
from ..process.containment import NamedPlugin
from ..process.user_lines import find_stack_level
from .function import PROVIDED, ArgumentBundle, Contract, Need, ProfilerFunction, describe, read_usable
from .status import StatusKey

__all__ = ["Binding", "Registry"]


@dataclass(frozen=True)
class Binding:
    """A status key's template with the function that computes it.

    Attributes:
        key: The template.
        function: The function.
        contract: The keys and parameters of the function.
        override: Whether it takes precedence over bindings without it.
        on_demand: Whether it is computed only where something needs it; it then belongs to no table.
        plugin: The plugin of another package that offers the function; None for any other function.
    """

    key: StatusKey
    function: ProfilerFunction
    contract: Contract
    override: bool = False
    on_demand: bool = False
    plugin: NamedPlugin | None = None

    @property
    def is_bundle(self) -> bool:
        """Whether the function puts arguments of the caller's together to one value."""
        return isinstance(self.function, ArgumentBundle)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all but the contract, which is read again: defaults of parameters may be anything."""
        return _rebind, (self.key, self.function, self.override, self.on_demand, self.plugin)


def _rebind(key: StatusKey, function: ProfilerFunction, *facts: Any) -> Binding:
    return Binding(key, function, function.read_contract(), *facts)


class Registry:
    """Maps the name of each status key to its binding."""

    def __init__(self) -> None:
        self._bindings: dict[str, Binding] = {}

    # Registration -----------------------------------------------------------------------------------------------------

    def register(self, function: ProfilerFunction, *, override: bool = False) -> None:
        """Bind a function to all its keys, or to none if anything is wrong with it; see `read_usable`."""
        contract = read_usable(function)
        self._bind_all([Binding(key, function, contract, override) for key in contract.keys.values()])

    def bind_on_demand(self, *functions: ProfilerFunction) -> None:
        """Bind functions of profilerkit's own, whose keys are computed only where something needs them."""
        for function in functions:
            contract = function.read_contract()
            self._bind_all([Binding(key, function, contract, on_demand=True) for key in contract.keys.values()])

    @classmethod
    def of_defaults(
        cls, offered: Iterable[tuple[ProfilerFunction, NamedPlugin]], leave_out: Container[str]
    ) -> Registry:
        """Return a registry of the functions that plugins offer, checked already, for all keys but those left out."""
        registry = cls()
        for function, source in offered:
            contract, plugin = function.read_contract(), None if source.is_own else source
            keys = [key for name, key in contract.keys.items() if name not in leave_out]
            registry._bind_all(
                [Binding(key, function, contract, on_demand=function.ON_DEMAND, plugin=plugin) for key in keys]
            )
        return registry

    def add(self, other: Registry, leave_out: Container[str]) -> None:
        """Add the bindings of another registry, except for the keys that are left out."""
        self._bindings |= {name: binding for name, binding in other._bindings.items() if name not in leave_out}

    def replace_function(self, old: ProfilerFunction, new: ProfilerFunction) -> None:
        """Put ``new`` in the place of ``old`` for the keys it holds, and bind it to the keys that are new."""
        contract = read_usable(new)
        replaced = {name: binding for name, binding in self._bindings.items() if binding.function is old}
        override = any(binding.override for binding in replaced.values())
        added = [Binding(key, new, contract, override) for name, key in contract.keys.items() if name not in replaced]
        self._require_no_second_override(added)
        self._bindings |= {
            name: replace(binding, function=new, contract=contract) for name, binding in replaced.items()
        }
        self._bind_all(added)

    def copy(self) -> Registry:
        """Return a registry with the same bindings that changes on its own."""
        twin = Registry()
        twin._bindings = dict(self._bindings)
        return twin

    def _bind_all(self, bindings: Sequence[Binding]) -> None:
        """Take bindings as the rules at the top of the file say; none of them if one is refused."""
        self._require_no_second_override(bindings)
        for binding in bindings:
            name = binding.key.NAME
            previous = self._bindings.get(name)
            if previous is not None:
                if previous.function is binding.function or (previous.override and not binding.override):
                    continue
                if previous.override == binding.override and not previous.on_demand:
                    warnings.warn(
                        f"{describe(previous.function)} no longer computes {name!r}: {describe(binding.function)} "
                        "replaces it; pass override=True if this is intended",
                        RegistrationWarning,
                        stacklevel=find_stack_level(),
                    )
            self._bindings[name] = binding

    def _require_no_second_override(self, bindings: Sequence[Binding]) -> None:
        for binding in bindings:
            name, function = binding.key.NAME, binding.function
            previous = self._bindings.get(name)
            if previous and previous.override and binding.override and previous.function is not function:
                raise RegistrationConflictError(
                    f"{describe(previous.function)} and {describe(function)} are both registered with override=True "
                    f"for status key {name!r}; register only one of them with override=True"
                )

    # Looking up -------------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str | type[StatusKey]) -> Binding:
        key_name = name if isinstance(name, str) else status_name("name", name)
        binding = self._bindings.get(key_name) or self._find_by_alias(key_name)
        if binding is None:
            # A misspelt alias is told too: "latncy" is like "latency", an alias of execution_time.
            likely_alias = nearest(key_name, [alias for bound in self for alias in bound.key.ALIASES])
            raise UnknownStatusError(key_name, [*self.names(), *([likely_alias] if likely_alias else [])])
        return binding

    def __contains__(self, name: object) -> bool:
        key_name = name if isinstance(name, str) else status_name("name", name)
        return key_name in self._bindings or self._find_by_alias(key_name) is not None

    def __iter__(self) -> Iterator[Binding]:
        return iter(tuple(self._bindings.values()))

    def names(self) -> tuple[str, ...]:
        """Return the names of the keys that belong to tables, in the order of registration."""
        return tuple(name for name, binding in self._bindings.items() if not binding.on_demand)

    def list_siblings(self, binding: Binding) -> list[Binding]:
        """Return the bindings of all keys that the function of a binding computes here, this one among them."""
        bindings = map(self._bindings.get, binding.contract.keys)
        return [bound for bound in bindings if bound is not None and bound.function is binding.function]

    def functions(self) -> list[ProfilerFunction]:
        """Return every bound function once."""
        return list({id(binding.function): binding.function for binding in self._bindings.values()}.values())

    def find_source(self, parameter: Parameter) -> Binding | None:
        """Return the status key that a parameter of a function gets its value from; None for other parameters.

        An alias of a key counts for a parameter without a default: one with a default may be an option of that name.
        """
        binding = self._bindings.get(parameter.name)
        if binding is None and parameter.default is Parameter.empty:
            return self._find_by_alias(parameter.name)
        return binding

    def find_like(self, name: str, function: ProfilerFunction) -> str | None:
        """Return what a misspelt parameter of a function may mean: a status key, or a provided argument."""
        others = [binding.key for binding in self if binding.function is not function]
        return nearest(name, [*PROVIDED, *(text for key in others for text in (key.NAME, *key.ALIASES))])

    def _find_by_alias(self, name: str) -> Binding | None:
        return next((binding for binding in self._bindings.values() if name in binding.key.ALIASES), None)

    # Which arguments reach which functions ----------------------------------------------------------------------------

    def list_all_arguments(self) -> set[str]:
        """Return the names of the arguments of all functions: of the bundles, only those that a function takes."""
        bindings = [binding for binding in self._bindings.values() if not binding.is_bundle]
        return _list_parameters(self._list_behind(bindings, bundles_only=True))

    def list_own_arguments(self, binding: Binding) -> set[str]:
        """Return the names of the arguments of a binding's function, with those of the bundles that it takes."""
        return _list_parameters(self._list_behind([binding], bundles_only=True))

    def list_reaching_arguments(self, names: Iterable[str]) -> set[str]:
        """Return the names of the arguments of the functions of status keys, and of all that these need."""
        return _list_parameters(self._list_behind([self._bindings[name] for name in names]))

    def find_need(self, name: str) -> Need:
        """Return the need of a status key: the greatest need of its function and of the functions behind it."""
        return max(binding.contract.need for binding in self._list_behind([self[name]]))

    def _list_behind(self, bindings: Iterable[Binding], bundles_only: bool = False) -> list[Binding]:
        """Return bindings, with the bindings of the status keys among their functions' parameters, and so on.

        Each function is there once. If ``bundles_only``, only bundles are added to the bindings.
        """
        waiting = [*bindings]
        result: dict[int, Binding] = {}
        while waiting:
            binding = waiting.pop()
            if id(binding.function) in result:
                continue
            result[id(binding.function)] = binding
            sources = [self.find_source(parameter) for parameter in binding.contract.parameters.values()]
            waiting += [source for source in sources if source is not None and (source.is_bundle or not bundles_only)]
        return [*result.values()]


def _list_parameters(bindings: Iterable[Binding]) -> set[str]:
    return {name for binding in bindings for name in binding.contract.parameters}
