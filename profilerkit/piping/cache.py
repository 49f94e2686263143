"""The values that a profiler remembers from earlier requests, and whether they are still valid.

A value is valid for the function, the arguments and the statuses that it was computed from, as long as their contents
and the model are unchanged: all may be changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..process.contents import list_contents
from ..protocols import take_fingerprint
from ..trace.records import ModelTrace
from .function import PROVIDED, ProfilerFunction
from .outcome import Completeness
from .registry import Binding, Registry
from .requests import first_of_several
from .status import StatusKey

__all__ = ["Cache", "Remembered", "Resolved", "State"]


class State(NamedTuple):
    """The model, and what a function uses beside it, as they are at one time; a later change makes it unequal.

    Attributes:
        fingerprint: The backend's fingerprint of the model.
        contents: The contents of the function's arguments and attributes: both may be changed in place.
    """

    fingerprint: object = None
    contents: object = None


#: The state where nobody will ask for it: equal to no other.
_NOT_READ = State(object())


@dataclass(frozen=True)
class Remembered:
    """A computed status, with everything that it was computed from.

    Attributes:
        status: The status.
        function: The function that computed it.
        arguments: `Resolved.origins` of the function; None for a loaded value, of which they are not known.
        group: An object that all values of one joint measurement share.
        request: The caller's arguments of the request that computed the value, for reports.
        state: The state at that time.
    """

    status: StatusKey
    function: ProfilerFunction
    arguments: Mapping[str, Any] | None
    group: object | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    state: State = _NOT_READ

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the status and its request: everything else is compared by identity, which a pickle loses.

        A value that was loaded stays a loaded value.
        """
        return Remembered, (self.status, self.function, None if self.arguments is None else {}, None, self.request)


class Resolved(NamedTuple):
    """The arguments of a function, and the statuses that it uses.

    Attributes:
        plain: The arguments that are no values of statuses.
        statuses: The statuses whose values are the other arguments.
        requested: The statuses that the function has requested from its profiler while it was called.
    """

    plain: dict[str, Any]
    statuses: dict[str, StatusKey]
    requested: list[StatusKey]

    @property
    def values(self) -> dict[str, Any]:
        """All arguments, as the function gets them."""
        return {**self.plain, **{name: status.value for name, status in self.statuses.items()}}

    @property
    def origins(self) -> dict[str, Any]:
        """All arguments, with the statuses in place of their values."""
        return {**self.plain, **self.statuses}

    def list_contents(self, function: ProfilerFunction) -> object:
        """Return the present contents of the arguments of a function, and of its own attributes.

        Statuses never change. Of the arguments that every profiler provides, only the data splits may change: the model
        has its fingerprint.
        """
        changeable = {name: value for name, value in self.plain.items() if name not in PROVIDED or name in _DATA}
        return list_contents((changeable, getattr(function, "__dict__", None)))

    def list_traces(self) -> list[ModelTrace]:
        """Return the traces among the arguments."""
        return [value for value in self.values.values() if isinstance(value, ModelTrace)]


#: The arguments that every profiler provides and that may be changed in place.
_DATA = ("data_splits", "input_source")


class Cache:
    """The remembered values, as one request reads them and adds to them.

    Args:
        registry: The function of each status key.
        provided: The arguments that every profiler provides, by the names of parameters.
        entries: The remembered values, by status key.
        request: The caller's arguments.
        recompute: Whether all earlier values are ignored.
        once: Whether the request is the only one: then it is not noted how values were computed.
    """

    def __init__(
        self,
        registry: Registry,
        provided: Mapping[str, Any],
        entries: dict[str, Remembered],
        request: Mapping[str, Any],
        *,
        recompute: bool,
        once: bool,
    ) -> None:
        self.entries = entries
        self._registry = registry
        self._provided = provided
        self._request = request
        self._recompute = recompute
        self._once = once
        #: By whether it is of the values of the parameters too.
        self._fingerprints: dict[bool, object] = {}
        #: The functions that were called in this request, by their ``id``.
        self._fresh: set[int] = set()
        #: The functions whose arguments and model were found to be what they were, likewise.
        self._unchanged: set[int] = set()

    def find_loaded(self, binding: Binding) -> Remembered | None:
        """Return a value that was loaded for the function of a key; None if an argument asks for another one."""
        remembered = self.entries.get(binding.key.NAME)
        if remembered is None or remembered.arguments is not None or self._recompute:
            return None
        is_wanted = self._registry.list_own_arguments(binding).isdisjoint(first_of_several(self._request))
        return remembered if is_wanted and remembered.function is binding.function else None

    def find(self, binding: Binding, resolved: Resolved) -> Remembered | None:
        """Return the value that was computed from these arguments, if nothing has changed since."""
        remembered = self.entries.get(binding.key.NAME)
        return remembered if remembered is not None and self._still_holds(remembered, binding, resolved) else None

    def keep(
        self,
        binding: Binding,
        statuses: Mapping[str, StatusKey],
        resolved: Resolved,
        group: object | None = None,
    ) -> None:
        """Remember the values that a binding's function has computed from its arguments."""
        self._fresh.add(id(binding.function))
        state = _NOT_READ if self._once else self._read_state(binding, resolved)
        arguments = resolved.origins
        for name, status in statuses.items():
            self.entries.pop(name, None)  # the newest stands last
            self.entries[name] = Remembered(status, binding.function, arguments, group, self._request, state)

    def keep_failure(self, binding: Binding, status: StatusKey) -> None:
        """Remember the failed status of a key."""
        self.entries.pop(binding.key.NAME, None)
        self.entries[binding.key.NAME] = Remembered(status, binding.function, {}, request=self._request)

    def _still_holds(self, remembered: Remembered, binding: Binding, resolved: Resolved) -> bool:
        if remembered.function is not binding.function or remembered.arguments is None:
            return False
        is_fresh = id(binding.function) in self._fresh
        has_failed = remembered.status.outcome.completeness is Completeness.FAILED
        if not is_fresh and (self._recompute or has_failed):
            return False
        if not _are_same(resolved.origins, remembered.arguments):
            return False
        return is_fresh or self._once or self._is_unchanged(remembered, binding, resolved)

    def _is_unchanged(self, remembered: Remembered, binding: Binding, resolved: Resolved) -> bool:
        """Return whether the model, the arguments and the function are unchanged since a value was computed."""
        function = binding.function
        if id(function) in self._unchanged:
            return True
        try:
            unchanged = remembered.state == self._read_state(binding, resolved)
        except MemoryError:
            raise
        except Exception:  # something among them cannot be compared
            return False
        if unchanged:
            self._unchanged.add(id(function))
        return bool(unchanged)

    def _read_state(self, binding: Binding, resolved: Resolved) -> State:
        """Return the present state of the model, of the arguments and of the function.

        The fingerprint of the model includes the values of its parameters if the function may read them. A function
        that uses the model only through the backend counts and times, whatever the values are.
        """
        values = binding.contract.handles_model
        if values not in self._fingerprints:
            self._fingerprints[values] = take_fingerprint(self._provided["backend"], self._provided["model"], values)
        return State(self._fingerprints[values], resolved.list_contents(binding.function))


def _are_same(arguments: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    """Return whether arguments are equal to the earlier ones; provided arguments are compared by identity."""
    if arguments.keys() != earlier.keys():
        return False
    others = [name for name, value in arguments.items() if value is not earlier[name]]
    return all(name not in PROVIDED and _is_equal(arguments[name], earlier[name]) for name in others)


def _is_equal(value: Any, other: Any) -> bool:
    if type(value) is not type(other) or isinstance(value, StatusKey):
        return False
    try:
        return bool(value == other)
    except MemoryError:
        raise
    except Exception:  # tensors and arrays compare element by element; two objects then count as different
        return False
