"""The operators of a trace as a profile has them: their names on every device and in compiled code, and whole layers.

A profile may run a layer as one operator, while the trace has the operators of the layer.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from profilerkit import ModelTrace
from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame, find_profiled_name

__all__ = [
    "common_name",
    "explain_whole_layers",
    "find_common_name",
    "join_whole_layers",
    "list_named_operators",
    "name_as_compiled",
]


class _WholeLayer(NamedTuple):
    """An operator of a profile that runs a whole layer, while a trace has the operators of the layer."""

    operator: str
    layer_type: str
    holds_layers: bool = False  #: whether the layer contains other layers, which then have no time of their own


#: Outer layers first: the fast path of an encoder layer includes its attention. Torch has both paths for inference.
_WHOLE_LAYERS = (
    _WholeLayer("aten::_transformer_encoder_layer_fwd", "TransformerEncoderLayer", holds_layers=True),
    _WholeLayer("aten::_native_multi_head_attention", "MultiheadAttention", holds_layers=True),
    _WholeLayer("aten::lstm", "LSTM"),
    _WholeLayer("aten::gru", "GRU"),
    _WholeLayer("aten::rnn_tanh", "RNN"),
    _WholeLayer("aten::rnn_relu", "RNN"),
)
_WHOLE_NAMES = frozenset(whole.operator for whole in _WHOLE_LAYERS)


def join_whole_layers(trace: ModelTrace, frames: Sequence[Frame], profiled: Container[str]) -> Sequence[OpRecord]:
    """Return the trace's operators; a layer that the profile runs as one operator becomes one, with all its products.

    This requires that each call of such a layer is one operator in the profile, which has the ``profiled`` names.
    """
    operators: Sequence[OpRecord] = trace.operators
    for whole in _WHOLE_LAYERS:
        if whole.operator in profiled:
            paths = {layer.path for layer in trace.layers if layer.type == whole.layer_type}
            operators = _join_layers(operators, whole.operator, paths, frames)
    return operators


def explain_whole_layers(frames: Iterable[Frame]) -> Iterator[str]:
    """Yield a note if a profile runs a layer together with the layers inside of it; the outermost kind is named."""
    names = {frame.event.name for frame in frames if frame.event.kind is EventKind.OPERATOR}
    for whole in _WHOLE_LAYERS:
        if whole.holds_layers and whole.operator in names:
            yield (
                f"{whole.operator} runs a {whole.layer_type} as a whole: its time is that of the layer, and the layers "
                "inside have none"
            )
            return


def _join_layers(
    operators: Sequence[OpRecord], name: str, paths: set[str], frames: Sequence[Frame]
) -> Sequence[OpRecord]:
    """Return the operators with each call of the layers at ``paths`` as one operator of that name.

    They are returned unchanged if the profile has other calls, or if the trace has that operator once in each call: a
    training step has it for each direction of each recurrent layer.
    """
    joined = list(_join_calls(operators, name, paths))
    calls = sum(operator.operator == name for operator in joined)
    already = sum(find_profiled_name(operator.operator) == name for operator in operators)
    are_those_of_profile = calls > 0 and _count_outermost(frames, name) % calls == 0
    return joined if are_those_of_profile and calls != already else operators


def _join_calls(operators: Sequence[OpRecord], name: str, paths: set[str]) -> Iterator[OpRecord]:
    """Yield the operators; all operators of a forward call of a layer at ``paths`` as one operator of that name."""
    layers = {operator.layer for operator in operators}
    whole_layers = {path: next((around for around in walk_outwards(path) if around in paths), None) for path in layers}

    def find_whole_call(operator: OpRecord) -> tuple[str | None, int]:
        """Return the whole layer and the number of its call: the layers inside of it are called once in each call."""
        path = whole_layers[operator.layer] if operator.phase == "forward" else None
        return path, 0 if path is None else operator.call

    for (path, _), group in groupby(operators, key=find_whole_call):
        if path is None:
            yield from group
        else:
            yield _add_up(tuple(group), name, path)


def _add_up(parts: Sequence[OpRecord], name: str, path: str) -> OpRecord:
    """Return one operator with the work of several."""
    return OpRecord(
        name,
        path,
        parts[0].call,
        macs=sum(part.macs for part in parts),
        flops=sum(part.flops for part in parts),
        bytes_read=sum(part.bytes_read for part in parts),
        bytes_written=sum(part.bytes_written for part in parts),
        outputs=parts[-1].outputs,
        missing="; ".join(dict.fromkeys(part.missing for part in parts if part.missing)),
    )


def _count_outermost(frames: Iterable[Frame], name: str) -> int:
    """Return how many operators of a name are not inside an operator that runs a whole layer."""
    named = [frame for frame in frames if frame.event.name == name]
    return sum(not any(outer.event.name in _WHOLE_NAMES for outer in frame.outer_frames) for frame in named)


# Names ----------------------------------------------------------------------------------------------------------------


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
