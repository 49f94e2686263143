"""Tensors: their classes, also of fake ones, their dtypes, their storages, and facts hidden from Python."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.backend_kit.private_names import field, find

from .names import find_all, find_first, require, require_class

# Classes --------------------------------------------------------------------------------------------------------------

#: The base class of all tensors, also of tensors whose class is made in Python.
TensorBase: Any = find_first("torch._C.TensorBase", instead=torch.Tensor)
#: ``torch.FloatTensor`` and the like. Without them no call that asks for one is recognized.
tensor_classes: tuple[Any, ...] = tuple(find_first("torch._tensor_classes", instead=()))
#: The ``__torch_dispatch__`` of a class that leaves operators to torch.
_NO_RULES: Any = find_first("torch.Tensor.__torch_dispatch__")


def has_dispatch_rules(kind: type) -> bool:
    """Return whether a class of tensors has its own rules for operators."""
    return getattr(kind, "__torch_dispatch__", None) is not _NO_RULES


#: Makes a tensor of a class that shares its elements with a plain one; the last argument says whether it needs a
#: gradient.
make_tensor: Callable[[Any, torch.Tensor, bool], torch.Tensor] = require(
    "torch.Tensor._make_subclass", purpose="makes stand-ins for weights"
)

# Dtypes ---------------------------------------------------------------------------------------------------------------


def find_dtype(name: str) -> Any:
    """Return a dtype by its name; an object that no tensor has as its dtype if this release has no such dtype."""
    return find_first(f"torch.{name}", instead=object())


#: The dtype with two numbers in each element, which torch 2.8 and newer have.
FLOAT4 = find_dtype("float4_e2m1fn_x2")

# Memory ---------------------------------------------------------------------------------------------------------------

#: Returns whether a tensor is a view of another one. Without it no tensor is taken for a view.
is_view: Callable[[torch.Tensor], bool] = find_first("torch.Tensor._is_view", instead=lambda tensor: False)
#: All functions that tell whether a tensor is a view, which only autograd's kernels know: a model may ask either.
VIEW_QUESTIONS = find_all("torch.Tensor._is_view", "torch.Tensor._base.__get__")
#: Returns whether a tensor is zeros without memory. Without it every tensor is taken for one, and known values are
#: copied before operators run on them.
is_zerotensor: Callable[[torch.Tensor], bool] = find_first("torch.Tensor._is_zerotensor", instead=lambda tensor: True)
#: Returns the address of a storage, which identifies it. Without it, the ``id`` of its object in Python.
storage_address: Callable[[Any], int] = attrgetter("_cdata") if find("torch.UntypedStorage._cdata") is not None else id
#: The class of nested tensors that are views of one tensor with all values.
_JaggedTensor: Any = find_first(
    "torch.nested._internal.nested_tensor.NestedTensor", instead=type("NestedTensor", (), {})
)
_VERSION = field("_version")


def find_storage(tensor: torch.Tensor) -> Any:
    """Return the storage of a tensor's elements; raises RuntimeError if they are in several storages."""
    values: Any = tensor._values if type(tensor) is _JaggedTensor else tensor
    return values.untyped_storage()


def count_writes(tensor: torch.Tensor) -> int:
    """Return how often a tensor was written to. Without the attribute it is 0, and nobody is warned of a write."""
    return int(getattr(tensor, _VERSION, 0))


# Fake tensors, which know their device and have no values -------------------------------------------------------------

if TYPE_CHECKING:
    from torch._subclasses import fake_tensor

    FakeTensor = fake_tensor.FakeTensor
    FakeTensorMode = fake_tensor.FakeTensorMode
else:
    #: Without these a model that cannot run on meta tensors is counted in a real run.
    FakeTensor = find_first("torch._subclasses.fake_tensor.FakeTensor", instead=type("FakeTensor", (), {}))
    FakeTensorMode = require_class(
        "torch._subclasses.fake_tensor.FakeTensorMode", purpose="runs a model on fake tensors"
    )
#: The namespace where other code finds the class of fake tensors, to check whether a tensor is fake.
FAKE_NAMESPACE: dict[str, Any] = getattr(find("torch._subclasses"), "__dict__", {})
#: The module of the errors and log lines of fake tensors. If it has another name, they pass for errors of the model.
FAKE_MODULE = "torch._subclasses.fake_tensor"


def stands_in(tensor: Any) -> bool:
    """Return whether a tensor has no values: a meta tensor or a fake one."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)
