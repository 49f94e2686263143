"""What TensorFlow's CPU kernels do with memory: which outputs share an input's buffer, which take one over.

Each rule was observed in the allocations of TensorFlow 2.21 (oneDNN on, as is the default on x86), one operator at a
time. What grappler fuses needs no rule: a bias, an addition or an activation after a convolution or a product works in
the buffer of the operator before it, fused or not. The one exception is a batch normalization, which does so only where
it is fused into the convolution before it. Sizes are lower bounds where a shape is not known: such a tensor counts
nothing, and `find_unsized_tensors` lists it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import prod
from typing import Protocol, TypeAlias, TypeVar

from profilerkit.backend_kit.live_bytes import Step

__all__ = ["Operator", "constant_bytes", "find_unsized_tensors", "tensor_bytes", "write_steps"]

#: The number of a value, its shape (None where unknown, also for one dimension), and the name of its dtype.
Tensor: TypeAlias = "tuple[int, tuple[int | None, ...] | None, str]"


class Operator(Protocol):
    """What is read of an operator that ran: its type, the values it read and made, how often it ran in all.

    A ``silent`` one is no operator of the model: it hands a value into a loop, or out of it.
    """

    @property
    def type(self) -> str: ...
    @property
    def inputs(self) -> Sequence[int]: ...
    @property
    def outputs(self) -> Sequence[Tensor]: ...
    @property
    def times(self) -> int: ...
    @property
    def silent(self) -> bool: ...


Ran = TypeVar("Ran", bound=Operator)


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


_BYTES = {
    **dict.fromkeys(("bool", "int4", "uint4", "int8", "uint8", "qint8", "quint8"), 1),  # int4 is not packed on the CPU
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "half", "bfloat16", "qint16", "quint16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "qint32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "double", "complex64"), 8),
    "complex128": 16,
    "string": 24,
}

#: Operators whose outputs are the input with the same index (or the first one) under another name or shape.
_SAME_BUFFER = _types(
    """
    Identity IdentityN StopGradient PreventGradient Snapshot ReadVariableOp Reshape Squeeze ExpandDims Bitcast
    EnsureShape CheckNumerics PlaceholderWithDefault Enter Exit NextIteration Switch TensorListPopBack
    TensorListGetItem TensorListResize
    """
)
#: Operators that hand the input on where there is nothing to do.
_SAME_IF_UNCHANGED = _types("Cast Pad PadV2 Tile BroadcastTo Sum Mean Max Min Prod All Any Slice StridedSlice")
#: Operators that cut along the first dimension without copying, and the index of the input they cut.
_CUTS = {"Slice": 0, "StridedSlice": 0, "Split": 1, "SplitV": 0, "Unpack": 0}
#: A slice is a view only where it begins on such a boundary, in bytes.
_ALIGNMENT = 64

#: Element-wise operators that may work in the buffer of their only, or their first, input.
_IN_PLACE_OF_FIRST = _types(
    """
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Ceil Cos Cosh Digamma Erf Erfc Erfinv Exp Expm1
    Floor Inv Invert Lgamma Log Log1p LogicalNot Ndtri Neg Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh
    Sqrt Square Tan Tanh Elu LeakyRelu Relu Relu6 Selu Softplus Softsign Softmax LogSoftmax BiasAdd BiasAddV1
    ClipByValue MatrixBandPart
    """
)
#: Element-wise operators that may work in the buffer of either of two inputs.
_IN_PLACE_OF_TWO = _types(
    """
    Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Div DivNoNan FloorDiv FloorMod LogicalAnd LogicalOr Maximum
    Minimum Mod Mul MulNoNan Pow RealDiv SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy
    EluGrad LeakyReluGrad ReluGrad Relu6Grad SeluGrad SoftplusGrad SoftsignGrad InvGrad ReciprocalGrad RsqrtGrad
    SigmoidGrad SqrtGrad TanhGrad
    """
)
_SELECTIONS = ("Select", "SelectV2")
_BATCH_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
#: Outputs of a fused batch norm from here on are space that its gradient may use, and empty on a CPU.
_STATISTICS = 3
_REDUCTIONS = _types("Sum Mean Max Min Prod All Any EuclideanNorm")
#: Operators that compute axes: grappler folds them where shapes are known, otherwise they take a few bytes.
_AXES = ("BroadcastGradientArgs",)
_LIST_WRITES = {"TensorListSetItem": 2, "TensorListPushBack": 1}


def write_steps(
    operators: Sequence[Ran], inputs: Iterable[Tensor] = (), equation_of: Callable[[Ran], str] = lambda operator: ""
) -> tuple[Step, ...]:
    """Return a step for each operator, for `profilerkit.backend_kit.live_bytes.live_bytes`.

    ``inputs`` are the tensors that the caller holds, resource handles among them. ``equation_of`` gives the equation
    of an ``Einsum``, without which its transposed copies are not counted. What an operator reads that is neither an
    input nor made by another operator is held elsewhere, and takes nothing here; nor do constants (`constant_bytes`).
    """
    writer = _StepWriter(inputs)
    return tuple(
        writer.step(operator, equation_of(operator) if operator.type == "Einsum" else "") for operator in operators
    )


def constant_bytes(operators: Iterable[Operator]) -> int:
    """Return the bytes of the constants in a graph, which holds them as long as it is there."""
    return sum(
        tensor_bytes(shape, dtype)
        for operator in operators
        if operator.type == "Const"
        for _, shape, dtype in operator.outputs
    )


def find_unsized_tensors(operators: Iterable[Operator], inputs: Iterable[Tensor] = ()) -> dict[str, int]:
    """Return the operators that make tensors of unknown size, with their calls; those of the caller are ``input``.

    Handles, variants and strings have no size; what shares an input's buffer takes none of its own; lists of
    axes are too small to matter.
    """
    tensors: dict[int, Tensor] = {tensor[0]: tensor for tensor in inputs}
    unsized = Counter("input" for tensor in tensors.values() if _is_unsized(tensor))
    for operator in operators:
        sources = [tensors.get(value) for value in operator.inputs]
        made = [
            output
            for index, output in enumerate(operator.outputs)
            if _find_shared_input(operator.type, index, sources, output) is None
            and not (operator.type in _BATCH_NORMS and index >= _STATISTICS)
        ]
        if operator.type not in _AXES and any(map(_is_unsized, made)):
            unsized[operator.type] += operator.times
        tensors.update((output[0], output) for output in operator.outputs)
    return dict(unsized)


def _is_unsized(tensor: Tensor) -> bool:
    _, shape, dtype = tensor
    return dtype in _BYTES and dtype != "string" and (shape is None or (None in shape and 0 not in shape))


def tensor_bytes(shape: Sequence[int | None] | None, dtype: str) -> int:
    """Return the bytes of a tensor: 0 where its shape is not known, for a handle, and for an unknown dtype."""
    if shape is None:
        return 0
    sizes = [size for size in shape if size is not None]
    return prod(sizes) * _BYTES.get(dtype, 0) if len(sizes) == len(shape) else 0


class _StepWriter:
    """Turns operators into steps, one after the other, and keeps what is known about each value."""

    def __init__(self, inputs: Iterable[Tensor]) -> None:
        self._tensors: dict[int, Tensor] = {tensor[0]: tensor for tensor in inputs}
        self._maker: dict[int, str] = dict.fromkeys(self._tensors, "")
        #: How often the step ran that made a value's buffer, and the bytes that lists hold.
        self._runs: dict[int, int] = dict.fromkeys(self._tensors, 1)
        self._list_bytes: dict[int, int] = {}
        #: The first value in a value's buffer, a loop's variable standing for itself; those that are in some list.
        self._origin: dict[int, int] = {value: value for value in self._tensors}
        self._carried: set[int] = set()
        self._listed: set[int] = set()

    def step(self, operator: Operator, equation: str) -> Step:
        """Return the step of the next operator."""
        kind, outputs = operator.type, operator.outputs
        sources = [self._tensors.get(value) for value in operator.inputs]
        aliases: dict[int, int] = {}
        makes = []
        for index, output in enumerate(outputs):
            value = output[0]
            shared = _find_shared_input(kind, index, sources, output)
            source = sources[shared] if shared is not None else None
            if source is not None:
                aliases[value] = source[0]
            makes.append((value, self._bytes_made(operator, sources, output, shared)))
            self._remember(operator, output, sources[0] if kind in _LIST_WRITES else source)
        reads = tuple(source[0] for source in sources if source is not None)
        return Step(
            reads,
            tuple(makes),
            aliases,
            self._find_reused(kind, sources),
            scratch_bytes(kind, sources, outputs, equation),
        )

    def _remember(self, operator: Operator, output: Tensor, source: Tensor | None) -> None:
        value = output[0]
        self._tensors[value], self._maker[value] = output, operator.type
        self._runs[value] = operator.times if source is None else self._runs[source[0]]
        self._origin[value] = value if source is None or operator.silent else self._origin[source[0]]
        if operator.silent:
            self._carried.add(value)

    def _bytes_made(
        self, operator: Operator, sources: Sequence[Tensor | None], output: Tensor, shared: int | None
    ) -> int:
        value, shape, dtype = output
        source = sources[shared] if shared is not None else None
        if operator.type == "Const" or (shared is not None and source is None):
            return 0  # held by the graph, or by whoever holds what it came from
        if dtype != "variant":
            return tensor_bytes(shape, dtype)
        if operator.type == "TensorListFromTensor" and sources[0] is not None:
            self._list_bytes[value] = tensor_bytes(*sources[0][1:])
        elif operator.type in _LIST_WRITES:
            self._list_bytes[value] = self._written_list(operator, sources)
        elif source is not None:
            self._list_bytes[value] = self._list_bytes.get(source[0], 0)
        return self._list_bytes.get(value, 0)

    def _written_list(self, operator: Operator, sources: Sequence[Tensor | None]) -> int:
        """Return the bytes of a list after all writes to it.

        A tensor that the loop does not make is counted elsewhere; one that several lists of the loop hold counts once.
        """
        before, item = sources[0], sources[_LIST_WRITES[operator.type]]
        if before is None or item is None:
            return 0
        size = self._list_bytes.get(before[0], 0)
        origin = self._origin[item[0]]
        if origin in self._listed or (self._runs[origin] < operator.times and origin not in self._carried):
            return size
        self._listed.add(origin)
        return size + operator.times // self._runs[before[0]] * tensor_bytes(*item[1:])

    def _find_reused(self, kind: str, sources: Sequence[Tensor | None]) -> tuple[int, ...]:
        if kind in _IN_PLACE_OF_FIRST:
            candidates = sources[:1]
        elif kind in _IN_PLACE_OF_TWO:
            candidates = sources[:2]
        elif kind == "AddN":
            candidates = sources
        elif kind in _SELECTIONS:
            candidates = sources[1:]
        elif kind in _BATCH_NORMS and sources and sources[0] and self._maker[sources[0][0]] == "Conv2D":
            candidates = sources[:1]
        else:
            return ()
        return tuple(source[0] for source in candidates if source is not None)


def _find_shared_input(kind: str, index: int, sources: Sequence[Tensor | None], output: Tensor) -> int | None:
    """Return the index of the input whose buffer an output shares; None where it has one of its own."""
    if kind in _SAME_BUFFER and sources:
        return index if kind == "IdentityN" else 0
    first = sources[0] if sources else None
    if kind in _SAME_IF_UNCHANGED and first is not None and _is_unchanged(kind, first, output):
        return 0
    if kind == "Transpose" and first is not None and _moves_nothing(first[1], output[1]):
        return 0
    if kind in _CUTS and len(sources) > _CUTS[kind]:
        cut = sources[_CUTS[kind]]
        return _CUTS[kind] if cut is not None and _is_view(cut, output) else None
    return None


def _is_unchanged(kind: str, source: Tensor, output: Tensor) -> bool:
    """Return whether an operator had nothing to do: a reduction of dimensions of one, a cast to the same dtype."""
    if source[1] is None or output[1] is None or source[2] != output[2]:
        return False
    if kind in _REDUCTIONS:
        return tensor_bytes(*source[1:]) == tensor_bytes(*output[1:]) > 0
    return None not in source[1] and tuple(source[1]) == tuple(output[1])


def _moves_nothing(source: Sequence[int | None] | None, output: Sequence[int | None] | None) -> bool:
    """Return whether a transposition is known to move dimensions of one alone."""
    if source is None or output is None or None in source:
        return False
    before, after = ([size for size in shape if size != 1] for shape in (source, output))
    return before == after and len(set(before)) == len(before)


def _is_view(whole: Tensor, part: Tensor) -> bool:
    """Return whether a part can lie in the buffer of the whole: cut along the first dimension, and aligned."""
    if whole[1] is None or part[1] is None or not whole[1]:
        return False
    inner = tuple(whole[1][1:])
    if tuple(part[1]) != inner and tuple(part[1][1:]) != inner:
        return False
    return tensor_bytes(inner, whole[2]) % _ALIGNMENT == 0


def scratch_bytes(kind: str, sources: Sequence[Tensor | None], outputs: Sequence[Tensor], equation: str = "") -> int:
    """Return the bytes of the transposed copies in an operator, for which other frameworks have separate operators.

    What a kernel allocates besides (filters in another order, im2col) is no tensor of the model, and differs from one
    build of TensorFlow to the next.
    """
    sizes = [0 if source is None else tensor_bytes(*source[1:]) for source in sources]
    made = [tensor_bytes(shape, dtype) for _, shape, dtype in outputs]
    if kind == "Einsum":
        return _einsum_scratch(equation, sizes, made[0])
    if kind in _REDUCTIONS and sources and sources[0] is not None:
        return sizes[0] if _reduces_apart(sources[0][1], outputs[0][1]) else 0
    return 0


def _reduces_apart(source: Sequence[int | None] | None, output: Sequence[int | None] | None) -> bool:
    """Return whether a reduction that keeps its dimensions transposes first: its axes lie between others, twice."""
    if source is None or output is None or len(source) != len(output):
        return False
    reduced = [before != after for before, after in zip(source, output, strict=True) if before != 1]
    return len([run for run, _ in groupby(reduced)]) > 3


def _einsum_scratch(equation: str, sizes: Sequence[int], made: int) -> int:
    """Return the bytes of the copies in which an einsum transposes its operands, and its result.

    The product is a batched matrix product: operands in the order batch, free, contracted (or batch, contracted,
    free), the result in the order batch, free of the first, free of the second.
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    labels = operands.split(",")
    if not arrow or "." in equation or len(labels) != 2:
        return 0
    first, second = labels
    batch = [label for label in first if label in second and label in result]
    contracted = [label for label in first if label in second and label not in result]
    copied, free = 0, ""
    for operand, size in zip(labels, sizes, strict=False):
        free_labels = [label for label in operand if label in result and label not in batch]
        free += "".join(free_labels)
        if operand not in ("".join((*batch, *free_labels, *contracted)), "".join((*batch, *contracted, *free_labels))):
            copied += size
    return copied + (made if result != "".join(batch) + free else 0)
