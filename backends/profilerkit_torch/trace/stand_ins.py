"""What stands in for a model's tensors in a pass: meta tensors, fake tensors, or in a real run nothing."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import ModelInputs

from ..compat.modes import unseen_by_subclasses
from ..compat.tensors import FakeTensorMode, make_tensor
from ..costs import is_plain
from ..model.tensors import PLAIN_TYPES, has_own_function, is_wrapper_class, storage_key, view_like

if TYPE_CHECKING:
    pass

__all__ = [
    "REAL_RUN",
    "StandIns",
    "use_fake_tensors",
    "use_meta_tensors",
]

_META = torch.device("meta")


@dataclass(frozen=True)
class StandIns:
    """One way to trace: on meta tensors, on fake tensors, or in a real run.

    Attributes:
        method: The way in words, as `ModelTrace.method` has it.
        replace_weight: Returns what stands in for a parameter or buffer; None in a real run.
        replace_leaf: Returns what stands in for a leaf of the inputs, which need not be a tensor.
        mode: The context in which the stand-ins work.
        on_meta: Whether weights are meta tensors.
    """

    method: str
    replace_weight: Callable[[torch.Tensor], torch.Tensor] | None
    replace_leaf: Callable[[Any], Any]
    mode: AbstractContextManager[Any] = field(default_factory=nullcontext)
    on_meta: bool = False

    @property
    def lack_values(self) -> bool:
        """Whether something without values stands in for the weights: not in a real run."""
        return self.replace_weight is not None

    def replace_leaves(self, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs with stand-ins; a tensor that occurs twice stays one tensor."""
        stand_ins: dict[int, Any] = {}

        def replace_once(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and id(leaf) not in stand_ins:
                stand_ins[id(leaf)] = self.replace_leaf(leaf)
            return stand_ins.get(id(leaf), leaf)

        return inputs.map(replace_once)


#: The model runs with its own weights and inputs.
REAL_RUN = StandIns("a real run", None, lambda leaf: leaf)


def use_meta_tensors(*, keep_views: bool) -> StandIns:
    """Return meta tensors for weights and floating-point inputs; other inputs keep their values.

    The stand-in for an input that is a view is a view too with ``keep_views``. Those for inputs in one storage are in
    one storage.
    """
    storages: WeakValueDictionary[int, Any] = WeakValueDictionary()  # what stands in is freed after the pass

    def replace_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
            return leaf
        if not is_plain(leaf):
            return leaf
        stand_in = make_meta_tensor(leaf)
        if type(leaf) in PLAIN_TYPES and stand_in is not leaf:
            _share_storage(stand_in, leaf, storages)
        with unseen_by_subclasses():  # code of the leaf's class would notice our calls
            if keep_views and not has_own_function(leaf):
                stand_in = view_like(stand_in, leaf)
            return stand_in.requires_grad_(leaf.requires_grad)

    return StandIns("meta tensors", make_meta_tensor, replace_leaf, on_meta=True)


def _share_storage(stand_in: torch.Tensor, leaf: torch.Tensor, storages: MutableMapping[int, Any]) -> None:
    """Put a stand-in into the storage of those for other leaves in the same storage, where its leaf is in that."""
    whole = torch.UntypedStorage(leaf.untyped_storage().nbytes(), device=_META)
    storage = storages.setdefault(storage_key(leaf), whole)
    with torch.no_grad():
        stand_in.set_(storage, leaf.storage_offset(), leaf.shape, leaf.stride())


def make_meta_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the meta device that stands in for another tensor.

    - For a parameter or buffer without a size yet: a parameter or buffer without a size.
    - For a meta tensor, a sparse or a nested tensor: the tensor itself. The recorder refuses sparse and nested ones.
    - For a wrapper of other tensors: a wrapper of the same class around meta tensors.
    - For a tensor whose class answers torch's functions itself: a tensor of that class.
    - For a parameter: a parameter. For any other tensor: a plain tensor.
    """
    if is_unsized(tensor):
        lazy: Any = UninitializedParameter if isinstance(tensor, nn.Parameter) else UninitializedBuffer
        unsized: torch.Tensor = lazy(requires_grad=tensor.requires_grad, device=_META, dtype=tensor.dtype)
        return unsized
    if tensor.is_meta or not is_plain(tensor):
        return tensor
    if is_wrapper_class(type(tensor)):
        return _wrap_meta_tensors(tensor)
    stand_in = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)
    if type(tensor) is nn.Parameter or has_own_function(tensor):
        stand_in = make_tensor(type(tensor), stand_in, tensor.requires_grad)
    elif isinstance(tensor, nn.Parameter):
        stand_in = make_tensor(nn.Parameter, stand_in, tensor.requires_grad)
    # Libraries note there what they ask of a weight, as the shape of a packed one. Wrappers have their parts there.
    if tensor.__dict__ and not hasattr(tensor, "__tensor_flatten__"):
        stand_in.__dict__.update(tensor.__dict__)
    return stand_in


def _wrap_meta_tensors(wrapper: Any) -> torch.Tensor:
    """Return a wrapper of the same class, around stand-ins for the tensors that it wraps."""
    names, context = wrapper.__tensor_flatten__()
    parts = {name: make_meta_tensor(getattr(wrapper, name)) for name in names}
    stand_in: torch.Tensor = wrapper.__tensor_unflatten__(parts, context, wrapper.size(), wrapper.stride())
    return nn.Parameter(stand_in, wrapper.requires_grad) if isinstance(wrapper, nn.Parameter) else stand_in


def use_fake_tensors(modules: Sequence[nn.Module]) -> StandIns:
    """Return fake tensors, which know the device they stand for; for a meta tensor that is the CPU."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    if any(isinstance(value, torch.ScriptObject) for module in modules for value in vars(module).values()):
        mode.cache_enabled = False  # it would keep packed weights alive after the pass, and cannot compare them

    def make_fake_tensor(tensor: torch.Tensor) -> torch.Tensor:
        if is_unsized(tensor):
            return mode.from_tensor(tensor)
        if has_own_function(tensor):
            raise RuntimeError(f"a fake tensor cannot be a {type(tensor).__name__}, which answers torch's functions")
        if not is_plain(tensor):
            return tensor
        if not tensor.is_meta:
            return mode.from_tensor(tensor)
        with mode:
            stand_in = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
        return (
            nn.Parameter(stand_in, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else stand_in
        )

    def replace_leaf(leaf: Any) -> Any:
        return make_fake_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return StandIns("fake tensors", make_fake_tensor, replace_leaf, mode)
