"""What a request asks for, computed one after the other: a failure is kept, or raised where the caller is strict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import IncompleteStatusError
from .computation import Computation
from .registry import Binding
from .status import Completeness

__all__ = ["compute_in_order"]


def compute_in_order(
    computation: Computation, bindings: Iterable[Binding], model_name: str, strict: bool
) -> Iterator[str]:
    """Compute bindings one after the other and yield the name of each that is done; failures are kept unless strict."""
    for binding in bindings:
        name = binding.key.NAME
        try:
            status = computation.status(name)
            if strict and status.outcome.error is not None:
                raise status.outcome.error
            if strict and computation.contradiction:
                raise IncompleteStatusError(f"{name} of {model_name}: {computation.contradiction}")
        except Exception as error:
            if strict:
                raise
            computation.fail(binding, error)
            yield name
            continue
        if strict and status.outcome.completeness is not Completeness.COMPLETE:
            raise IncompleteStatusError(
                f"{name} of {model_name} is {status.outcome.completeness.value}: {'; '.join(status.outcome.missing)}"
            )
        yield name
