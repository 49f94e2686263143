"""What stands in for tensors in a pass: meta tensors, fake tensors, or in a real run nothing.

Weights and inputs get stand-ins before a pass. `OntoMeta` replaces tensors that the model makes itself, and integer
inputs, if an operator takes them together with tensors on the meta device.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import (  # type: ignore[attr-defined]
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
)
from torch.utils.weak import WeakTensorKeyDictionary

from profilerkit import ModelInputs

from ..compat.modes import unseen_by_subclasses
from ..compat.tensors import FakeTensorMode, make_tensor
from ..costs import is_plain, require_plain
from ..model.storages import storage_key
from ..model.tensors import PLAIN_TYPES, has_own_function, is_wrapper_class, view_like
from .live_bytes import LiveBytes
from .operator_facts import OperatorCall

__all__ = ["FakeStandIns", "MetaStandIns", "OntoMeta", "StandIns", "move_to_start"]

_META = torch.device("meta")


class StandIns:
    """One way to trace: this one is a real run, in which the model has its own weights and inputs.

    Args:
        mode: The context in which the stand-ins work.

    Attributes:
        method: The way in words, as `ModelTrace.method` has it.
        lack_values: Whether something without values stands in for the weights.
        on_meta: Whether that is meta tensors.
    """

    method: str = "a real run"
    lack_values: bool = False
    on_meta: bool = False

    def __init__(self, mode: AbstractContextManager[Any] | None = None) -> None:
        self.mode: AbstractContextManager[Any] = mode or nullcontext()

    def replace_weight(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what stands in for a parameter or buffer."""
        return tensor

    def replace_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what stands in for a tensor of the inputs."""
        return tensor

    def replace_leaves(self, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs with stand-ins; a tensor that occurs twice stays one tensor."""
        stand_ins: dict[int, Any] = {}

        def replace_once(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and id(leaf) not in stand_ins:
                stand_ins[id(leaf)] = self.replace_input(leaf)
            return stand_ins.get(id(leaf), leaf)

        return inputs.map(replace_once)


def make_meta_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the meta device that stands in for another tensor.

    - For a parameter or buffer without a size yet: a parameter or buffer without a size.
    - For a meta tensor, a sparse or a nested tensor: the tensor itself. The recorder refuses sparse and nested ones.
    - For a wrapper of other tensors: a wrapper of the same class around meta tensors.
    - For a tensor whose class answers torch's functions itself: a tensor of that class.
    - For a parameter: a parameter. For any other tensor: a plain tensor.
    """
    if isinstance(tensor, UninitializedTensorMixin):
        return _make_unsized(tensor)
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_nested:
        return tensor
    kind = type(tensor)
    if kind not in PLAIN_TYPES:
        if is_wrapper_class(kind):
            return _wrap_meta_tensors(tensor)
        if not has_own_function(tensor):
            kind = nn.Parameter if isinstance(tensor, nn.Parameter) else torch.Tensor
    stand_in = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)
    if kind is not torch.Tensor:
        stand_in = make_tensor(kind, stand_in, tensor.requires_grad)
    # Libraries note there what they ask of a weight, as the shape of a packed one. Wrappers have their parts there.
    if tensor.__dict__ and not hasattr(tensor, "__tensor_flatten__"):
        stand_in.__dict__.update(tensor.__dict__)
    return stand_in


def _make_unsized(tensor: torch.Tensor) -> torch.Tensor:
    kind: Any = UninitializedParameter if isinstance(tensor, nn.Parameter) else UninitializedBuffer
    unsized: torch.Tensor = kind(requires_grad=tensor.requires_grad, device=_META, dtype=tensor.dtype)
    return unsized


def _wrap_meta_tensors(wrapper: Any) -> torch.Tensor:
    """Return a wrapper of the same class, around stand-ins for the tensors that it wraps."""
    names, context = wrapper.__tensor_flatten__()
    parts = {name: make_meta_tensor(getattr(wrapper, name)) for name in names}
    stand_in: torch.Tensor = wrapper.__tensor_unflatten__(parts, context, wrapper.size(), wrapper.stride())
    return nn.Parameter(stand_in, wrapper.requires_grad) if isinstance(wrapper, nn.Parameter) else stand_in


class MetaStandIns(StandIns):
    """Meta tensors for weights and floating-point inputs; other inputs keep their values.

    The stand-in for an input that is a view is a view too with ``keep_views``. Those for inputs in one storage are in
    one storage.
    """

    method = "meta tensors"
    lack_values = True
    on_meta = True
    replace_weight = staticmethod(make_meta_tensor)

    def __init__(self, *, keep_views: bool) -> None:
        super().__init__()
        self._keep_views = keep_views
        #: By the storages of inputs, the storages of what stands in for them, which is freed after the pass. No weak
        #: dictionary: an interrupt that Python raised in its callback would be lost.
        self._storages: dict[int, weakref.ref[Any]] = {}

    def replace_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a meta tensor for one of floats that is neither sparse nor nested, any other tensor as it is."""
        if not (tensor.is_floating_point() or tensor.is_complex()) or not is_plain(tensor):
            return tensor
        stand_in = make_meta_tensor(tensor)
        if type(tensor) in PLAIN_TYPES and stand_in is not tensor:
            self._share_storage(stand_in, tensor)
        with unseen_by_subclasses():  # code of the tensor's class would notice our calls
            if self._keep_views and not has_own_function(tensor):
                stand_in = view_like(stand_in, tensor)
            return stand_in.requires_grad_(tensor.requires_grad)

    def _share_storage(self, stand_in: torch.Tensor, tensor: torch.Tensor) -> None:
        """Put a stand-in where its tensor is, into one storage with those for other inputs in the tensor's storage."""
        storage = self._storages.get(storage_key(tensor), lambda: None)()
        if storage is None:
            storage = torch.UntypedStorage(tensor.untyped_storage().nbytes(), device=_META)
            self._storages[storage_key(tensor)] = weakref.ref(storage)
        placed = torch.empty(0, dtype=tensor.dtype, device=_META)
        placed.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        stand_in.data = placed  # a write to the stand-in itself would count in its version


class FakeStandIns(StandIns):
    """Fake tensors, which know the device they stand for; for a meta tensor that is the CPU."""

    method = "fake tensors"
    lack_values = True

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        if any(isinstance(value, torch.ScriptObject) for module in modules for value in vars(module).values()):
            self._fake_mode.cache_enabled = False  # it would keep packed weights alive, and cannot compare them
        super().__init__(self._fake_mode)

    def replace_weight(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a fake tensor; a sparse or nested one as it is."""
        if isinstance(tensor, UninitializedTensorMixin):
            return self._fake_mode.from_tensor(tensor)
        if has_own_function(tensor):
            raise RuntimeError(f"a fake tensor cannot be a {type(tensor).__name__}, which answers torch's functions")
        if not is_plain(tensor):
            return tensor
        if not tensor.is_meta:
            return self._fake_mode.from_tensor(tensor)
        with self._fake_mode:
            stand_in = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
        return nn.Parameter(stand_in, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else stand_in

    def replace_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a fake tensor; a sparse or nested one as it is."""
        return self.replace_weight(tensor)


# Real tensors that are met in a pass on the meta device ---------------------------------------------------------------


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
