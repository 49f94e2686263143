"""Times by operator and by layer: what ran, joined with the operators of the file whose work each of them did.

LiteRT's own kernels tell which operator they are. XNNPACK makes operators of its own: it fuses some, and adds others
that move data. They come in the order of the file, where each stands for the next operator that it can be.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.numpy_data import as_tensor
from profilerkit.backend_kit.ran_nodes import RanGraph, RanNode, make_node

from ..model.reading import LiteRTModel
from ..trace.control_flow import HANDLERS
from ..trace.tracing import read_layers, walk_call
from ..trace.walk import Walk
from .profiled import RanOperator, profile_passes

__all__ = ["map_operators", "time_nodes"]

#: What XNNPACK calls the work of operators of LiteRT, where that is not the same name in capitals.
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

#: Those that multiply matrices: each must be one of the file, or it is not known which is which.
_PRODUCTS = ("Batch Matrix Multiply", "Convolution", "Deconvolution", "Dynamic Fully Connected", "Fully Connected")


class _Stretch(NamedTuple):
    """What XNNPACK ran in a row, and the operator behind it that LiteRT ran itself; None where there is none.

    ``end`` is the node of that operator in the file, or one that no file has.
    """

    delegated: list[RanOperator]
    native: RanOperator | None
    end: int


@dataclass
class _Match:
    """An operator that ran, with those of the file whose work it did; ``near`` is the node that it stands before."""

    ran: RanOperator
    near: int
    covered: list[Executed] = field(default_factory=list)

    def list_counted(self, uncounted: Container[Executed]) -> list[Executed]:
        """Return what it covers of the static trace."""
        return [op for op in self.covered if op not in uncounted]


def map_operators(model: LiteRTModel, ran: Iterable[RanOperator], inputs: ModelInputs, layers: Scopes) -> list[RanNode]:
    """Return what ran, in its order, with the operators of the static trace that each did the work of.

    Every operator of the static trace is in one of them. Raises `NotOfferedError` where LiteRT or XNNPACK ran other
    products than those of the file.
    """
    walk = Walk(model, [chain[-1].path for chain in layers.chains], HANDLERS)
    walk_call(walk, inputs.map(as_tensor))
    uncounted = _list_uncounted(model, walk.work.executed)
    waiting = deque(sorted([*walk.work.executed, *uncounted], key=lambda op: op.node))
    matches: list[_Match] = []
    for stretch in _split_by_native(ran):
        written = _take_before(waiting, stretch.end)
        if stretch.delegated:
            matches += _match_delegated(stretch.delegated, written)
            written = []
        _require_no_product(written)
        if stretch.native is not None:
            matches.append(_Match(stretch.native, stretch.end, [*written, *_take_before(waiting, stretch.end + 1)]))
        elif matches:
            matches[-1].covered.extend(written)
    return [
        make_node(str(index), match.ran.name, match.list_counted(uncounted), layers.chains, match.near)
        for index, match in enumerate(matches)
    ]


def _split_by_native(ran: Iterable[RanOperator]) -> Iterator[_Stretch]:
    """Yield what ran, split behind each operator that LiteRT ran itself; the last stretch has no such operator."""
    delegated: list[RanOperator] = []
    for operator in ran:
        if operator.node is None:
            delegated.append(operator)
        else:
            yield _Stretch(delegated, operator, operator.node)
            delegated = []
    yield _Stretch(delegated, None, sys.maxsize)


def _list_uncounted(model: LiteRTModel, counted: Iterable[Executed]) -> list[Executed]:
    """Return the operators of the file that the static trace lacks, as they are prepared once: they may run here."""
    nodes = {op.node for op in counted}
    operators = model.graphs[model.signature.graph].operators
    return [Executed(operator.name, node, (), ()) for node, operator in enumerate(operators) if node not in nodes]


def _take_before(waiting: deque[Executed], node: int) -> list[Executed]:
    """Take the operators that come before one of the file."""
    taken = []
    while waiting and waiting[0].node < node:
        taken.append(waiting.popleft())
    return taken


def _match_delegated(ran: Sequence[RanOperator], written: list[Executed]) -> list[_Match]:
    """Return what XNNPACK ran in a row, with the operators of the file, of which each is in one match.

    Between two that are told, arithmetic was fused into the operator before, and movements into the one behind.
    """
    matches: list[_Match] = []
    near = 0
    for operator in ran:
        near = written[0].node if written else near
        match = _Match(operator, near)
        position = _find_work(operator, written)
        for skipped in written[: position or 0]:
            (matches[-1] if matches and skipped.flops else match).covered.append(skipped)
        if position is not None:
            match.covered.append(written[position])
            written = written[position + 1 :]
        matches.append(match)
    _require_no_product(written)
    if written:
        next((match for match in reversed(matches) if match.covered), matches[-1]).covered.extend(written)
    return matches


def _require_no_product(skipped: Iterable[Executed]) -> None:
    """Raise `NotOfferedError` for a product that no operator that ran is: its time would be that of another one."""
    product = next((op.operator for op in skipped if op.macs), None)
    if product is not None:
        raise NotOfferedError(f"LiteRT ran the {product} of this model otherwise than the file says")


def _find_work(ran: RanOperator, written: Sequence[Executed]) -> int | None:
    """Return the position of the operator that one of XNNPACK's is; None for one that it has added to move data."""
    name = ran.name.partition(" (")[0]
    fitting = _KERNELS.get(name, name.upper().replace(" ", "_")).split()
    for position, op in enumerate(written):
        if op.operator in fitting:
            return position
        if op.macs:
            break
    if name in _PRODUCTS:
        raise NotOfferedError(f"XNNPACK ran a product ({ran.name}) of which it is not known where it is in the file")
    return None


def time_nodes(model: LiteRTModel, inputs: ModelInputs, passes: int) -> RanGraph:
    """Return what ran, with its seconds in each pass, and the seconds of each pass."""
    profiled = profile_passes(model, inputs, passes)
    if not any(operator.seconds for single in profiled for operator in single.operators):
        raise NotOfferedError("LiteRT counts whole microseconds, and no operator of this model takes one")
    if len({tuple(operator[:2] for operator in single.operators) for single in profiled}) > 1:
        raise NotOfferedError("LiteRT ran other operators in one pass than in another: none of them has a time")
    layers = read_layers(model)
    nodes = map_operators(model, profiled[0].operators, inputs, layers)
    seconds = zip(*([operator.seconds for operator in single.operators] for single in profiled), strict=True)
    timed = [replace(node, seconds=taken) for node, taken in zip(nodes, seconds, strict=True)]
    return RanGraph(timed, [single.seconds for single in profiled], layers)
