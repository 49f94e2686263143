"""The names of operators on every device and in compiled code, by which those of a profile are found in a trace."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from msgspec.structs import replace

from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame, find_profiled_name

__all__ = ["common_name", "find_common_name", "list_named_operators", "name_as_compiled"]

#: The parts of an operator's name that name the library or device that runs it.
_LIBRARIES = re.compile(r"^_?(?:cudnn|miopen|mkldnn|native|fused|thnn)_|^_(?=convolution$|batch_norm_)")
_VARIANTS = re.compile(r"_legit(?:_functional|_no_training)?$|_overrideable$|_with_update$|_no_update$")
_CONVOLUTIONS = frozenset(("aten::conv1d", "aten::conv2d", "aten::conv3d"))
_ATTENTION = re.compile(r"^_scaled_dot_product_\w*attention\w*$")


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
    """Return the name that an operator of the trace has on every device."""
    return common_name(find_profiled_name(operator.operator))


def list_named_operators(frames: Iterable[Frame], names: Container[str]) -> list[Frame]:
    """Return the operators of the forward pass with these common names, of nested operators the outermost."""
    operators = [frame for frame in frames if frame.event.kind is EventKind.OPERATOR and not frame.is_backward]
    named = [frame for frame in operators if common_name(frame.event.name) in names]
    return [frame for frame in named if not any(common_name(outer.event.name) in names for outer in frame.outer_frames)]


def name_as_compiled(operator: OpRecord, profiled: Container[str]) -> OpRecord:
    """Return an operator with its name in compiled code, if the profile has this name but not the usual name."""
    name = find_profiled_name(operator.operator)
    if not operator.macs or name in profiled:
        return operator
    compiled = next((candidate for candidate in _list_compiled_names(name, operator) if candidate in profiled), None)
    return operator if compiled is None else replace(operator, operator=compiled)


def _list_compiled_names(name: str, operator: OpRecord) -> Sequence[str]:
    """Return the names that compilers give to a product."""
    if name in _CONVOLUTIONS:
        return ("aten::convolution", "mkldnn::_convolution_pointwise")
    if name == "aten::linear":
        has_bias = operator.flops != 2 * operator.macs
        return ("aten::addmm" if has_bias else "aten::mm", "mkldnn::_linear_pointwise")
    return ()
