"""The fake backend passes the conformance suite over models of given numbers."""

from __future__ import annotations

from fake_conformance import FakeConformance


class TestFake(FakeConformance):
    """All of the suite."""
