"""The values that a profiler remembers from earlier requests, and whether they are still valid.

A value is valid for the function, the arguments and the statuses that it was computed from, as long as their contents
and the model are unchanged: all may be changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..protocols import take_fingerprint
from .calls import Call
from .function import PROVIDED, ProfilerFunction
from .outcome import Completeness
from .registry import Binding, Registry
from .requests import first_of_several
from .status import StatusKey

__all__ = ["Cache", "Remembered"]


@dataclass(frozen=True)
class Remembered:
    """A computed status, with everything that it was computed from.

    Attributes:
        status: The status.
        function: The function that computed it.
        arguments: `Call.origins`; None for a loaded value, of which they are not known.
        group: An object that all values of one joint measurement share.
        request: The caller's arguments of the request that computed the value, for reports.
        fingerprint: The backend's fingerprint of the model at that time.
        contents: `Call.list_contents` at that time; None if it was not noted.
    """

    status: StatusKey
    function: ProfilerFunction
    arguments: Mapping[str, Any] | None
    group: object | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: object = None
    contents: object = None

    def map_statuses(self, change: Callable[[StatusKey], StatusKey]) -> Remembered:
        """Return it with what ``change`` returns for each status in it."""
        arguments = self.arguments and {
            name: change(value) if isinstance(value, StatusKey) else value for name, value in self.arguments.items()
        }
        return replace(self, status=change(self.status), arguments=arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the status and its request: everything else is compared by identity, which a pickle loses.

        A value that was loaded stays a loaded value.
        """
        return Remembered, (self.status, self.function, None if self.arguments is None else {}, None, self.request)


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
        self.registry = registry
        self.provided = provided
        self.entries = entries
        self.request = request
        self._recompute = recompute
        self._once = once
        #: By whether it is of the values of the parameters too.
        self._fingerprints: dict[bool, object] = {}
        #: The functions that were called in this request, by their ``id``.
        self._called: set[int] = set()

    def find_loaded(self, binding: Binding) -> StatusKey | None:
        """Return the status that was loaded for the function of a key; None if an argument asks for another one."""
        remembered = self.entries.get(binding.key.NAME)
        if remembered is None or remembered.arguments is not None or self._recompute:
            return None
        is_wanted = self.registry.list_own_arguments(binding).isdisjoint(first_of_several(self.request))
        return remembered.status if is_wanted and remembered.function is binding.function else None

    def find(self, call: Call) -> Remembered | None:
        """Return the value that was computed by an equal call, if nothing has changed since."""
        function = call.binding.function
        remembered = self.entries.get(call.binding.key.NAME)
        if remembered is None or remembered.function is not function or remembered.arguments is None:
            return None
        if not _are_same(call.origins, remembered.arguments):
            return None
        if id(function) in self._called:
            return remembered
        if self._recompute or remembered.status.outcome.completeness is Completeness.FAILED:
            return None
        return remembered if self._once or self._is_unchanged(remembered, call) else None

    def _is_unchanged(self, remembered: Remembered, call: Call) -> bool:
        """Return whether the model, the arguments and the function are unchanged since a value was computed."""
        if remembered.contents is None:
            return False
        try:
            is_same_model = remembered.fingerprint == self._read_fingerprint(call.binding)
            return bool(is_same_model and remembered.contents == call.list_contents())
        except MemoryError:
            raise
        except Exception:  # something among them cannot be compared
            return False

    def keep(self, call: Call, statuses: Mapping[str, StatusKey], group: object | None = None) -> None:
        """Remember the statuses that a call has computed, by their names."""
        function, origins = call.binding.function, call.origins
        self._called.add(id(function))
        fingerprint = None if self._once else self._read_fingerprint(call.binding)
        contents = None if self._once else call.list_contents()
        for name, status in statuses.items():
            self.entries.pop(name, None)  # the newest stands last
            self.entries[name] = Remembered(status, function, origins, group, self.request, fingerprint, contents)

    def keep_failure(self, binding: Binding, status: StatusKey) -> None:
        """Remember the failed status of a key."""
        self.entries.pop(binding.key.NAME, None)
        self.entries[binding.key.NAME] = Remembered(status, binding.function, {}, request=self.request)

    def _read_fingerprint(self, binding: Binding) -> object:
        """Return the present fingerprint of the model, which is read once in a request.

        It includes the values of the parameters if the function may read them. A function that uses the model only
        through the backend counts and times, whatever the values are.
        """
        values = binding.contract.handles_model
        if values not in self._fingerprints:
            self._fingerprints[values] = take_fingerprint(self.provided["backend"], self.provided["model"], values)
        return self._fingerprints[values]


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
