"""A table of texts, as the text and the page of a report have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["TextTable"]


class TextTable(NamedTuple):
    """A table of texts.

    Attributes:
        title: Its title.
        headings: The titles of its columns; empty ones for a table of names and values.
        rows: Its rows.
        detail: What stands behind the title; links to the table leave it out.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    detail: str = ""

    @property
    def caption(self) -> str:
        """The title with its detail."""
        return f"{self.title}, {self.detail}" if self.detail else self.title
