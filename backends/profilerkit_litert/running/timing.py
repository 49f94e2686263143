"""Times by operator and by layer: the operators that ran, joined with the operators of the file whose work they did.

LiteRT's own kernels name their operators. XNNPACK makes its own operators: it fuses operators, and adds operators that
move data. They run in the order of the file: each is matched with the next operator that it can be.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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


class _Stretch(NamedTuple):
    """The operators that XNNPACK ran in a row, up to an operator that LiteRT ran itself, or to the end of the pass.

    Attributes:
        delegated: The operators that XNNPACK ran; empty if LiteRT ran two operators in a row.
        native: The operator that LiteRT ran itself; None at the end of the pass.
        end: The node of ``native`` in the file; a number above all nodes at the end of the pass.
    """

    delegated: list[RanOperator]
    native: RanOperator | None
    end: int


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


def _match_all(ran: Iterable[RanOperator], written: Iterable[Executed]) -> list[_Match]:
    """Return the operators that ran, with the operators of the file, ``written``, in order; each is in one match."""
    waiting = deque(written)
    matches: list[_Match] = []
    for stretch in _split_by_native(ran):
        between = _take_before(waiting, stretch.end)
        if stretch.delegated:
            matches += _match_delegated(stretch.delegated, between)
            between = []
        _require_no_product(between)  # nothing ran for these: they were fused into a neighboring operator
        if stretch.native is not None:
            native_work = _take_before(waiting, stretch.end + 1)
            matches.append(_Match(stretch.native, stretch.end, [*between, *native_work]))
        elif matches:
            matches[-1].covered += between
    return matches


def _split_by_native(ran: Iterable[RanOperator]) -> Iterator[_Stretch]:
    """Yield the operators that ran, split behind each operator that LiteRT ran itself."""
    delegated: list[RanOperator] = []
    for operator in ran:
        if operator.node is None:
            delegated.append(operator)
        else:
            yield _Stretch(delegated, operator, operator.node)
            delegated = []
    yield _Stretch(delegated, None, sys.maxsize)


def _take_before(waiting: deque[Executed], node: int) -> list[Executed]:
    """Take the operators that come before a node of the file."""
    taken = []
    while waiting and waiting[0].node < node:
        taken.append(waiting.popleft())
    return taken


def _match_delegated(ran: Sequence[RanOperator], written: Sequence[Executed]) -> list[_Match]:
    """Match the operators that XNNPACK ran in a row with the operators of the file; each of these is in one match.

    An operator of the file without an own match was fused: arithmetic, such as an activation, into the operator that
    ran before it, and a movement of data into the operator that ran after it.
    """
    matches: list[_Match] = []
    near = 0
    for operator in ran:
        near = written[0].node if written else near
        match = _Match(operator, near)
        position = _find_work(operator, written)
        if position is not None:
            before = matches[-1] if matches else match
            for skipped in written[:position]:
                fused_into = before if skipped.flops else match
                fused_into.covered.append(skipped)
            match.covered.append(written[position])
            written = written[position + 1 :]
        matches.append(match)
    _require_no_product(written)
    last_with_work = next((match for match in reversed(matches) if match.covered), matches[-1])
    last_with_work.covered += written
    return matches


def _require_no_product(skipped: Iterable[Executed]) -> None:
    """Raise `NotOfferedError` for a product without a matching operator: its time would be in another operator's."""
    product = next((op.operator for op in skipped if op.macs), None)
    if product is not None:
        raise NotOfferedError(f"LiteRT ran the {product} of this model otherwise than the file says")


def _find_work(ran: RanOperator, written: Sequence[Executed]) -> int | None:
    """Return the position of the operator whose work XNNPACK did; None for an operator that XNNPACK has added."""
    name = ran.name.partition(" (")[0]
    fitting = _KERNELS.get(name, name.upper().replace(" ", "_")).split()
    for position, op in enumerate(written):
        if op.operator in fitting:
            return position
        if op.macs:  # no product is skipped: the work is before it
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
