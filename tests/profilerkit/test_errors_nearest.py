"""The names that an error on an unknown metric shows."""

from __future__ import annotations

from profilerkit.errors import UnknownStatusError


def test_an_unknown_metric_shows_the_five_nearest_names_and_where_all_are() -> None:
    error = UnknownStatusError("mac", ["macs", "map", "may", "mat", "man", "zzz", "yyy"])
    assert str(error).startswith("unknown metric 'mac'; this profiler knows, nearest first: macs, ")
    assert str(error).endswith(" and 2 more; `profilerkit list` lists them")
    assert "zzz" not in str(error) and len(error.names) == 7
