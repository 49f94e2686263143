"""A stand-in for a backend that loads it at the first use of more than its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..process.cached import cached_property
from .backends import backends, load
from .offers import list_profiler_functions

if TYPE_CHECKING:
    from ..backend import Backend
    from .extension import BackendInfo

__all__ = ["make_stand_in", "names_of_functions"]


class _Unloaded:
    """Has the name of a backend; any other attribute loads the backend and returns the backend's."""

    def __init__(self, info: BackendInfo) -> None:
        self.name = info.name
        self._info = info

    @cached_property
    def _backend(self) -> Backend:
        return load(self._info)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        """The class of the backend, for ``isinstance``."""
        return type(self._backend)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def make_stand_in(info: BackendInfo) -> Backend:
    """Return a stand-in for a backend, for a hook that may need only its name to return what it offers."""
    return cast("Backend", _Unloaded(info))


def names_of_functions() -> set[str]:
    """Return the status keys that the functions of all plugins compute, for any backend, declared as keys or not."""
    return {
        name
        for info in backends()
        for offer in list_profiler_functions(make_stand_in(info))
        for key in offer.item.list_keys()
        for name in (key.NAME, *key.ALIASES)
    }
