"""The capability to join profiles that were made elsewhere: one of `profilerkit.protocols`, and imported from there."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from .inputs import ModelInputs

if TYPE_CHECKING:
    from .joining.reading import ProfileFile
    from .joining.records import Recording
    from .trace.records import ModelTrace

__all__ = ["JoinsProfiles"]


@runtime_checkable
class JoinsProfiles(Protocol):
    """Joins profiles that were made on any machine with the layers of a model."""

    @abstractmethod
    def recording_in(
        self, profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
    ) -> Recording:
        """Return the passes in a profile without the first ``skip``, with the layer that each kernel worked for.

        Raises `ProfileFileError` for a profile of another framework, or of another model.
        """

    @abstractmethod
    def profile_script(self) -> str:
        """Return a script of one file that makes such a profile where nothing but the framework is installed.

        Raises `NotOfferedError` if there is none.
        """
