"""Real tensors in a pass on the meta device: tensors that the model makes itself, and integer inputs.

`OntoMeta` replaces them if an operator takes them together with tensors on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from ..costs import require_plain
from .live_bytes import LiveBytes
from .operator_facts import OperatorCall

__all__ = ["OntoMeta", "move_to_start"]

_META = torch.device("meta")


class OntoMeta:
    """Moves arguments to the meta device; a real tensor has one stand-in there for as long as it is alive.

    Args:
        is_overwritten: Returns whether unknown values were written to a real tensor. An operator that reads it runs on
            the meta device even if all its arguments are real, as its result is not known.
        live: Counts a tensor and its stand-in once: an operator that writes to one of them returns the stand-in.
    """

    def __init__(self, is_overwritten: Callable[[torch.Tensor], bool], live: LiveBytes) -> None:
        self._is_overwritten = is_overwritten
        self._live = live
        self._stand_ins: Any = WeakTensorKeyDictionary()

    def move(self, call: OperatorCall) -> OperatorCall:
        """Return an operator with all its tensors on the meta device if one of them must be; otherwise itself."""
        tensors = list(call.tensors)
        are_meta = [tensor.is_meta for tensor in tensors]
        must_move = any(are_meta) or any(map(self._is_overwritten, tensors))
        if must_move and call.kwargs.get("device") is not None:
            call = call._replace(kwargs={**call.kwargs, "device": _META})
        if not must_move or all(are_meta):
            return call
        kwargs = {name: self._move(value) for name, value in call.kwargs.items()}
        return OperatorCall(call.func, self._move(call.args), kwargs)

    def _move(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not value.is_meta:
            require_plain(value)  # a sparse one would be as if it stored all elements
            stand_in = self._stand_ins.get(value)
            if stand_in is None:
                stand_in = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META)
                self._stand_ins[value] = stand_in
                self._live.add_stand_in(value, stand_in)
            return stand_in
        if isinstance(value, (list, tuple)):
            return type(value)(self._move(item) for item in value)
        return value


def move_to_start(moved: Any) -> Any:
    """Return a tensor that should move off the meta device as a meta tensor at address 0.

    On the meta device an address is an offset. ``tolist()`` believes that it has moved the tensor to the CPU, and reads
    at any address but 0: the process would crash.
    """
    if not (isinstance(moved, torch.Tensor) and moved.is_meta and moved.storage_offset()):
        return moved
    return moved.as_strided(moved.size(), moved.stride(), 0)
