"""Engines: how the cases of an audit are run, each in a process of its own; found as plugins by their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profilerkit.errors import NotOfferedError, by_likeness
from profilerkit.hooks.extension import EngineInfo
from profilerkit.hooks.manager import find_offer, list_infos, load_offer

if TYPE_CHECKING:
    from .cases import Case
    from .outcomes import Outcome

__all__ = ["Engine", "EngineInfo", "EngineOptions", "find_engine"]


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is made with.

    Args:
        workers: How many models are counted at the same time; None for one a core.
        repeats: How often a case whose times are noisy is measured again.
        address: The address of a cluster, for an engine that has one; None for one on this machine.
        on_start: Is called with each case when its process is started, for progress; None for nobody.
    """

    workers: int | None = None
    repeats: int = 2
    address: str | None = None
    on_start: Callable[[Case], None] | None = None


class Engine(ABC):
    """Runs cases and yields what came of them; an instance serves one audit.

    An engine raises for nothing that a model does: a crash, a time-out and a lost machine are outcomes with a reason.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options

    @classmethod
    def location(cls, machine: str) -> str:
        """Return where cases are timed, for their keys: the kind of this machine, unless they run elsewhere.

        A row has the kind of the machine on which it was measured in any case.
        """
        return machine

    @abstractmethod
    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run each case once in a process of its own, and yield its outcome when it is there, in any order.

        Closing the iterator ends all processes that still run.
        """

    def tell_start(self, case: Case) -> None:
        """Say that the process of a case is started."""
        if self.options.on_start is not None:
            self.options.on_start(case)


def find_engine(name: str) -> type[Engine]:
    """Return the class of an engine.

    Raises `NotOfferedError` for an unknown name, and if it cannot be loaded; `RegistrationConflictError` if two plugins
    offer engines of the same name.
    """
    offer = find_offer(EngineInfo, name)
    if offer is None:
        names = by_likeness(name, [other.item.name for other in list_infos(EngineInfo)])
        raise NotOfferedError(f"there is no engine {name!r}; there are, nearest first: {', '.join(names)}")
    try:
        engine: type[Engine] = load_offer(offer, _is_engine, "is no engine")
    except NotOfferedError as error:
        missing = error.__cause__
        if not isinstance(missing, ImportError):
            raise
        requirement = offer.item.requirement
        raise NotOfferedError(
            f"the engine {name!r} cannot be used: {missing}; install it with: pip install '{requirement}'"
        ) from missing
    return engine


def _is_engine(loaded: object) -> bool:
    return isinstance(loaded, type) and issubclass(loaded, Engine)
