"""A backend that is loaded when more than its name is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..process.cached import cached_property
from .offers import load

if TYPE_CHECKING:
    from ..backend import Backend, BackendInfo

__all__ = ["unloaded"]


class _Unloaded:
    """Has the name of a backend, and everything else of it once that is loaded."""

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


def unloaded(info: BackendInfo) -> Backend:
    """Return what stands for a backend where its name alone may be needed: a hook that is asked what it offers."""
    return cast("Backend", _Unloaded(info))
