"""Profiles that were made on any machine, joined with the layers of a model and their exact counts."""

from __future__ import annotations

from .api import join
from .reading import ProfileFile, read_profile
from .records import RecordedKernel, Recording
from .result import JoinedProfile

__all__ = ["JoinedProfile", "ProfileFile", "RecordedKernel", "Recording", "join", "read_profile"]
