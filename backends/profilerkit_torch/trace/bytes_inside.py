"""Bytes that an operator allocates and frees inside, if the source of torch shows how many.

`inside_rules` has a rule for each such operator. On the CPU an element-wise operator copies operands of another dtype,
and resizing copies images. The workspaces of other kernels differ between devices, and no trace has them.
`find_unknown_inside` names those that may be as large as the input or larger: of decompositions of matrices, of
recurrent layers on CUDA, and of kernels in Python, which make tensors like any function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch

from ..compat.operators import find_operator, find_tag, has_python_kernel, read_schema
from ..costs import is_plain
from .inside_rules import RULES, is_on
from .operator_facts import OperatorCall

__all__ = ["count_bytes_inside", "find_unknown_inside"]

_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "_cudnn_rnn_backward")
#: Operators whose workspace depends on values, or on the library that a device has for matrices.
_UNSIZED = frozenset(
    (
        "linalg_matrix_exp",  # takes more powers of a matrix the larger its numbers are
        "_scaled_dot_product_attention_math",  # runs whole for nested tensors alone, and makes all scores
        *("_linalg_det", "_linalg_slogdet", "linalg_inv_ex", "linalg_ldl_factor_ex", "linalg_lu", "linalg_pinv"),
        *("_linalg_eigh", "_linalg_eigvals", "linalg_eig", "linalg_eigvals", "linalg_eigvalsh"),
        *("_linalg_svd", "linalg_svdvals", "linalg_qr", "linalg_householder_product", "geqrf", "ormqr"),
        *("_linalg_solve_ex", "linalg_lstsq", "cholesky_solve"),
        *("_unique2", "unique_dim", "masked_select", "multinomial"),
    )
)
#: Operators that make the positions of a mask among their indices, of which shapes do not tell how many there are.
_PUTS = ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
_INDEX = find_operator("aten.index.Tensor")
_POINTWISE = find_tag("pointwise")
#: Element-wise operators of which torch does not tag all forms.
_UNTAGGED = ("aten::floor_divide", "aten::where")
#: Which tensor of an element-wise operator is a condition, which is read as it is.
_CONDITIONS = {"aten::where": 0, "aten::masked_fill": 1}
#: The most that height and width of the output are together.
_MOST_RESAMPLED = 128
_RESAMPLING = frozenset(
    find_operator(f"aten.{name}.{overload}")
    for name in ("upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d")
    for overload in ("default", "vec")
)


def count_bytes_inside(call: OperatorCall, result: Any, device: torch.device | None) -> int:
    """Return the bytes that are alive only while an operator runs on a device; 0 where no rule says."""
    rule = RULES.get(call.func)
    if rule is not None:
        return rule(device, *call.args, **call.kwargs)
    if call.func is _INDEX:
        return _count_positions(call.args[0], call.args[1], result)
    if not is_on(device, "cpu"):
        return 0
    return _count_in_resampling(call.args[0], result) if call.func in _RESAMPLING else _count_promoted(call, result)


def find_unknown_inside(func: Any, args: Any, device: torch.device | None) -> str:
    """Return the name of an operator's workspace on a device if it is large and its size is unknown."""
    if func.namespace != "aten":
        # The kernels of torch's own sharding copy into tensors that they are given (``_fsdp_collectives.py``).
        has_unseen = func.namespace != "fsdp" and has_python_kernel(func, device)
        return f"the workspace of {read_schema(func).name}" if has_unseen else ""
    name: str = read_schema(func).name.partition("::")[2]
    is_copied = name == "_fft_c2r" and (len(args[1]) > 1 or args[0].is_conj())  # once or twice, by its strides
    is_put = name in _PUTS and args[2].numel() != 1 and any(map(_is_mask, args[1]))  # one number fills the mask
    is_much = name in _UNSIZED or is_copied or is_put or (name in _RECURRENT and is_on(device, "cuda"))
    return f"the workspace of {name}" if is_much else ""


def _is_mask(index: torch.Tensor | None) -> TypeGuard[torch.Tensor]:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _count_positions(x: torch.Tensor, indices: Sequence[torch.Tensor | None], result: torch.Tensor) -> int:
    """Return the bytes of the positions of masks among indices (``IndexingUtils.h``): int64 for each of its dimensions.

    There are as many as elements in the result for each element of the dimensions that are not indexed.
    """
    rest, dim, masked = 1, 0, 0
    for index in indices:
        if _is_mask(index):
            masked += index.dim()
            dim += index.dim()
        else:
            rest *= x.shape[dim] if index is None else 1
            dim += 1
    rest *= x.shape[dim:].numel()
    return result.numel() // max(1, rest) * masked * torch.int64.itemsize


def _count_promoted(call: OperatorCall, result: Any) -> int:
    """Return the bytes of operands that the CPU copies in the one dtype in which an element-wise operator works.

    It is the dtype of the result, or the wider one that is compared. ``TensorIteratorBase::compute_types`` in
    ``aten/src/ATen/TensorIterator.cpp`` makes these copies.
    """
    name = read_schema(call.func).name.removesuffix("_")
    is_promoting = (_POINTWISE in call.func.tags or name in _UNTAGGED) and name != "aten::ldexp"  # made of others
    if not is_promoting or not isinstance(result, torch.Tensor) or not is_plain(result) or result.is_quantized:
        return 0
    is_comparison = result.dtype is torch.bool and len(call.args) == 2
    common = torch.result_type(*call.args) if is_comparison else result.dtype
    operands = list(call.tensors)
    if name in _CONDITIONS:
        del operands[_CONDITIONS[name]]
    narrower = (
        tensor
        for tensor in operands
        if tensor.dtype is not common and torch.promote_types(tensor.dtype, common) is common
    )
    return sum(tensor.numel() * common.itemsize for tensor in narrower)


def _count_in_resampling(x: torch.Tensor, result: torch.Tensor) -> int:
    """Return the bytes of images with the channels last, as which the CPU resamples small ones: input and output."""
    if x.shape[1] == 1 or sum(result.shape[-2:]) > _MOST_RESAMPLED or not x.is_floating_point():
        return 0
    images = (x, result)
    return sum(image.nbytes for image in images if not image.is_contiguous(memory_format=torch.channels_last))
