"""Operators by what decides their time: kinds of products, families of traffic, and the regions that a compiler fuses.

The names are the parts of operators' names that frameworks have in common. An operator with multiply-accumulates and an
unknown name is a product, any other one is element-wise traffic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import ModelTrace, OpRecord

__all__ = [
    "FAMILIES",
    "KINDS",
    "Region",
    "count_moved_bytes",
    "find_family",
    "find_kind",
    "find_regions",
    "find_shape",
    "is_free",
    "least_read",
    "plain_name",
    "selects",
    "with_whole_recurrences",
]

#: The kinds of products, each with the pattern of its names; the first that matches counts.
KINDS: tuple[tuple[str, str], ...] = (
    ("convolution gradient", r"conv\w*backward|conv\w*gradient|conv2dbackprop|backprop(input|filter)"),
    ("convolution", r"conv"),
    ("attention", r"attention|sdpa"),
    ("recurrent gradient", r"(lstm|recurrent)\w*(backward|gradient)"),
    ("stepwise recurrent gradient", r"(gru|rnn)\w*(backward|gradient)"),
    ("recurrent", r"lstm|recurrent"),
    ("stepwise recurrent", r"gru|rnn"),
    ("batched product", r"\bbmm|baddbmm|batch_?matmul|einsum"),
    ("product", r""),
)
#: Convolutions of one channel for each output channel: their depth is that of one small kernel.
_DEPTHWISE = "depthwise convolution"
_DEPTHWISE_DEPTHS = frozenset({9, 25, 49})
#: Their gradients, by the image and by the kernel, have twice that.
_DEPTHWISE_GRADIENT_DEPTHS = frozenset({18, 50, 98})

#: The families of traffic, each with the pattern of its names; the first that matches counts.
FAMILIES: tuple[tuple[str, str], ...] = (
    ("average pooling", r"avg_?pool|average_?pool|mean_?pool"),
    ("upsampling", r"upsample|interpolate|resize"),
    ("pooling", r"pool"),
    ("softmax", r"softmax|logsumexp"),
    ("batch statistics", r"native_batch_norm$"),
    ("batch normalization", r"batch_?norm|instance_?norm"),
    ("normalization", r"norm"),
    ("random", r"dropout|bernoulli|rand|multinomial"),
    ("activation", r"gelu|silu|swish|sigmoid|tanh|exp|log|pow|sin|cos|erf|softplus|mish|elu|sqrt|rsqrt|div"),
    ("reduction", r"sum|mean|max|min|argmax|argmin|topk|sort|cumsum|var|std|any|all\b"),
    ("gather", r"embedding|index|gather|take|scatter|select_backward|slice_backward"),
    ("movement", r"clone|contiguous|copy|cat|stack|pad|reshape|repeat|roll|flip|fill|zeros|ones|full|arange|transpose"),
    ("element-wise", r""),
)
#: Averages of so many elements are reductions: those of whole images.
_MANY = 32
#: The families whose gradients have tables of their own, as "pooling gradient".
_WITH_GRADIENTS = frozenset(
    ("average pooling", "upsampling", "pooling", "softmax", "batch normalization", "normalization", "activation")
)
#: ReLU and what torch calls relu6 are no exponential, though "elu" is in their names; the gradients of sigmoid and tanh
#: take their results, and no exponential either.
_ELEMENTWISE = re.compile(r"relu|threshold|hardtanh|hardswish|hardsigmoid|clamp|(sigmoid|tanh)_(backward|grad)")
#: What makes no byte move: views, and tensors without values.
_FREE = re.compile(
    r"_unsafe_view|view|empty(_like|_strided)?|new_empty|unsafe_split|split(_with_sizes)?|chunk|detach|alias|expand|t"
    r"|permute|squeeze|unsqueeze|as_strided|select|slice|unbind|identity|lift_fresh|scalar_tensor"
)


def plain_name(operator: str) -> str:
    """Return an operator's name without its namespace and overload, in small letters.

    >>> plain_name("aten.conv2d.default"), plain_name("aten::mm"), plain_name("Conv"), plain_name("com.microsoft::Gelu")
    ('conv2d', 'mm', 'conv', 'gelu')
    """
    _, separator, name = operator.rpartition("::")
    parts = name.split(".")
    return (parts[1] if len(parts) > 1 and not separator else parts[0]).lower()


def find_kind(operator: OpRecord) -> str:
    """Return the kind of a product."""
    name = plain_name(operator.operator)
    kind = next(kind for kind, pattern in KINDS if re.search(pattern, name))
    if kind == "convolution" and find_shape(operator)[3] in _DEPTHWISE_DEPTHS:
        return _DEPTHWISE
    if kind == "convolution gradient" and find_shape(operator)[3] in _DEPTHWISE_GRADIENT_DEPTHS:
        return f"{_DEPTHWISE} gradient"
    return kind


def find_family(operator: OpRecord) -> str:
    """Return the family of an operator without products."""
    name = plain_name(operator.operator)
    if _ELEMENTWISE.search(name):
        return "element-wise"
    family = next(family for family, pattern in FAMILIES if re.search(pattern, name))
    if family == "average pooling" and operator.bytes_read >= _MANY * operator.bytes_written:
        return "reduction"
    return f"{family} gradient" if family in _WITH_GRADIENTS and "backward" in name else family


def is_free(operator: OpRecord) -> bool:
    """Say whether an operator moves no bytes: a view, or a tensor without values."""
    return not operator.macs and _FREE.fullmatch(plain_name(operator.operator)) is not None


#: Products of rows with one of several matrices each: those of experts. Which matrices are read depends on values.
_GROUPED = re.compile(r"grouped_?mm|grouped_?gemm|ragged_?dot|gather_?mm|mixtureofexperts|\bq?moe\b")
#: What reads chosen elements of a tensor.
_LOOKS_UP = re.compile(r"embedding|index|gather|take|dynamic_slice")


def selects(operator: OpRecord) -> bool:
    """Say whether an operator reads chosen parts of a tensor: rows of a table, or the matrices of chosen experts.

    >>> selects(OpRecord("aten.index_select.default", "", 0, 0, 0, 400, 8, ()))
    True
    """
    name = plain_name(operator.operator)
    return (_GROUPED if operator.macs else _LOOKS_UP).search(name) is not None


def least_read(operator: OpRecord) -> float:
    """Return the least bytes that an operator reads: of a table the rows that it returns, of experts one.

    A product of 3 rows with experts of 8 x 4 elements of four bytes has 96 multiply-accumulates, and reads at least one
    of the experts, 128 bytes:

    >>> from profilerkit.trace.records import TensorInfo
    >>> least_read(OpRecord("aten._grouped_mm.default", "", 0, 96, 192, 10**6, 48, (TensorInfo((3, 4), "float32"),)))
    128.0
    """
    if not selects(operator) or not operator.outputs:
        return float(operator.bytes_read)
    first, *others = operator.outputs
    if operator.macs:
        rows = math.prod(max(1, size) for size in first.shape[:-1])
        return min(operator.bytes_read, operator.macs / rows * element_bytes(first.dtype))
    beside = sum(math.prod(max(0, size) for size in other.shape) * element_bytes(other.dtype) for other in others)
    return min(operator.bytes_read, max(0.0, operator.bytes_written - beside))


def count_moved_bytes(operator: OpRecord) -> float:
    """Return the bytes that an operator moves: of a table that it looks up, the rows that it returns alone."""
    read, written = operator.bytes_read, operator.bytes_written
    looks_up = not operator.macs and find_family(operator) == "gather"
    return float(min(read, written) + written if looks_up else read + written)


def find_shape(operator: OpRecord) -> tuple[int, int, int, int]:
    """Return batch, rows, columns and depth of a product, as far as its first output and its count tell them.

    The depth is the multiply-accumulates for each element of the output; the columns are the channels of an image or
    else the last dimension; the batch is that of batched products, and of recurrent layers, which are taken to have the
    batch first and the steps, their rows, second. In its place convolutions have their multiply-accumulates for each
    value that is read or written: with the same rows, columns and depth it is greater for larger kernels. It is 1 for
    others.

    >>> from profilerkit.trace.records import TensorInfo
    >>> find_shape(OpRecord("mm", "", 0, 24, 48, 0, 0, (TensorInfo((2, 3), "float32"),)))
    (1, 2, 3, 4)
    """
    shape = operator.outputs[0].shape if operator.outputs else ()
    elements = max(1, math.prod(max(1, size) for size in shape))
    name = plain_name(operator.operator)
    is_image = "conv" in name and len(shape) > 2
    columns = max(1, shape[1 if is_image else -1]) if shape else 1
    depth = max(1, operator.macs // elements)
    if len(shape) == 3 and re.search(r"lstm|gru|rnn|recurrent", name):
        return max(1, shape[0]), max(1, shape[1]), columns, depth
    if is_image:
        moved = (operator.bytes_read + operator.bytes_written) / element_bytes(operator.outputs[0].dtype)
        return max(1, round(operator.macs / max(1.0, moved))), max(1, elements // columns), columns, depth
    batch = 1
    if len(shape) > 2 and re.search(r"\bbmm|baddbmm|batch_?matmul|einsum", name):
        batch = max(1, math.prod(shape[:-2]))
    rows = max(1, elements // columns // batch)
    return batch, rows, columns, depth


@dataclass(frozen=True, slots=True)
class Region:
    """Operators that run as one kernel: one, or several that a compiler fuses; the bytes that they move."""

    operators: tuple[OpRecord, ...]
    moved_bytes: float

    @property
    def head(self) -> OpRecord:
        """The first operator; one with multiply-accumulates is a region by itself."""
        return self.operators[0]


def find_regions(operators: Iterable[OpRecord], *, fused: bool) -> Iterator[Region]:
    """Yield the regions of a trace: each operator by itself, or as a compiler fuses them.

    The rule of fusion: an operator with products is a kernel of a library, by itself. Another operator joins the region
    before it if that has no products, it runs in the same phase, moves bytes, and its first output has as many elements
    as that of the operator before. What the region passes on inside is neither written nor read: each join takes the
    bytes of that output off twice.
    """
    group: list[OpRecord] = []
    moved = 0.0
    for operator in operators:
        if is_free(operator):
            continue
        passed_on = _count_passed_bytes(group[-1], operator) if fused and group else None
        own_bytes = count_moved_bytes(operator)
        if passed_on is None:
            if group:
                yield Region(tuple(group), moved)
            group, moved = [operator], float(own_bytes)
        else:
            group.append(operator)
            moved += max(0.0, own_bytes - 2 * passed_on)
    if group:
        yield Region(tuple(group), moved)


def with_whole_recurrences(trace: ModelTrace) -> Iterator[OpRecord]:
    """Yield the operators of a trace, those of a recurrent layer as one for each phase: frameworks run one kernel.

    A training trace has such a layer step by step. The rows of the one operator are those of the layer's output.
    """
    layers = {layer.path: layer for layer in trace.layers if layer.type in _WHOLE and layer.calls}
    for (path, phase), group in groupby(trace.operators, key=lambda operator: (operator.layer, operator.phase)):
        operators = tuple(group)
        outputs = layers[path].calls[0].outputs if path in layers else ()
        if len(operators) < 3 or not outputs:
            yield from operators
            continue
        macs, flops = sum(op.macs for op in operators), sum(op.flops for op in operators)
        weights = sum(weight.bytes for weight in layers[path].parameters)
        moved = weights + math.prod(outputs[0].shape) * element_bytes(outputs[0].dtype)
        name = layers[path].type.lower() + ("_backward" if phase == "backward" else "")
        yield OpRecord(name, path, 0, macs, flops, int(weights), int(moved - weights), outputs[:1], phase)


#: The types of layers that run as one kernel.
_WHOLE = frozenset({"LSTM", "GRU", "RNN"})


#: The families of operators that do not join the region before them.
_ALONE = frozenset(("gather", "pooling", "average pooling", "upsampling", "reduction", "random"))


def _count_passed_bytes(before: OpRecord, operator: OpRecord) -> float | None:
    """Return the bytes that an operator takes over from the one before it in a region; None if it does not join."""
    if operator.macs or before.macs or operator.phase != before.phase or not before.outputs or not operator.outputs:
        return None
    if find_family(operator) in _ALONE:
        return None
    elements = math.prod(before.outputs[0].shape)
    if elements != math.prod(operator.outputs[0].shape) or elements < 1:
        return None
    return elements * element_bytes(before.outputs[0].dtype)
