"""Bytes that an operator allocates and frees inside: counted where torch's source shows how many, or else named.

`inside_rules` has a rule for each operator that makes tensors of a known size. On the CPU an element-wise operator
copies operands of another dtype. `find_unknown_inside` names the operators whose workspace may be as large as the
input or larger, and of which no short rule gives the size. The workspaces of all other kernels are in no trace.
"""

from __future__ import annotations

from typing import Any

import torch

from ..compat.operators import find_tag, has_python_kernel, read_schema
from ..costs import is_plain
from ..costs.argument_names import name_by_schema
from .inside_rules import RULES, Operation, is_mask
from .operator_facts import OperatorCall, tensors_in

__all__ = ["count_bytes_inside", "find_unknown_inside"]


def count_bytes_inside(call: OperatorCall, result: Any, device: torch.device | None) -> int:
    """Return the bytes that are alive only while an operator runs on a device; 0 where no rule says."""
    rule = RULES.get(call.func)
    if rule is not None:
        return rule(Operation(name_by_schema(*call), result, device))
    return _count_promoted(call, result) if _is_cpu(device) else 0


def _is_cpu(device: torch.device | None) -> bool:
    return device is not None and device.type == "cpu"


# Operands of several dtypes -------------------------------------------------------------------------------------------

_POINTWISE = find_tag("pointwise")
#: Element-wise operators of which torch does not tag all forms.
_UNTAGGED = frozenset(f"aten::{name}" for name in ("floor_divide", "where", "lt", "le", "gt", "ge", "eq", "ne"))
#: Which tensor of an element-wise operator is a condition, which is read as it is.
_CONDITIONS = {"aten::where": 0, "aten::masked_fill": 1}
#: It is made of other operators, of one dtype each.
_LDEXP = "aten::ldexp"


def _count_promoted(call: OperatorCall, result: Any) -> int:
    """Return the bytes of what the CPU converts for an element-wise operator, which works in one dtype.

    Narrower operands are copied in it, and a narrower target of an in-place operator is computed in it:
    ``TensorIteratorBase::compute_types`` in ``aten/src/ATen/TensorIterator.cpp``.
    """
    name = read_schema(call.func).name.removesuffix("_")
    is_promoting = (_POINTWISE in call.func.tags or name in _UNTAGGED) and name != _LDEXP
    if not is_promoting or not isinstance(result, torch.Tensor) or not is_plain(result) or result.is_quantized:
        return 0
    common = _find_common_dtype(call, result)
    operands = list(call.tensors)
    if name in _CONDITIONS:
        del operands[_CONDITIONS[name]]
    if result is call.args[0]:
        operands.append(result)
    narrower = (
        tensor
        for tensor in operands
        if tensor.dtype is not common and torch.promote_types(tensor.dtype, common) is common
    )
    return sum(tensor.numel() * common.itemsize for tensor in narrower)


def _find_common_dtype(call: OperatorCall, result: torch.Tensor) -> torch.dtype:
    """Return the dtype in which an element-wise operator works: that of a new result, but not of a comparison."""
    operands: Any = [
        value for value in (*call.args, *call.kwargs.values()) if isinstance(value, (torch.Tensor, int, float))
    ]
    is_comparison = result.dtype is torch.bool and len(operands) == 2
    is_in_place = result is call.args[0] and len(operands) > 1
    return torch.result_type(operands[0], operands[1]) if is_comparison or is_in_place else result.dtype


# Workspaces of unknown size -------------------------------------------------------------------------------------------

#: Operators whose workspace depends on values, on threads, or on the library that a device has for matrices.
_UNSIZED = frozenset(
    (
        "linalg_matrix_exp",  # takes more powers of a matrix the larger its numbers are
        "_scaled_dot_product_attention_math",  # runs whole for nested tensors alone, and makes all scores
        *("_linalg_det", "_linalg_slogdet", "linalg_inv_ex", "linalg_ldl_factor_ex", "linalg_lu", "linalg_pinv"),
        *("_linalg_eigh", "_linalg_eigvals", "linalg_eig", "linalg_eigvals", "linalg_eigvalsh"),
        *("_linalg_svd", "linalg_svdvals", "linalg_qr", "linalg_householder_product", "geqrf", "ormqr"),
        *("_linalg_solve_ex", "linalg_lstsq", "cholesky_solve"),
        "lstm",  # on the CPU it is one of oneDNN, whose layout of the weights and whose room depend on the processor
        *("_unique2", "unique_dim", "masked_select", "masked_scatter_backward", "multinomial", "isin", "allclose"),
        # Rare ones, of which each would need a rule of its own.
        *("median", "nanmedian", "kthvalue", "count_nonzero", "histc", "histogram", "im2col"),
        *("dist", "_euclidean_dist", "_trilinear", "affine_grid_generator"),
        *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
    )
)
_RECURRENT = ("gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "_cudnn_rnn_backward")
#: Operators that make the positions of a mask among their indices, of which shapes do not tell how many there are.
_PUTS = ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
#: Losses of pairs of elements: the CPU makes copies of inputs and targets of several dtypes or shapes.
_LOSSES = ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy_with_logits")
#: Operators that convert tensors of several dtypes as they join them, or one after the other.
_CONVERTERS = ("cat", "stack", "_foreach_add", "_foreach_sub", "_foreach_mul", "_foreach_div")
_RESAMPLING_OF_BYTES = ("upsample_bilinear2d", "upsample_bicubic2d")


def find_unknown_inside(func: Any, args: Any, device: torch.device | None) -> str:
    """Return the name of an operator's workspace on a device if it is large and its size is unknown."""
    if func.namespace != "aten":
        # The kernels of torch's own sharding copy into tensors that they are given (``_fsdp_collectives.py``).
        has_unseen = func.namespace != "fsdp" and has_python_kernel(func, device)
        return f"the workspace of {read_schema(func).name}" if has_unseen else ""
    name: str = read_schema(func).name.partition("::")[2]
    return f"the workspace of {name}" if _is_unsized(name, args, device) else ""


def _is_unsized(name: str, args: Any, device: torch.device | None) -> bool:
    """Return whether the workspace of one of torch's operators may be large and has no known size."""
    if name in _UNSIZED:
        return True
    if name in _RECURRENT:
        is_packed = torch.is_tensor(args[2])  # the states come after the sizes of packed samples
        return is_packed or (device is not None and device.type == "cuda")
    if name == "_fft_c2r":  # copies once or twice, by its strides
        return len(args[1]) > 1 or args[0].is_conj()
    if name == "_safe_softmax":  # makes further copies of scores with gaps between them
        return not args[0].is_contiguous()
    if name.startswith("conv") and args[0].is_complex():  # runs as three of real numbers, and adds up their results
        return True
    if name in _PUTS:
        return args[2].numel() != 1 and any(map(is_mask, args[1]))  # one number fills the mask
    if not _is_cpu(device):
        return False
    if name in _LOSSES:
        x, target = args[:2]
        return x.dtype is not target.dtype or x.shape != target.shape
    if name in _CONVERTERS:
        return len({tensor.dtype for tensor in tensors_in(args)}) > 1
    return name in _RESAMPLING_OF_BYTES and args[0].dtype is torch.uint8
