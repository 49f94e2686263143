"""Data sets: how large their batches are, without reading them."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field

#: The arguments of a data set of batches, and the data set before it. Without them the batches are counted.
_BATCH_SIZE, _BEFORE = field("_batch_size"), field("_input_dataset")


def read_batch_size(dataset: Any) -> Any:
    """Return the batch size that a data set was made with; None for one that makes no batches."""
    return getattr(dataset, _BATCH_SIZE, None)


def find_previous_dataset(dataset: Any) -> Any:
    """Return the data set that another one takes its elements from; None where it has none."""
    return getattr(dataset, _BEFORE, None)
