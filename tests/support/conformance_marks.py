"""Leaves to `make test-all` what runs more than a few architectures: frameworks compile each for a second or more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["mark_slow_architectures"]

#: What runs a model, beside tracing it, or traces one in every framework.
RUNNING = frozenset(
    {
        "test_all_frameworks_have_the_same_table_row_by_row",
        "test_builders_build_what_is_described",
        "test_inputs_that_do_not_fit_are_a_failure_of_the_trace",
        "test_running_leaves_the_model_as_it_was",
        "test_the_profile_has_the_numbers_of_the_description",
    }
)
#: Layers of weights, of pictures with a branch, and a loop.
QUICK = frozenset({"mlp", "residual_cnn", "gru"})


def mark_slow_architectures(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of the conformance suite that run an architecture which is not quick."""
    for item in items:
        if isinstance(item, pytest.Function) and item.function.__name__ in RUNNING:
            architecture: Any = item.callspec.params.get("architecture")
            if architecture is not None and getattr(architecture, "name", architecture) not in QUICK:
                item.add_marker("slow")
