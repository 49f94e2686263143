"""The capability that meshes ask of a backend: it traces one rank without the others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from profilerkit import ModelInputs
from profilerkit.protocols import Capability

from .layout import RankModel
from .records import RankTrace


@runtime_checkable
class TracesRanks(Protocol):
    """Traces a training step of one rank of a mesh, without the other ranks."""

    @abstractmethod
    def list_rank_variables(self, ranks: int) -> Mapping[str, str]:
        """Return the environment variables of the process in which a rank of so many is traced, beside this one's."""

    @abstractmethod
    def trace_rank(self, model: RankModel, inputs: ModelInputs) -> RankTrace:
        """Return a step of a rank with the inputs that it gets.

        Neither ``model.build`` nor ``model.parallelize`` is the text of a function: that was loaded. The process
        belongs to this call: it is not used for anything else afterwards.
        """


TRACES_RANKS = Capability(TracesRanks, "one rank of a mesh", "does not trace ranks of a mesh")
