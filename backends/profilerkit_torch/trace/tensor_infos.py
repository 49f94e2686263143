"""Shape and dtype of the tensors that go through a layer or an operator."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from profilerkit.backend_kit.call_stack import tensors_in
from profilerkit.trace.records import TensorInfo

from ..compat.modes import is_function_mode_active, unseen_by_functions
from ..costs import replace_by_shapes
from ..model.tensors import PLAIN_TYPES

__all__ = ["tensor_info", "tensor_infos"]


def tensor_info(tensor: torch.Tensor) -> TensorInfo:
    """Return shape and dtype of a tensor; a nested one counts as long as its longest samples."""
    if type(tensor) in PLAIN_TYPES and is_function_mode_active():  # modes have nothing to add to torch's answers
        with unseen_by_functions():
            return tensor_info(tensor)
    if tensor.is_nested:
        return TensorInfo(tuple(replace_by_shapes(tensor)), str(tensor.dtype).removeprefix("torch."))
    try:
        return _info(tensor.shape, tensor.dtype)
    except TypeError:  # sizes that are no numbers yet have no hash
        return _info.__wrapped__(tensor.shape, tensor.dtype)


@lru_cache(maxsize=4096)
def _info(shape: torch.Size, dtype: torch.dtype) -> TensorInfo:
    return TensorInfo(tuple(map(int, shape)), str(dtype).removeprefix("torch."))


def tensor_infos(structure: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every tensor in a nested structure: tuples, mappings and dataclasses."""
    if type(structure) is tuple and len(structure) == 1:
        (structure,) = structure
    if isinstance(structure, torch.Tensor):
        return (tensor_info(structure),)
    return tuple(map(tensor_info, tensors_in(structure, torch.is_tensor)))
