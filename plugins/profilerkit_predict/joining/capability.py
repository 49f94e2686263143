"""The capability that `join` asks of a backend: it finds the layer of each kernel in a profile."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

from profilerkit import ModelInputs, ModelTrace
from profilerkit.protocols import Capability

from .reading import ProfileFile
from .records import Recording


@runtime_checkable
class JoinsProfiles(Protocol):
    """Joins profiles that were made on any machine with the layers of a model."""

    @abstractmethod
    def read_recording(
        self, profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
    ) -> Recording:
        """Return the passes in a profile without the first ``skip``, with the layer of each kernel.

        Raises `ProfileFileError` for a profile of another framework, or of another model.
        """

    @abstractmethod
    def profile_script(self) -> str:
        """Return a script of one file that makes a profile if nothing but the framework is installed.

        Raises `NotOfferedError` if there is none.
        """


JOINS_PROFILES = Capability(JoinsProfiles, "profiles from elsewhere, by layer", "does not join profiles from elsewhere")
