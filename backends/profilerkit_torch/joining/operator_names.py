"""The names of operators: what the profiler calls an operator of the trace, and what both call it on every device."""

from __future__ import annotations

import re

from profilerkit.trace.records import OpRecord

__all__ = ["common_name", "find_common_name", "find_profiled_name"]

#: What the name of an operator says of the library or device that runs it, and not of what it computes.
_LIBRARIES = re.compile(r"^_?(?:cudnn|miopen|mkldnn|native|fused|thnn)_|^_(?=convolution$|batch_norm_)")
_VARIANTS = re.compile(r"_legit(?:_functional|_no_training)?$|_overrideable$|_with_update$|_no_update$")
_ATTENTION = re.compile(r"^_scaled_dot_product_\w*attention\w*$")


def find_profiled_name(traced: str) -> str:
    """Return what the profiler calls an operator of the trace.

    >>> find_profiled_name("aten.mm.default"), find_profiled_name("aten::mm")
    ('aten::mm', 'aten::mm')
    """
    space, _, rest = traced.partition(".")
    return traced if "::" in traced or not rest else f"{space}::{rest.rpartition('.')[0] or rest}"


def common_name(name: str) -> str:
    """Return the name that an operator has on every device, in place or not: cuDNN's batch norm is a batch norm.

    >>> common_name("aten::cudnn_batch_norm"), common_name("aten::native_batch_norm"), common_name("aten::mm")
    ('aten::batch_norm', 'aten::batch_norm', 'aten::mm')
    >>> common_name("aten::_scaled_dot_product_flash_attention")
    'aten::scaled_dot_product_attention'
    """
    space, _, rest = name.rpartition("::")
    if space != "aten":
        return name
    if _ATTENTION.match(rest):
        return "aten::scaled_dot_product_attention"
    return f"aten::{_VARIANTS.sub('', _LIBRARIES.sub('', rest)).rstrip('_') or rest}"


def find_common_name(operator: OpRecord) -> str:
    """Return the name on every device of an operator of the trace."""
    return common_name(find_profiled_name(operator.operator))
