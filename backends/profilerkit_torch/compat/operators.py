"""Operators of torch: their classes, operators and tags by name, schemas and kernels.

A class that torch does not export is found as the type of an operator, which needs no private name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.backend_kit.private_names import field, find

from .names import find_all, find_first, refuse, require

OpOverload: Any = type(torch.ops.aten.add.Tensor)
OpOverloadPacket: Any = type(torch.ops.aten.add)
if TYPE_CHECKING:
    from torch import _ops

    HigherOrderOperator = _ops.HigherOrderOperator
else:
    #: The class of operators that take functions: conditions, loops. Without it these operators are not recognized, and
    #: a model that has one is counted in a real run, or refused.
    HigherOrderOperator = find_first("torch._ops.HigherOrderOperator", instead=type("HigherOrderOperator", (), {}))


def find_operator(path: str) -> Any:
    """Return an operator by its path below ``torch.ops``; an object that is no operator if this release has none."""
    return find_first(f"torch.ops.{path}", instead=object())


def find_tag(name: str) -> Any:
    """Return a tag by its name; an object that tags no operator if this release has no such tag."""
    return find_first(f"torch.Tag.{name}", instead=object())


def _read_schema_by_name(func: Any) -> Any:
    name, _, overload = func.name().partition(".")
    return find("torch._C._get_schema")(name, overload)


#: Returns the schema of an operator: its arguments and results, and the arguments that it writes to. Without the
#: attribute it is found by the operator's name.
read_schema: Callable[[Any], Any] = (
    attrgetter("_schema") if hasattr(torch.ops.aten.add.Tensor, field("_schema")) else _read_schema_by_name
)

# Kernels, which compute operators -------------------------------------------------------------------------------------

#: Returns whether an operator of a name has any kernel. Without the function each operator is taken to have one.
has_kernel: Callable[[str], bool] = find_first("torch._C._dispatch_has_kernel", instead=lambda name: True)
#: The key of operators that are made of others. Without it they are unknown, unless they have formulas.
_COMPOSITE: Any = find("torch._C.DispatchKey.CompositeImplicitAutograd")


def is_composite(func: Any) -> bool:
    """Return whether an operator is made of other operators, which run in its place."""
    return _COMPOSITE is not None and bool(func.has_kernel_for_dispatch_key(_COMPOSITE))


#: Whether an operator of a name has a kernel in C++ for a key, and the method that runs it. Without these the kernel in
#: Python takes the operator apart, if there is one.
_has_kernel_for_key: Callable[[str, Any], bool] = find_first(
    "torch._C._dispatch_has_kernel_for_dispatch_key", instead=lambda name, key: False
)
_RUN_BY_KEY = field("_op_dk")


def take_apart(func: Any, args: Any, kwargs: Any) -> Any:
    """Run the operators that a composite operator is made of; NotImplemented for any other.

    It uses the kernel in C++, like a run: some operators also have a kernel in Python, which makes further copies.
    """
    if hasattr(func, _RUN_BY_KEY) and _has_kernel_for_key(func.name(), _COMPOSITE):
        return getattr(func, _RUN_BY_KEY)(_COMPOSITE, *args, **kwargs)
    return func.decompose(*args, **kwargs)


#: The keys of kernels for nested tensors alone. Without them an operator is taken apart for nested tensors too.
_NESTED = find_all("torch._C.DispatchKey.CompositeImplicitAutogradNestedTensor", "torch._C.DispatchKey.NestedTensorCPU")


@cache
def has_nested_kernel(func: Any) -> bool:
    """Return whether an operator has a separate kernel for nested tensors, in place of other operators."""
    return any(func.has_kernel_for_dispatch_key(key) for key in _NESTED)


#: The kernels that are written in Python, as "namespace/name/key". Without the set, the memory of these operators seems
#: to be their results alone.
_PYTHON_KERNELS: set[str] = find_first("torch.library._impls", instead=set())


def has_python_kernel(func: Any, device: torch.device | None) -> bool:
    """Return whether a kernel in Python computes an operator of another library on a device; None for any device."""
    if func.namespace in ("aten", "prims"):
        return False
    name = func.name().replace("::", "/")
    devices = ("CPU", "CUDA") if device is None or device.type == "meta" else (device.type.upper(),)
    return any(f"{name}/{key}" in _PYTHON_KERNELS for key in (*devices, "CompositeExplicitAutograd"))


#: The key of the kernel in Python of an operator that takes functions. Without it the functions are not counted.
_EXPLICIT: Any = find("torch._C.DispatchKey.CompositeExplicitAutograd")


def find_python_kernel(func: HigherOrderOperator) -> Any:
    """Return the kernel in Python of an operator that takes functions; None if it is not known."""
    return getattr(func, "py_kernels", {}).get(_EXPLICIT)


def find_triton_kernel(number: int) -> Any:
    """Return a kernel of Triton by its number; None if it is not known, and reported as "kernel"."""
    table = find("torch._higher_order_ops.triton_kernel_wrap.kernel_side_table")
    return None if table is None else table.get_kernel(number)


# Single operators -----------------------------------------------------------------------------------------------------

#: Returns the number of the kernel that torch uses for attention; it is an operator, although its name begins with an
#: underscore.
choose_attention: Callable[..., int] = require(
    "torch._fused_sdp_choice", purpose="tells how attention runs, and what memory it takes"
)
#: Returns the order in which a CUDA device tries the kernels of attention. Without it a model that changes the order
#: while it runs has the memory of the first order throughout.
read_attention_order: Callable[[], list[int]] = find_first("torch._C._get_sdp_priority_order", instead=list)
#: Attention in one kernel, which gives the shapes of its results.
flash_attention: Callable[..., Any] = find_first(
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
    instead=refuse("aten::_scaled_dot_product_flash_attention_for_cpu", "sees attention as one kernel"),
)
#: The same by CUDA's kernel for float32, whose output lies in memory as (batch, length, heads, width).
efficient_attention: Callable[..., Any] = find_first(
    "torch.ops.aten._scaled_dot_product_efficient_attention.default",
    instead=refuse("aten::_scaled_dot_product_efficient_attention", "sees attention in float32 on CUDA as one kernel"),
)


def find_scan() -> Any:
    """Return the function that a scan calls for its steps; None if there is none: then a scan is not counted."""
    return find("torch._higher_order_ops.scan.generic_scan")


#: Returns the library or kernel that runs a convolution of given sizes. Without the function no kernel is known.
_select_convolution: Callable[..., Any] = find_first("torch._C._select_conv_backend", instead=lambda *args: "")


def choose_convolution_kernel(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    is_transposed: bool,
    groups: int,
) -> str:
    """Return what the CPU runs a convolution of these sizes with: "Mkldnn", "Slow2d", "SlowDilated3d"."""
    images, kernels = (torch.empty((), dtype=tensor.dtype).expand(tensor.shape) for tensor in (x, weight))
    further = [0] * len(stride)  # padding of the output
    kind = _select_convolution(images, kernels, None, stride, padding, dilation, is_transposed, further, groups)
    return str(kind).rpartition(".")[2]
