"""Profiles that were made on any machine, joined with the layers of a model and their exact counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from .api import join
    from .reading import ProfileFile, read_profile
    from .records import RecordedKernel, Recording
    from .result import JoinedProfile

__all__ = ["JoinedProfile", "ProfileFile", "RecordedKernel", "Recording", "join", "read_profile"]

_MODULES = module_of_each(
    {
        ".api": "join",
        ".reading": "ProfileFile read_profile",
        ".records": "RecordedKernel Recording",
        ".result": "JoinedProfile",
    }
)

install_lazy_names(__name__, _MODULES)
