"""A model made ready for a static pass: outside of the caller's modes, without wrappers, operator by operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..model.inventory import Inventory
from ..model.wrapped import unwrap
from ..model.wrapper_kinds import has_wrappers
from ..untouched.caller_context import apart
from ..untouched.preservation import preserve
from ..untouched.temporary_settings import run_operator_by_operator

__all__ = ["traceable"]


@contextmanager
def traceable(inventory: Inventory) -> Iterator[Inventory]:
    """Yield what a model holds without its wrappers; at the end it is as it was."""
    with apart(), run_operator_by_operator(inventory):
        if not has_wrappers(inventory):
            yield inventory
            return
        with preserve(inventory.model, inventory=inventory):
            yield Inventory(unwrap(inventory.model, inventory.modules))
