"""What operators take of memory: which outputs share an input's buffer, the steps of the bytes alive, and constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from profilerkit.backend_kit.live_bytes import Step

from .values import Executed, PartialShape, Tensor

__all__ = ["count_constant_bytes", "find_unsized_tensors", "write_steps"]


def write_steps(operators: Iterable[Executed], inputs: Iterable[Tensor] = ()) -> tuple[Step, ...]:
    """Return a step for each operator, for `profilerkit.backend_kit.live_bytes.live_bytes`.

    ``inputs`` are the tensors that the caller holds, resource handles among them. What an operator reads that is
    neither an input nor made by another operator is held elsewhere, and takes nothing here; nor do constants
    (`count_constant_bytes`).
    """
    writer = _StepWriter(inputs)
    return tuple(writer.write(operator) for operator in operators)


@dataclass(frozen=True)
class _ValueFacts:
    """What is known about a value.

    Attributes:
        tensor: Its number, shape and dtype.
        origin: The first value in its buffer; what goes into a loop, or comes out of it, stands for itself.
        maker: The type of the operator that made it; empty for the caller's.
        runs: How often the step ran that made its buffer.
        is_carried: Whether it goes into a loop, or comes out of it.
        list_bytes: The bytes of all items, if it is a list.
    """

    tensor: Tensor
    origin: int
    maker: str = ""
    runs: int = 1
    is_carried: bool = False
    list_bytes: int = 0


class _StepWriter:
    """Turns operators into steps, one after the other, and keeps what is known about each value."""

    def __init__(self, inputs: Iterable[Tensor]) -> None:
        self._facts = {tensor.number: _ValueFacts(tensor, origin=tensor.number) for tensor in inputs}
        #: The origins of the items of all lists.
        self._listed: set[int] = set()

    def write(self, operator: Executed) -> Step:
        """Return the step of the next operator."""
        sources = [self._facts.get(number) for number in operator.inputs]
        tensors = [None if source is None else source.tensor for source in sources]
        aliases: dict[int, int] = {}
        makes = []
        for index, output in enumerate(operator.outputs):
            shared = _find_shared_input(operator.type, index, tensors, output)
            source = None if shared is None else sources[shared]
            if source is not None:
                aliases[output.number] = source.tensor.number
            is_held_elsewhere = operator.type == "Const" or (shared is not None and source is None)
            size = 0 if is_held_elsewhere else self._count_bytes(operator, sources, output, source)
            makes.append((output.number, size))
            before = sources[0] if operator.type in _LIST_WRITES else source
            self._remember(operator, output, before, size)
        maker = sources[0].maker if sources and sources[0] is not None else ""
        reusable = _list_reusable(operator.type, tensors, maker)
        return Step(
            reads=tuple(tensor.number for tensor in tensors if tensor is not None),
            makes=tuple(makes),
            aliases=aliases,
            reuses=tuple(tensor.number for tensor in reusable if tensor is not None),
            scratch=_count_scratch_bytes(operator.type, tensors, operator.outputs, operator.equation),
        )

    def _remember(self, operator: Executed, output: Tensor, before: _ValueFacts | None, size: int) -> None:
        """Keep what is known about an output; ``before`` is the value that it is another name or a later state of."""
        self._facts[output.number] = _ValueFacts(
            output,
            origin=output.number if before is None or operator.silent else before.origin,
            maker=operator.type,
            runs=operator.times if before is None else before.runs,
            is_carried=operator.silent,
            list_bytes=size if output.dtype == "variant" else 0,
        )

    def _count_bytes(
        self, operator: Executed, sources: Sequence[_ValueFacts | None], output: Tensor, source: _ValueFacts | None
    ) -> int:
        """Return the bytes of an output: of a tensor its own, of a list (a variant) those of its items."""
        if output.dtype != "variant":
            return output.bytes
        if operator.type in _LIST_WRITES:
            return self._count_written_list(operator, sources[0], sources[_LIST_WRITES[operator.type]])
        first = sources[0] if operator.type == "TensorListFromTensor" else None
        if first is not None:
            return first.tensor.bytes
        return 0 if source is None else source.list_bytes

    def _count_written_list(self, operator: Executed, before: _ValueFacts | None, item: _ValueFacts | None) -> int:
        """Return the bytes of a list after an operator in a loop has written an item to it in each run.

        An item that the loop does not make is the same tensor in each run, and counted elsewhere; unless it is one of
        the loop's variables, which is another tensor each time. One that several lists hold counts once.
        """
        if before is None or item is None:
            return 0
        origin = self._facts[item.origin]
        is_same_each_time = origin.runs < operator.times and not origin.is_carried
        if item.origin in self._listed or is_same_each_time:
            return before.list_bytes
        self._listed.add(item.origin)
        return before.list_bytes + operator.times // before.runs * item.tensor.bytes


def count_constant_bytes(operators: Iterable[Executed]) -> int:
    """Return the bytes of the constants in a graph, which holds them as long as it is there."""
    constants = [operator for operator in operators if operator.type == "Const"]
    return sum(output.bytes for constant in constants for output in constant.outputs)


def find_unsized_tensors(operators: Iterable[Executed], inputs: Iterable[Tensor] = ()) -> dict[str, int]:
    """Return the operators that make tensors of unknown size, with their calls; those of the caller are ``input``.

    What shares an input's buffer takes none of its own.
    """
    tensors = {tensor.number: tensor for tensor in inputs}
    unsized = Counter("input" for tensor in tensors.values() if tensor.is_unsized)
    for operator in operators:
        sources = [tensors.get(number) for number in operator.inputs]
        makes_unsized = any(
            output.is_unsized
            and not _is_too_small(operator.type, index)
            and _find_shared_input(operator.type, index, sources, output) is None
            for index, output in enumerate(operator.outputs)
        )
        if makes_unsized:
            unsized[operator.type] += operator.times
        tensors.update((output.number, output) for output in operator.outputs)
    return dict(unsized)


# What TensorFlow's CPU kernels do with memory -------------------------------------------------------------------------

# Each rule was observed in the allocations of TensorFlow 2.21 (oneDNN on, as is the default on x86), one operator at a
# time. What grappler fuses needs no rule: a bias, an addition or an activation after a convolution or a product works
# in the buffer of the operator before it, fused or not. The one exception is a batch normalization, which does so only
# where it is fused into the convolution before it.
#
# The functions ask about one operator: about its type, the tensors that it reads (None for one that is held elsewhere)
# and those that it makes. Sizes are lower bounds where a shape is not known: such a tensor counts nothing.

T = TypeVar("T")


def _split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: Operators whose outputs are the input with the same index (or the first one) under another name or shape.
_SAME_BUFFER = _split_names(
    """
    Identity IdentityN StopGradient PreventGradient Snapshot ReadVariableOp Reshape Squeeze ExpandDims Bitcast
    EnsureShape CheckNumerics PlaceholderWithDefault Enter Exit NextIteration Switch TensorListPopBack
    TensorListGetItem TensorListResize
    """
)
#: Operators that hand the input on where there is nothing to do.
_SAME_IF_UNCHANGED = _split_names("Cast Pad PadV2 Tile BroadcastTo Sum Mean Max Min Prod All Any Slice StridedSlice")
#: Operators that cut along the first dimension without copying, and the index of the input they cut.
_CUTS = {"Slice": 0, "StridedSlice": 0, "Split": 1, "SplitV": 0, "Unpack": 0}
#: A slice is a view only where it begins on such a boundary, in bytes.
_ALIGNMENT = 64

#: Element-wise operators that may work in the buffer of their only, or their first, input.
_IN_PLACE_OF_FIRST = _split_names(
    """
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Ceil Cos Cosh Digamma Erf Erfc Erfinv Exp Expm1
    Floor Inv Invert Lgamma Log Log1p LogicalNot Ndtri Neg Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh
    Sqrt Square Tan Tanh Elu LeakyRelu Relu Relu6 Selu Softplus Softsign Softmax LogSoftmax BiasAdd BiasAddV1
    ClipByValue MatrixBandPart
    """
)
#: Element-wise operators that may work in the buffer of either of two inputs.
_IN_PLACE_OF_TWO = _split_names(
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
_REDUCTIONS = _split_names("Sum Mean Max Min Prod All Any EuclideanNorm")
#: Operators that compute axes: grappler folds them where shapes are known, otherwise they take a few bytes.
_AXES = ("BroadcastGradientArgs",)
#: Operators that put an item into a list, and the index of the input that is the item; the list is the first.
_LIST_WRITES = {"TensorListSetItem": 2, "TensorListPushBack": 1}


def _is_too_small(kind: str, index: int) -> bool:
    """Return whether an output of an operator is empty on a CPU, or takes a few bytes alone."""
    return kind in _AXES or (kind in _BATCH_NORMS and index >= _STATISTICS)


# Outputs in the buffer of an input ------------------------------------------------------------------------------------


def _find_shared_input(kind: str, index: int, sources: Sequence[Tensor | None], output: Tensor) -> int | None:
    """Return the index of the input whose buffer an output shares; None where it has one of its own."""
    shared = index if kind == "IdentityN" else _CUTS.get(kind, 0)
    if shared >= len(sources):
        return None
    source = sources[shared]
    if kind in _SAME_BUFFER:
        is_same = True
    elif source is None:  # its shape is not known
        is_same = False
    else:
        is_same = (
            (kind in _SAME_IF_UNCHANGED and _is_unchanged(kind, source, output))
            or (kind in _CUTS and _is_view(source, output))
            or (kind == "Transpose" and _moves_nothing(source, output))
        )
    return shared if is_same else None


def _is_unchanged(kind: str, source: Tensor, output: Tensor) -> bool:
    """Return whether an operator had nothing to do: a reduction of dimensions of one, a cast to the same dtype."""
    if source.shape is None or output.shape is None or source.dtype != output.dtype:
        return False
    if kind in _REDUCTIONS:
        return source.bytes == output.bytes > 0
    return None not in source.shape and tuple(source.shape) == tuple(output.shape)


def _moves_nothing(source: Tensor, output: Tensor) -> bool:
    """Return whether a transposition is known to move dimensions of one alone."""
    if source.shape is None or output.shape is None or None in source.shape:
        return False
    before = [size for size in source.shape if size != 1]
    after = [size for size in output.shape if size != 1]
    are_distinct = len(set(before)) == len(before)  # two equal ones may have changed places
    return before == after and are_distinct


def _is_view(whole: Tensor, part: Tensor) -> bool:
    """Return whether a part can lie in the buffer of the whole: cut along the first dimension, and aligned."""
    if not whole.shape or part.shape is None:
        return False
    row = Tensor(whole.number, tuple(whole.shape[1:]), whole.dtype)
    is_cut_along_the_first = row.shape in (tuple(part.shape), tuple(part.shape[1:]))
    return is_cut_along_the_first and row.bytes % _ALIGNMENT == 0


def _list_reusable(kind: str, inputs: Sequence[T], maker_of_first: str) -> Sequence[T]:
    """Return those of an operator's inputs in whose buffer it may work, if nothing else needs them any more.

    ``maker_of_first`` is the type of the operator that made the first input.
    """
    if kind in _IN_PLACE_OF_FIRST or (kind in _BATCH_NORMS and maker_of_first == "Conv2D"):
        return inputs[:1]
    if kind in _IN_PLACE_OF_TWO:
        return inputs[:2]
    if kind == "AddN":
        return inputs
    return inputs[1:] if kind in _SELECTIONS else ()


# Copies inside of an operator -----------------------------------------------------------------------------------------


def _count_scratch_bytes(
    kind: str, sources: Sequence[Tensor | None], outputs: Sequence[Tensor], equation: str = ""
) -> int:
    """Return the bytes of the transposed copies in an operator, for which other frameworks have separate operators.

    What a kernel allocates besides (filters in another order, im2col) is no tensor of the model, and differs from one
    build of TensorFlow to the next.
    """
    if kind == "Einsum":
        sizes = [0 if source is None else source.bytes for source in sources]
        return _count_einsum_copies(equation, sizes, outputs[0].bytes)
    reduced = sources[0] if kind in _REDUCTIONS and sources else None
    if reduced is not None and _transposes_to_reduce(reduced.shape, outputs[0].shape):
        return reduced.bytes
    return 0


def _transposes_to_reduce(source: PartialShape, output: PartialShape) -> bool:
    """Return whether a reduction that keeps its dimensions transposes first: its axes lie between others, twice."""
    if source is None or output is None or len(source) != len(output):
        return False
    are_reduced = [before != after for before, after in zip(source, output, strict=True) if before != 1]
    alternations = [is_reduced for is_reduced, _ in groupby(are_reduced)]
    return len(alternations) > 3


def _count_einsum_copies(equation: str, sizes: Sequence[int], result_bytes: int) -> int:
    """Return the bytes of the copies in which an einsum transposes its operands, and its result.

    The product is a batched matrix product: operands in the order batch, free, contracted (or batch, contracted,
    free), the result in the order batch, free of the first, free of the second.
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    terms = operands.split(",")
    if not arrow or "." in equation or len(terms) != 2:
        return 0
    first, second = terms
    batch = "".join(label for label in first if label in second and label in result)
    contracted = "".join(label for label in first if label in second and label not in result)
    copies, free_of_both = 0, ""
    for term, size in zip(terms, sizes, strict=False):
        free = "".join(label for label in term if label in result and label not in batch)
        free_of_both += free
        if term not in (batch + free + contracted, batch + contracted + free):
            copies += size
    if result != batch + free_of_both:
        copies += result_bytes
    return copies
