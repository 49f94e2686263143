"""Reports of models whose layers are given as path, type and MACs."""

from __future__ import annotations

from collections.abc import Iterable

from profilerkit import Report
from profilerkit.trace.records import LayerTable

__all__ = ["report"]


def report(name: str, layers: Iterable[tuple[str, str, int | None]] | None) -> Report:
    """Return a report of layers given as path, type and MACs; the root comes of itself."""
    if layers is None:
        return Report(name, "fake", "m.M", {})
    given: list[tuple[str, str, int | None]] = [("", "Net", 0), *layers]
    parents = {path.rpartition(".")[0] for path, _, _ in given if path}
    rows = [
        {
            "path": path,
            "type": kind,
            "depth": path.count(".") + 1 if path else 0,
            "is_leaf": path not in parents,
            "params": 1,
            "macs": macs,
        }
        for path, kind, macs in given
    ]
    return Report(name, "fake", "m.M", {}, layers=LayerTable(rows))
