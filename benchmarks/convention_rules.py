"""What other tools count for each operator of a trace: from profilerkit's counts to their numbers.

Each rule gets one operator as a `Row`, and returns what the tool counts for it and why that differs from ours. Read off
the source of the versions that ``docs/conventions.rst`` names, for PyTorch on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

from profilerkit import ModelTrace
from profilerkit.trace.records import LayerRecord, OpRecord

Count = tuple[int, str]

NOTHING = "not counted"
NO_BIAS = "no bias"
#: The types of the layers in which ``nn.MultiheadAttention`` works.
OF_ATTENTION = ("MultiheadAttention", "NonDynamicallyQuantizableLinear")


class Row(NamedTuple):
    """One operator that was counted: what it is, where it happened, and what it costs here.

    ``kind`` is the type of its layer. ``bias`` are the FLOPs that it has beyond two for each MAC. ``layer_inputs`` and
    ``outputs`` are elements: those of the first input of its layer, and its own.
    """

    operator: str
    kind: str
    is_inside_encoder: bool
    macs: int
    bias: int
    layer_inputs: int
    outputs: int
    layer: LayerRecord
    shape: tuple[int, ...]

    @property
    def flops(self) -> int:
        """Return our FLOPs."""
        return 2 * self.macs + self.bias

    @property
    def positions(self) -> int:
        """Return how often a linear layer was applied, or how many steps a recurrent one took, for one sample."""
        return self.outputs // self.shape[-1] // self.shape[0]

    @property
    def recurrent_biases(self) -> int:
        """Return the additions of a recurrent layer's biases."""
        biases = sum(weight.count for weight in self.layer.parameters if "bias" in weight.name)
        return biases * self.positions * self.shape[0]


def list_rows(trace: ModelTrace) -> Iterator[Row]:
    """Yield the operators of a trace that cost something."""
    layers = {layer.path: layer for layer in trace.layers}
    for op in trace.operators:
        if op.flops:
            yield _row(op, layers)


def _row(op: OpRecord, layers: dict[str, LayerRecord]) -> Row:
    layer = layers[op.layer]
    inputs = layer.calls[op.call].inputs if op.call < len(layer.calls) else ()
    parts = op.layer.split(".")
    around = [layers[".".join(parts[:depth])] for depth in range(1, len(parts) + 1)]
    return Row(
        operator=op.operator.split(".")[1].rstrip("_"),
        kind=layer.type,
        is_inside_encoder=any(outer.type == "TransformerEncoderLayer" for outer in around),
        macs=op.macs,
        bias=op.flops - 2 * op.macs,
        layer_inputs=prod(inputs[0].shape) if inputs else 0,
        outputs=prod(op.outputs[0].shape),
        layer=layer,
        shape=tuple(op.outputs[0].shape),
    )


def flop_counter_mode(row: Row) -> Count:
    """``torch.utils.flop_counter`` under ``no_grad``: FLOPs, two for each MAC of the products it knows."""
    if row.is_inside_encoder:
        return 0, "not counted, as the encoder layer runs as one kernel in eval mode"
    if row.operator in ("conv2d", "linear"):
        return 2 * row.macs, NO_BIAS
    return 0, NOTHING


def fvcore(row: Row) -> Count:
    """``fvcore.nn.FlopCountAnalysis``: says FLOPs, and means MACs; norms and one kind of pooling beside."""
    if row.operator in ("conv2d", "linear"):
        return row.macs, ""
    if row.operator == "batch_norm":
        return 2 * row.outputs, "2 for each element, as MACs"
    if row.operator == "layer_norm":
        return 5 * row.outputs, "5 for each element, as MACs"
    if row.operator == "adaptive_avg_pool2d":
        return row.layer_inputs, "1 for each input element, as a MAC"
    return 0, NOTHING


def ptflops(row: Row) -> Count:
    """``ptflops``, its default backend: MACs, with one for each bias, and for elements of layers and functions."""
    twice = "1 for each input element, as a MAC, in the layer, and again in its function"
    if row.kind == "MultiheadAttention" or row.operator in ("conv2d", "linear"):
        return _ptflops_products(row)
    if row.operator == "lstm":
        return row.macs + row.recurrent_biases + 10 * row.outputs, "biases, and 10 for each unit, as MACs"
    if row.operator == "batch_norm":
        return 2 * row.outputs, "2 for each element, as MACs"
    if row.operator == "layer_norm":
        return row.outputs, "1 for each element, as a MAC"
    if row.kind in ("ReLU", "GELU", "MaxPool2d", "AdaptiveAvgPool2d"):
        return 2 * row.layer_inputs, twice
    return (row.outputs, "1 for each element, as a MAC") if row.operator == "softmax" else (0, NOTHING)


def _ptflops_products(row: Row) -> Count:
    if row.operator != "scaled_dot_product_attention":
        return row.macs + row.bias, "1 for each bias, as a MAC"
    scores = row.bias // 6
    return row.macs + scores + row.outputs, "softmax (1 for each score) and scaled queries, as MACs"


def ptflops_aten(row: Row) -> Count:
    """``ptflops`` with ``backend="aten"``: MACs of ``mm``, ``addmm``, ``bmm`` and convolutions, with their biases."""
    if row.operator in ("conv2d", "linear"):
        return row.macs + row.bias, "1 for each bias, as a MAC"
    return 0, NOTHING


def thop(row: Row) -> Count:
    """``thop``: MACs of layers by their type, without biases; norms, pooling and the gates of an LSTM beside."""
    if row.kind in OF_ATTENTION:
        return 0, "not counted, as its type of layer has no rule"
    if row.operator in ("conv2d", "linear"):
        return row.macs, ""
    if row.operator in ("batch_norm", "layer_norm"):
        return 4 * row.outputs, "4 for each element, as MACs"
    if row.operator == "lstm":
        return row.macs + 16 * row.outputs, "biases, and 8 for each unit, as MACs"
    if row.kind == "AdaptiveAvgPool2d":
        return row.layer_inputs + row.outputs, "a sum and a division, as MACs"
    return 0, NOTHING


def torchinfo(row: Row) -> Count:
    """``torchinfo``: "mult-adds", the elements of each layer's own parameters, for each place they are applied at."""
    if row.kind in OF_ATTENTION:
        return 0, "not counted, as its parameters have other names"
    if row.operator == "conv2d":
        return row.macs + row.bias, "1 for each bias, as a MAC"
    if row.operator == "linear":
        return (row.macs + row.bias) // row.positions, "for one token only, and 1 for each bias"
    if row.operator == "lstm":
        return row.macs + row.recurrent_biases, "1 for each bias, as a MAC"
    if row.operator in ("batch_norm", "layer_norm"):
        return row.shape[0] * sum(weight.count for weight in row.layer.parameters), "1 for each parameter, as a MAC"
    return 0, NOTHING


def flops_profiler(row: Row) -> Count:
    """``flops-profiler``, DeepSpeed's: FLOPs of functions of ``torch.nn.functional`` that layers call."""
    if row.operator == "conv2d":
        return row.flops, ""
    if row.operator == "linear":
        return 2 * row.macs, NO_BIAS
    if row.operator == "lstm":
        return row.macs + row.recurrent_biases + 10 * row.outputs, "MACs, not twice them; 10 for each unit"
    if row.operator == "batch_norm":
        return 2 * row.outputs, ""
    if row.operator == "layer_norm":
        return 5 * row.outputs, "5 for each element"
    if row.kind in ("ReLU", "GELU", "MaxPool2d", "AdaptiveAvgPool2d"):
        return row.layer_inputs, "1 for each input element"
    return 0, NOTHING


def flops_profiler_macs(row: Row) -> Count:
    """``flops-profiler``'s MACs: those of convolutions and linear layers."""
    return (row.macs, "") if row.operator in ("conv2d", "linear") else (0, NOTHING)


class Convention(NamedTuple):
    """What a tool calls its number, which of ours that compares to, and what it counts for an operator."""

    unit: str
    ours: str
    rule: Callable[[Row], Count]


#: By the names of `convention_tools.TOOLS`.
CONVENTIONS = {
    "FlopCounterMode": Convention("FLOPs", "flops", flop_counter_mode),
    "fvcore": Convention("FLOPs", "macs", fvcore),
    "ptflops": Convention("MACs", "macs", ptflops),
    "ptflops, aten": Convention("MACs", "macs", ptflops_aten),
    "thop": Convention("MACs", "macs", thop),
    "torchinfo": Convention("mult-adds", "macs", torchinfo),
    "flops-profiler": Convention("FLOPs", "flops", flops_profiler),
    "flops-profiler, MACs": Convention("MACs", "macs", flops_profiler_macs),
}
