"""The bytes of a torch optimizer: of its present state, or of the state that a step of a copy makes on meta tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.count_text import format_count
from profilerkit.error_text import error_line
from profilerkit.trace.records import WeightRecord

from ..model.rank_shares import is_in_group
from .optimizer_copies import OptimizerCopy, count_state_bytes, list_inner

__all__ = ["optimizer_bytes"]


def optimizer_bytes(optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
    """Return the bytes of an optimizer's state, and the bytes that an update takes besides; a reason if unknown.

    The state of an optimizer that has stepped is counted; state that it lacks, of weights that had no gradient yet, is
    missing. For an optimizer that has not stepped, or a class with its defaults, a copy steps on meta tensors. So any
    class works, also classes of the user. The reason is a text because it is shown beside the numbers that are known
    (`ReadsOptimizers`).
    """
    kind = optimizer if isinstance(optimizer, type) else type(optimizer)
    name = kind.__name__
    if not issubclass(kind, torch.optim.Optimizer):
        return f"the state of {name}, which is no torch.optim.Optimizer; give one, or the name of one"
    if optimizer is kind:
        return _count_with_copy(name, None, partial(OptimizerCopy.make, kind, weights))
    optimizer = _find_wrapped(optimizer)
    strangers = _count_strangers(optimizer, weights)
    if strangers:
        return (
            f"the state of {name}, which trains {format_count(strangers, 'weight')} of sizes that the model lacks: "
            "give the optimizer of this model alone, or its class"
        )
    present = count_state_bytes(optimizer) if optimizer.state else None
    updated = None if is_in_group() else Counter(weight.count for weight in weights if weight.trainable)
    return _count_with_copy(name, present, partial(OptimizerCopy.copy, optimizer, updated))


def _count_with_copy(name: str, present: int | None, make_copy: Callable[[], OptimizerCopy]) -> OptimizerBytes | str:
    """Return the bytes of an optimizer that has stepped and has the ``present`` bytes; None if it has not stepped."""
    try:
        copy = make_copy()
        copy.step()  # makes the state; an update is a step with a state
        update_bytes = copy.step()
    except MemoryError:
        raise
    except Exception as error:  # whatever the optimizer raises
        reason = f"did not step on meta tensors ({type(error).__name__}: {error_line(error)})"
        if present is None:
            return f"the state of {name}, which {reason}; give an optimizer that has stepped, or the name of one"
        return OptimizerBytes(present, missing=f"what an update of {name} takes: a copy of it {reason}")
    made = copy.count_state_bytes()
    if present is None or made <= present:
        return OptimizerBytes(made if present is None else present, update_bytes)
    missing = f"{made - present:,} bytes that {name} makes for weights with which it has not stepped yet"
    return OptimizerBytes(present, update_bytes, missing)


def _find_wrapped(optimizer: Any) -> Any:
    """Return the optimizer whose groups and state a wrapper uses, such as accelerate's; else the optimizer itself."""
    for inner in list_inner(optimizer):
        parts = (getattr(optimizer, name, getattr(inner, name)) for name in ("param_groups", "state"))
        if list(map(id, parts)) == [id(inner.param_groups), id(inner.state)]:
            return _find_wrapped(inner)
    return optimizer


def _count_strangers(optimizer: torch.optim.Optimizer, weights: Iterable[WeightRecord]) -> int:
    """Return how many weights an optimizer trains that the model cannot have, by their numbers of elements.

    In a group of processes it may train parts of the model's weights: nothing is known then.
    """
    if is_in_group():
        return 0
    trained = (weight for group in optimizer.param_groups for weight in group["params"] if weight.requires_grad)
    sizes = Counter(weight.numel() for weight in trained if not is_unsized(weight))
    return (sizes - Counter(weight.count for weight in weights)).total()
