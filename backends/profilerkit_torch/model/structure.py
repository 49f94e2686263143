"""The present structure of a model, to notice changes: its modules, their attributes, its tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.backend_kit.keras_layers import keras_bookkeeping
from profilerkit.process.contents import BYTES_OF, Contents, Identity

from ..compat.modules import OF_STATE_DICTS
from ..compat.tensors import count_writes
from .modules import list_modules
from .storages import read_bytes
from .tensors import PLAIN_TYPES

__all__ = ["read_structure"]

#: Attributes of a module that no pass reads; and its training flag, which is read apart.
_LEFT_OUT = OF_STATE_DICTS | {"training"}
BYTES_OF["torch"] = read_bytes


def read_structure(model: nn.Module, *, flags: bool = True) -> list[Any]:
    """Return a value that changes whenever the model does; compare two of them with ``==``.

    It contains for each module: its identity and class, the tensors that it owns (which, how large, how often written
    to), its hooks, a ``forward`` of its own, and every other attribute (plain values, and the contents of containers
    and further objects). It contains the attributes of each class, and for functions their closures and the global
    variables that they name. It is one walk over the attributes; the only values of tensors that it reads are integers
    and single numbers.

    With ``flags`` it contains all training flags. Without, it contains them only if they differ among modules: a pass
    for inference sets all to False, and a pass for training all to True, unless the user has set only some.
    """
    contents = Contents(_add_special, reads_globals=True)
    training: list[Any] = []
    for module in list_modules(model):
        kind, attributes = type(module), module.__dict__
        contents.written += (Identity(module), kind)
        contents.add_class(kind)
        training.append(attributes.get("training"))
        ignored = keras_bookkeeping(module)
        left_out = _LEFT_OUT | ignored if ignored else _LEFT_OUT
        contents.add_attributes({name: attributes[name] for name in attributes if name not in left_out})
    if flags or len(set(training)) > 1:
        contents.written.append(training)
    return contents.written


def _add_special(value: Any, contents: Contents) -> bool:
    """Write down a tensor, or a module, whose attributes are written where it is met itself."""
    if isinstance(value, nn.Module):
        contents.written.append(Identity(value))
    elif isinstance(value, torch.Tensor):
        _add_tensor(value, contents)
    else:
        return False
    return True


def _add_tensor(tensor: torch.Tensor, contents: Contents) -> None:
    """Write down which tensor it is, how large, and how often it was written to; values that the model may go by."""
    contents.written += (Identity(tensor), tensor.dtype, tensor.device, tensor.requires_grad)
    if is_unsized(tensor):
        return
    has_address = type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided
    address = tensor.data_ptr() if has_address else 0  # ``tensor.data = ...`` counts as no write
    contents.written += (tensor.shape, address, 0 if tensor.is_inference() else count_writes(tensor))
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if is_integer or tensor.numel() == 1:
        contents.add_values(tensor)  # a write to ``tensor.data`` is not counted
    if type(tensor) is torch.Tensor and tensor.__dict__:
        contents.add_attributes(tensor.__dict__)
