"""Times by operator and by layer: the operators that ran, joined with the operators of the file whose work they did.

LiteRT's own kernels name their operators. XNNPACK makes its own operators: it fuses operators, and adds operators that
move data. They run in the order of the file: each is matched with the next operator that it can be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.ran_nodes import RanGraph, RanNode, make_node

from ..model.reading import LiteRTModel
from ..trace.control_flow import HANDLERS
from ..trace.tracing import read_layers, walk_call
from ..trace.walk import Walk
from .profiled import RanOperator, profile_passes

__all__ = ["map_operators", "time_nodes"]

#: LiteRT's operators by XNNPACK's name of their work, if that is not the same name in capitals.
_KERNELS = {
    "ApproxGELU": "GELU",
    "ArgMax Pooling": "ARG_MAX",
    "Average Pooling": "AVERAGE_POOL_2D",
    "Bankders Rounding": "ROUND",
    "Batch Matrix Multiply": "BATCH_MATMUL",
    "Ceiling": "CEIL",
    "Clamp": "RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1",
    "Constant Pad": "PAD PADV2",
    "Convert": "CAST DEQUANTIZE QUANTIZE",
    "Convolution": "CONV_2D DEPTHWISE_CONV_2D",
    "Copy": "CONCATENATION RESHAPE SLICE SPLIT",
    "Cosine": "COS",
    "Deconvolution": "TRANSPOSE_CONV",
    "Divide": "DIV",
    "Dynamic Fully Connected": "BATCH_MATMUL FULLY_CONNECTED",
    "Fully Connected": "CONV_2D FULLY_CONNECTED",
    "HardSwish": "HARD_SWISH",
    "LeakyReLU": "LEAKY_RELU",
    "Max Pooling": "MAX_POOL_2D",
    "Multiply": "MUL",
    "Negate": "NEG",
    "Power": "POW",
    "Reciprocal Square Root": "RSQRT",
    "Sigmoid": "LOGISTIC",
    "Sine": "SIN",
    "Slice": "SLICE SPLIT STRIDED_SLICE",
    "Square Root": "SQRT",
    "Static Expand Dims": "EXPAND_DIMS",
    "Static Reshape": "EXPAND_DIMS RESHAPE SQUEEZE",
    "Subtract": "SUB",
}

#: XNNPACK's products of matrices: each must match a product in the file, or the matches would be guesses.
_PRODUCTS = ("Batch Matrix Multiply", "Convolution", "Deconvolution", "Dynamic Fully Connected", "Fully Connected")


@dataclass
class _Match:
    """An operator that ran, with the operators of the file whose work it did; ``near`` is the node after it."""

    ran: RanOperator
    near: int
    covered: list[Executed] = field(default_factory=list)


def map_operators(model: LiteRTModel, ran: Iterable[RanOperator], inputs: ModelInputs, layers: Scopes) -> list[RanNode]:
    """Return the operators that ran, in order, each with the operators of the static trace whose work it did.

    Every operator of the static trace is in one of them. Raises `NotOfferedError` if LiteRT or XNNPACK ran products
    that the file does not have.
    """
    walk = Walk(model, layers.paths, HANDLERS)
    walk_call(walk, inputs)
    traced = walk.work.operators
    traced_nodes = {op.node for op in traced}
    # The static trace lacks operators that LiteRT prepares once. They may have run: they are matched, but not returned.
    operators = enumerate(model.graphs[model.signature.graph].operators)
    prepared = [Executed(operator.name, node, (), ()) for node, operator in operators if node not in traced_nodes]
    nodes = []
    for index, match in enumerate(_match_all(ran, sorted([*traced, *prepared], key=lambda op: op.node))):
        covered = [op for op in match.covered if op.node in traced_nodes]
        nodes.append(make_node(str(index), match.ran.name, covered, walk.paths, match.near))
    return nodes


def _match_all(ran: Iterable[RanOperator], written: Sequence[Executed]) -> list[_Match]:
    """Return the operators that ran, with the operators of the file, ``written``, in order; each is in one match.

    An operator that LiteRT ran itself does the work of its node. The operators that XNNPACK ran before it do the work
    of the nodes before it. If there are none, these nodes were fused into it.
    """
    nodes = [op.node for op in written]
    matches: list[_Match] = []
    delegated: list[RanOperator] = []
    start = 0
    for operator in ran:
        if operator.node is None:
            delegated.append(operator)
            continue
        first, end = bisect_left(nodes, operator.node, start), bisect_right(nodes, operator.node, start)
        if delegated:
            matches += _match_delegated(delegated, written[start:first])
            start = first
        _require_no_product(written[start:first])
        matches.append(_Match(operator, operator.node, list(written[start:end])))
        delegated, start = [], end
    if delegated:
        return [*matches, *_match_delegated(delegated, written[start:])]
    _require_no_product(written[start:])
    if matches:
        matches[-1].covered += written[start:]
    return matches


def _match_delegated(ran: Sequence[RanOperator], written: Sequence[Executed]) -> list[_Match]:
    """Match the operators that XNNPACK ran in a row with the operators of the file; each of these is in one match.

    An operator of the file without an own match was fused: arithmetic, such as an activation, into the operator that
    ran before it, and a movement of data into the operator that ran after it.
    """
    matches: list[_Match] = []
    start = near = 0
    for operator in ran:
        near = written[start].node if start < len(written) else near
        match = _Match(operator, near)
        position = _find_work(operator, written, start)
        if position is not None:
            before = matches[-1] if matches else match
            for skipped in written[start:position]:
                fused_into = before if skipped.flops else match
                fused_into.covered.append(skipped)
            match.covered.append(written[position])
            start = position + 1
        matches.append(match)
    _require_no_product(written[start:])
    last_with_work = next((match for match in reversed(matches) if match.covered), matches[-1])
    last_with_work.covered += written[start:]
    return matches


def _require_no_product(skipped: Iterable[Executed]) -> None:
    """Raise `NotOfferedError` for a product without a matching operator: its time would be in another operator's."""
    product = next((op.operator for op in skipped if op.macs), None)
    if product is not None:
        raise NotOfferedError(f"LiteRT ran the {product} of this model otherwise than the file says")


def _find_work(ran: RanOperator, written: Sequence[Executed], start: int) -> int | None:
    """Return the position from ``start`` on of the operator whose work XNNPACK did; None for one that it has added."""
    name = ran.name.partition(" (")[0]
    fitting = _KERNELS.get(name, name.upper().replace(" ", "_")).split()
    for position in range(start, len(written)):
        if written[position].operator in fitting:
            return position
        if written[position].macs:  # no product is skipped: the work is before it
            break
    if name in _PRODUCTS:
        raise NotOfferedError(f"XNNPACK ran a product ({ran.name}) of which it is not known where it is in the file")
    return None


def time_nodes(model: LiteRTModel, inputs: ModelInputs, passes: int) -> RanGraph:
    """Return the operators that ran, with their seconds in each pass, and the seconds of each pass."""
    profiled = profile_passes(model, inputs, passes)
    if not any(operator.seconds for one_pass in profiled for operator in one_pass.operators):
        raise NotOfferedError("LiteRT counts whole microseconds, and no operator of this model takes one")
    sequences = {tuple((operator.name, operator.node) for operator in one_pass.operators) for one_pass in profiled}
    if len(sequences) > 1:
        raise NotOfferedError("LiteRT ran other operators in one pass than in another: none of them has a time")
    layers = read_layers(model)
    nodes = map_operators(model, profiled[0].operators, inputs, layers)
    timed = [
        replace(node, seconds=tuple(one_pass.operators[index].seconds for one_pass in profiled))
        for index, node in enumerate(nodes)
    ]
    return RanGraph(timed, [one_pass.seconds for one_pass in profiled], layers)
