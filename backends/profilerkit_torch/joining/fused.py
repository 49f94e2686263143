"""The operators of a trace as a profile has them: whole layers in one kernel, and what a compiler calls products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import msgspec

from profilerkit import ModelTrace
from profilerkit.trace.records import OpRecord

from .trace_events import Frame, Kind

__all__ = ["as_profiled", "notes_of_whole_layers"]

#: Operators that run a whole layer, with the type of that layer; outer ones first. A trace has what they are made of.
_WHOLE_LAYERS = {
    "aten::_transformer_encoder_layer_fwd": "TransformerEncoderLayer",
    "aten::_native_multi_head_attention": "MultiheadAttention",
    "aten::lstm": "LSTM",
    "aten::gru": "GRU",
    "aten::rnn_tanh": "RNN",
    "aten::rnn_relu": "RNN",
}
#: Those of layers that hold others: torch's fast paths for inference. The second runs in the first too.
_FAST_PATHS = ("aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention")
#: What a compiler runs products as, where the model's own operators are not in a profile.
_COMPILED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), ("aten::convolution", "mkldnn::_convolution_pointwise")),
    "linear": ("aten::addmm", "mkldnn::_linear_pointwise"),
}


def as_profiled(trace: ModelTrace, frames: Sequence[Frame]) -> ModelTrace:
    """Return the trace with operators that are named and joined as those of a profile, to find them there.

    A layer that the profile runs as one operator is one operator of the trace, with all its products; but only if each
    call of such a layer is one in the profile. A product that the profile does not have by its own name has the name
    that compilers give it.
    """
    profiled = Counter(frame.event.name for frame in frames if frame.event.kind is Kind.OPERATOR)
    operators: Sequence[OpRecord] = trace.operators
    for name, kind in _WHOLE_LAYERS.items():
        if profiled[name] and not any(_is_named(operator, name) for operator in operators):
            joined = list(_join(operators, name, [layer.path for layer in trace.layers if layer.type == kind]))
            calls = sum(operator.operator == name for operator in joined)
            if calls and _count_outermost(frames, name) % calls == 0:  # each pass has so many
                operators = joined
    return replace(trace, operators=tuple(_name_as_compiled(operator, profiled) for operator in operators))


def notes_of_whole_layers(frames: Iterable[Frame]) -> Iterator[str]:
    """Yield a note for each operator that runs layers together with the layers inside of them."""
    names = {frame.event.name for frame in frames if frame.event.kind is Kind.OPERATOR}
    for name in _FAST_PATHS:
        if name in names:
            kind = _WHOLE_LAYERS[name]
            yield f"{name} runs a {kind} as a whole: its time is that of the layer, and the layers inside have none"
            return


def _is_named(operator: OpRecord, name: str) -> bool:
    """Return whether an operator of the trace has a name of the profiler's."""
    return operator.operator.replace("::", ".").split(".")[:2] == name.split("::")


def _count_outermost(frames: Iterable[Frame], name: str) -> int:
    """Return how many operators of a name run in no other operator that runs a whole layer."""
    return sum(
        frame.event.name == name
        and not any(outer.event.name in _WHOLE_LAYERS for outer in frame.around if outer is not frame)
        for frame in frames
    )


def _join(operators: Sequence[OpRecord], name: str, paths: Sequence[str]) -> Iterator[OpRecord]:
    """Yield the operators, those of one call of one of these layers as one of a name."""
    whole = {path: _find_layer_around(path, paths) for path in {operator.layer for operator in operators}}

    def find_whole_layer(operator: OpRecord) -> str:
        return whole[operator.layer] if operator.phase == "forward" else ""

    for path, group in groupby(operators, key=find_whole_layer):
        if path:
            yield _add_up(tuple(group), name, path)
        else:
            yield from group


def _find_layer_around(path: str, paths: Sequence[str]) -> str:
    """Return the path itself or the first around it that is among others; an empty text for none."""
    return path if path in paths else next((around for around in paths if path.startswith(f"{around}.")), "")


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


def _name_as_compiled(operator: OpRecord, profiled: Mapping[str, int]) -> OpRecord:
    """Return an operator by the name that a compiler gives it, if the profile has that and not its own."""
    space, _, name = operator.operator.replace("::", ".").partition(".")
    name = name.partition(".")[0]
    if not operator.macs or name not in _COMPILED or f"{space}::{name}" in profiled:
        return operator
    names = _COMPILED[name]
    if name == "linear" and operator.flops == 2 * operator.macs:  # without a bias
        names = ("aten::mm", *names[1:])
    compiled = next((candidate for candidate in names if candidate in profiled), None)
    return operator if compiled is None else msgspec.structs.replace(operator, operator=compiled)
