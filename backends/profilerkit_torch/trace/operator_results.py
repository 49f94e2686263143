"""What an operator makes in a pass: by its kernel, by known values, or on stand-ins without running it.

The output shapes or numbers of some operators depend on values: ``x[mask]``, ``mask.nonzero()``, ``mask.any().item()``.
The values of small tensors are known although their stand-ins have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..compat.operators import find_operator
from .kernel_outputs import lay_out_as_kernels, leave_out, require_one_dtype
from .known_values import UNKNOWN, KnownValues
from .meta_outputs import without_running
from .operator_facts import OperatorCall, depends_on_values, tensors_in
from .pass_record import PassRecord

__all__ = ["make_result"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
_INDEX = find_operator("aten.index.Tensor")
_MASKED_SELECT = find_operator("aten.masked_select.default")
_TO_COPY = find_operator("aten._to_copy.default")


def make_result(recorder: PassRecord, call: OperatorCall, moved: OperatorCall) -> tuple[Any, bool]:
    """Return what an operator makes, and whether that depends on values.

    ``moved`` is the call of the model, with stand-ins on the meta device for its real tensors.
    """
    is_by_values = depends_on_values(call.func)
    if not recorder.settings.stands_in:
        return moved.run(), is_by_values
    if not is_by_values:
        answer = _move_to_cpu(recorder.values, *call)
    elif recorder.settings.on_meta and not all(tensor.is_meta for tensor in moved.tensors):
        answer = None  # it has real tensors alone, and answers itself
    else:
        answer = _answer_by_values(recorder.values, *call)
    if answer is not None:
        return answer, True
    return _run_on_stand_ins(recorder, call, moved), is_by_values


def _run_on_stand_ins(recorder: PassRecord, call: OperatorCall, moved: OperatorCall) -> Any:
    """Return what an operator makes; the guard keeps what of the model's it is about to write to."""
    require_one_dtype(moved)
    result = without_running(*moved)
    if result is not None:
        return result
    if recorder.settings.guard is not None:
        recorder.settings.guard.watch(*call)
    result = leave_out(moved.func, moved.args, moved.run(), recorder.settings.kernels)
    return lay_out_as_kernels(moved.func, moved.args, result)


# By known values ------------------------------------------------------------------------------------------------------


def _answer_by_values(knowledge: KnownValues, func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator makes whose output shapes or numbers depend on values; None where these are unknown."""
    values = knowledge.run_on_values(func, args, kwargs)
    device = next((tensor.device for tensor in tensors_in(args) if knowledge.stands_in(tensor)), _CPU)
    if values is not UNKNOWN:
        return _replace_by_stand_ins(knowledge, values, device)
    if func is _INDEX:
        return _index_by_masks(knowledge, args[0], args[1], device)
    if func is _MASKED_SELECT:
        return _select_by_mask(knowledge, args[0], args[1], device)
    return None


def _replace_by_stand_ins(knowledge: KnownValues, values: Any, device: torch.device) -> Any:
    """Return for real tensors others without values; numbers as they are."""
    if isinstance(values, torch.Tensor):
        return knowledge.make_stand_in(values, device)
    if isinstance(values, (list, tuple)):
        return tuple(_replace_by_stand_ins(knowledge, value, device) for value in values)
    return values


def _index_by_masks(knowledge: KnownValues, tensor: torch.Tensor, indices: Sequence[Any], device: torch.device) -> Any:
    """Return a tensor without values indexed by masks that are known; None for other indices."""
    positions = list(_replace_masks(knowledge, indices, device))
    if not any(map(_is_mask, indices)) or any(map(_is_mask, positions)):
        return None
    return _INDEX(knowledge.make_stand_in(tensor, device), positions)


def _replace_masks(knowledge: KnownValues, indices: Sequence[Any], device: torch.device) -> Iterator[Any]:
    """Yield the indices without values; for a known mask the positions that it chooses."""
    for index in indices:
        mask = knowledge.find(index) if _is_mask(index) else None
        if mask is not None:
            for positions in knowledge.run(_find_positions, (mask,), {}):
                yield knowledge.make_stand_in(positions, device)
        else:
            yield index if index is None else knowledge.make_stand_in(index, device)


def _select_by_mask(
    knowledge: KnownValues, tensor: torch.Tensor, mask: torch.Tensor, device: torch.device
) -> torch.Tensor | None:
    """Return a vector with a place for each element that a mask chooses; None for a mask that is not known."""
    values = knowledge.find(mask)
    if values is None:
        return None
    shape = torch.broadcast_shapes(tensor.shape, values.shape)
    return torch.empty(knowledge.run(_sum_expanded, (values, shape), {}), dtype=tensor.dtype, device=device)


def _move_to_cpu(knowledge: KnownValues, func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """Return the real tensor that a move of a meta tensor to the CPU makes, if its values are known; else None.

    A fake tensor that is moved stays a fake one.
    """
    if func is not _TO_COPY or not args[0].is_meta or torch.device(kwargs.get("device", _META)) != _CPU:
        return None
    values = knowledge.find(args[0])
    return None if values is None else func(values, **kwargs)


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _find_positions(mask: torch.Tensor) -> Sequence[torch.Tensor]:
    return mask.nonzero().unbind(1)


def _sum_expanded(mask: torch.Tensor, shape: Sequence[int]) -> int:
    """Return the sum of a mask that is expanded to a shape."""
    return int(mask.expand(shape).sum())
