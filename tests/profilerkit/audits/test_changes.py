"""Layers that have only another name are no difference."""

from __future__ import annotations

from collections import Counter

from profilerkit.audits.changes import _leave_out_renamed


def test_layers_with_another_name_are_left_out() -> None:
    """Of three layers of 8 that came and two that went one is new; what differs in size or type stays."""
    grouped: Counter[tuple[str, float, str]] = Counter(
        {
            ("Linear", 8, "added"): 3,
            ("Linear", -8, "removed"): 2,
            ("Linear", 5, "changed"): 1,
            ("Conv2d", 4, "added"): 1,
            ("Linear", -4, "removed"): 1,
        }
    )
    _leave_out_renamed(grouped)
    assert grouped == {
        ("Linear", 8, "added"): 1,
        ("Linear", 5, "changed"): 1,
        ("Conv2d", 4, "added"): 1,
        ("Linear", -4, "removed"): 1,
    }
