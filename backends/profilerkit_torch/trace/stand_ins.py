"""What stands in for a model's weights and inputs in a pass: meta tensors, fake tensors, or in a real run nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import ModelInputs

from ..compat.modes import unseen_by_subclasses
from ..compat.tensors import FakeTensorMode, make_tensor
from ..costs import is_plain
from ..model.tensors import has_own_function, view_like

__all__ = ["REAL_RUN", "StandIns", "fake_stand_ins", "meta_stand_ins", "meta_twin"]

_META = torch.device("meta")


@dataclass(frozen=True)
class StandIns:
    """One way to trace.

    Attributes:
        method: The way in words, as `ModelTrace.method` has it.
        weight: Returns what stands in for a parameter or buffer; None in a real run.
        leaf: Returns what stands in for a leaf of the inputs, which need not be a tensor.
        mode: The context in which the stand-ins work.
    """

    method: str
    weight: Callable[[torch.Tensor], torch.Tensor] | None
    leaf: Callable[[Any], Any]
    mode: AbstractContextManager[Any] = field(default_factory=nullcontext)

    @property
    def lack_values(self) -> bool:
        """Whether something without values stands in for the weights: not in a real run."""
        return self.weight is not None

    @property
    def on_meta(self) -> bool:
        """Whether weights are meta tensors."""
        return self.weight is meta_twin

    def replace_leaves(self, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs with stand-ins; a tensor that occurs twice stays one tensor."""
        twins: dict[int, Any] = {}

        def replace(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and id(leaf) not in twins:
                twins[id(leaf)] = self.leaf(leaf)
            return twins.get(id(leaf), leaf)

        return inputs.map(replace)


#: The model runs with its own weights and inputs.
REAL_RUN = StandIns("a real run", None, lambda leaf: leaf)


def meta_stand_ins(*, keep_views: bool) -> StandIns:
    """Return meta tensors for weights and floating-point inputs; other inputs keep their values.

    The twin of an input that is a view is a view too with ``keep_views``.
    """

    def twin_of_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
            return leaf
        if not is_plain(leaf):
            return leaf
        twin = meta_twin(leaf)
        with unseen_by_subclasses():
            if keep_views and not has_own_function(leaf):
                twin = view_like(twin, leaf)
            return twin.requires_grad_(leaf.requires_grad)

    return StandIns("meta tensors", meta_twin, twin_of_leaf)


def meta_twin(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the meta device that is like another one; a parameter for a parameter.

    A sparse or nested tensor stands for itself: the recorder refuses it where an operator reads it.
    """
    if is_unsized(tensor):
        lazy: Any = UninitializedParameter if isinstance(tensor, nn.Parameter) else UninitializedBuffer
        twin: torch.Tensor = lazy(requires_grad=tensor.requires_grad, device="meta", dtype=tensor.dtype)
        return twin
    if tensor.is_meta or not is_plain(tensor):
        return tensor
    twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)
    if type(tensor) is nn.Parameter and not tensor.__dict__:  # as nn.Parameter does, without its checks
        return make_tensor(nn.Parameter, twin, tensor.requires_grad)
    if has_own_function(tensor):
        twin = make_tensor(type(tensor), twin, tensor.requires_grad)
    elif isinstance(tensor, nn.Parameter):
        twin = nn.Parameter(twin, requires_grad=tensor.requires_grad)
    if not hasattr(tensor, "__tensor_flatten__"):  # of a packed weight: its real shape and its scales
        twin.__dict__.update(tensor.__dict__)
    return twin


def fake_stand_ins(modules: Sequence[nn.Module]) -> StandIns:
    """Return fake tensors, which know the device they stand for; for a meta tensor that is the CPU."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    # What torch remembers for all fake modes would keep packed weights alive, and refuses to compare them.
    mode.cache_enabled &= not any(
        isinstance(value, torch.ScriptObject) for module in modules for value in vars(module).values()
    )

    def fake_twin(tensor: torch.Tensor) -> torch.Tensor:
        if is_unsized(tensor):
            return mode.from_tensor(tensor)
        if has_own_function(tensor):
            raise RuntimeError(f"a fake tensor cannot be a {type(tensor).__name__}, which answers torch's functions")
        if not is_plain(tensor):
            return tensor
        if not tensor.is_meta:
            return mode.from_tensor(tensor)
        with mode:
            twin = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
        return nn.Parameter(twin, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else twin

    def twin_of_leaf(leaf: Any) -> Any:
        return fake_twin(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return StandIns("fake tensors", fake_twin, twin_of_leaf, mode)
