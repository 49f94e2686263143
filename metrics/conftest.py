"""What the examples in the docstrings of the metrics are run with."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit import profile
from profilerkit.times.steps import StepRecord


@pytest.fixture(autouse=True)
def names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    """Have the examples written without imports; they are skipped where there is no PyTorch."""
    nn = pytest.importorskip("torch.nn")
    doctest_namespace.update(nn=nn, profile=profile, StepRecord=StepRecord)
