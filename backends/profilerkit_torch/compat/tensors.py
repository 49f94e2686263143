"""Tensors and their storages, and fake tensors, which know their device and have no values."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.backend_kit.private_names import field, find

from .modes import TorchDispatchMode
from .names import find_all, find_first, require_class

if TYPE_CHECKING:

    class FakeTensor(torch.Tensor):
        """What type checkers know of the class of fake tensors."""

        fake_device: torch.device
        fake_mode: FakeTensorMode

    class FakeTensorMode(TorchDispatchMode):
        """What type checkers know of the mode in which tensors are fake."""

        cache_enabled: bool

        def __init__(self, *, allow_non_fake_inputs: bool = False) -> None: ...

        def from_tensor(self, tensor: torch.Tensor) -> FakeTensor: ...

else:
    #: Without these a model that cannot run on meta tensors is counted in a real run.
    FakeTensor = find_first("torch._subclasses.fake_tensor.FakeTensor", instead=type("FakeTensor", (), {}))
    FakeTensorMode = require_class(
        "torch._subclasses.fake_tensor.FakeTensorMode", purpose="runs a model on fake tensors"
    )
#: Where others find the class of fake tensors, to ask whether a tensor is one.
FAKE_NAMESPACE: dict[str, Any] = getattr(find("torch._subclasses"), "__dict__", {})
#: The class of errors and of log lines that fake tensors make; without it they are the model's.
FAKE_MODULE = "torch._subclasses.fake_tensor"

#: Answers 0 for no, 1 for yes, 2 where torch cannot tell; without it no tensor is taken to have such elements.
_read_overlap: Callable[[torch.Tensor], int] = find_first("torch._debug_has_internal_overlap", instead=lambda tensor: 0)
#: Whether a tensor is a view of another; else none is taken for one.
is_view: Callable[[torch.Tensor], bool] = find_first("torch.Tensor._is_view", instead=lambda tensor: False)
#: Whether a tensor is zeros that have no memory; else each tensor is taken to have none.
is_zerotensor: Callable[[torch.Tensor], bool] = find_first("torch.Tensor._is_zerotensor", instead=lambda tensor: True)
_VERSION = field("_version")


def has_shared_elements(tensor: torch.Tensor) -> bool:
    """Return whether several elements of a tensor surely are one in memory, as after ``expand``."""
    return _read_overlap(tensor) == 1


def count_writes(tensor: torch.Tensor) -> int:
    """Return how often a tensor was written to; without that number nobody is warned of a parameter that was."""
    return int(getattr(tensor, _VERSION, 0))


def _make_tensor(kind: Any, tensor: torch.Tensor, requires_grad: bool) -> Any:
    if issubclass(kind, torch.nn.Parameter):
        return kind(tensor, requires_grad)
    return tensor.as_subclass(kind).requires_grad_(requires_grad)


#: Makes a tensor of a class, or a parameter, that shares its elements with a plain one, by whether it needs a gradient.
#: Torch's own way is without the checks of ``nn.Parameter``, which is the other way.
make_tensor: Callable[[Any, torch.Tensor, bool], torch.Tensor] = find_first(
    "torch.Tensor._make_subclass", instead=_make_tensor
)

#: The address of a storage, by which it is known; else that of the object that stands for it in Python.
storage_address: Callable[[Any], int] = attrgetter("_cdata") if find("torch.UntypedStorage._cdata") is not None else id
#: The class of nested tensors whose values are in one tensor, which they are views of.
_JaggedTensor: Any = find_first(
    "torch.nested._internal.nested_tensor.NestedTensor", instead=type("NestedTensor", (), {})
)


def find_storage(tensor: torch.Tensor) -> Any:
    """Return the storage in which a tensor's elements are; raises RuntimeError where they are in several."""
    values: Any = tensor._values if type(tensor) is _JaggedTensor else tensor
    return values.untyped_storage()


#: The class of all tensors, those of subclasses that Python code made too.
TensorBase: Any = find_first("torch._C.TensorBase", instead=torch.Tensor)
#: ``torch.FloatTensor`` and the like.
tensor_classes: tuple[Any, ...] = tuple(find_first("torch._tensor_classes", instead=()))
#: Questions that only autograd's kernels answer; those that are missing cannot be asked.
VIEW_QUESTIONS = find_all("torch.Tensor._is_view", "torch.Tensor._base.__get__")


#: What a class of tensors has that leaves operators to torch; a torch without it has None there.
_NO_RULES: Any = find_first("torch.Tensor.__torch_dispatch__")


def has_dispatch_rules(kind: type) -> bool:
    """Return whether a class of tensors says itself what operators do with it."""
    return getattr(kind, "__torch_dispatch__", None) is not _NO_RULES
