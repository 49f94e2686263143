"""The names of operators that traces and profiles share, and the operators of a profile that hide a whole layer."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from profilerkit import ModelTrace
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame, find_profiled_name

__all__ = ["common_name", "find_common_name", "find_whole_layer", "list_forward", "list_named_operators"]

#: The parts of an operator's name that name the library or device that runs it, or a variant.
_LIBRARIES = re.compile(r"^_?(?:cudnn|miopen|mkldnn|native|fused|thnn)_|^_(?=convolution$|batch_norm_)")
_VARIANTS = re.compile(r"_legit(?:_functional|_no_training)?$|_overrideable$|_with_update$|_no_update$")
_ATTENTION = re.compile(r"^_scaled_dot_product_\w*attention\w*$")
#: The operators that torch, or a compiler, runs in the place of another one.
_EQUIVALENTS = {
    "mkldnn::_linear_pointwise": "aten::linear",
    "mkldnn::_convolution_pointwise": "aten::convolution",
    **dict.fromkeys(("aten::addmm", "aten::mm"), "aten::linear"),
    **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), "aten::convolution"),
}
_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
#: The classes of layers that torch runs as one operator in inference, outer ones first.
_WHOLE_LAYERS = {
    "aten::_transformer_encoder_layer_fwd": "TransformerEncoderLayer",
    "aten::_native_multi_head_attention": "MultiheadAttention",
}


def common_name(name: str) -> str:
    """Return the name that an operator has on every device, compiled or not, in place or not.

    >>> common_name("aten::cudnn_batch_norm"), common_name("aten::native_batch_norm"), common_name("aten::addmm")
    ('aten::batch_norm', 'aten::batch_norm', 'aten::linear')
    >>> common_name("aten::_scaled_dot_product_flash_attention")
    'aten::scaled_dot_product_attention'
    """
    space, _, rest = name.rpartition("::")
    if space == "aten":
        rest = _VARIANTS.sub("", _LIBRARIES.sub("", rest)).rstrip("_") or rest
        name = "aten::scaled_dot_product_attention" if _ATTENTION.match(rest) else f"aten::{rest}"
    return _EQUIVALENTS.get(name, name)


def find_common_name(operator: OpRecord) -> str:
    """Return the name that an operator of the trace has on every device."""
    return common_name(find_profiled_name(operator.operator))


def list_forward(trace: ModelTrace) -> list[OpRecord]:
    """Return the operators of the forward pass.

    A profile has all directions of a recurrent layer, and what joins them, in one operator: it is the first here.
    """
    operators: list[OpRecord] = []
    recurrent_calls: set[tuple[str, int]] = set()
    for operator in trace.operators:
        call, is_recurrent = (operator.layer, operator.call), find_profiled_name(operator.operator) in _RECURRENT
        is_part = call in recurrent_calls and (is_recurrent or not operator.macs)
        if operator.phase == "forward" and not is_part:
            operators.append(operator)
        if is_recurrent:
            recurrent_calls.add(call)
    return operators


def list_named_operators(frames: Iterable[Frame], names: Container[str]) -> list[Frame]:
    """Return the operators of the forward pass with these common names, of nested operators the outermost."""
    operators = [frame for frame in frames if frame.event.kind is EventKind.OPERATOR and not frame.is_backward]
    named = [frame for frame in operators if common_name(frame.event.name) in names]
    return [frame for frame in named if not any(common_name(outer.event.name) in names for outer in frame.outer_frames)]


def find_whole_layer(frames: Iterable[Frame]) -> str:
    """Return in words which kind of layer a profile runs as one operator, the outermost; an empty text for none."""
    names = {frame.event.name for frame in frames if frame.event.kind is EventKind.OPERATOR}
    return next((f"{name} runs a {kind} as a whole" for name, kind in _WHOLE_LAYERS.items() if name in names), "")
