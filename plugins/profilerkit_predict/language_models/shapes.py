"""The shapes of a step's products and the traffic of its other operators, from which calibrated tables tell a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from profilerkit.devices.products import find_dtype

from .laws import Passes, find_laws
from .records import Law, Term

if TYPE_CHECKING:
    from profilerkit.trace.records import OpRecord

__all__ = ["AttentionShape", "ProductShape", "StepShapes", "TrafficShape", "find_shapes"]


@dataclass(frozen=True, slots=True)
class ProductShape:
    """Products with weights that are alike.

    Attributes:
        law: That of all new tokens, or of the last one of each sequence.
        rows: Rows of the output for one token.
        columns: Columns of the output.
        depth: Multiply-accumulates for each element of the output.
        dtype: The name of their dtype.
        count: How many there are.
        is_experts: Whether they are of experts, whose rows are divided over the experts that are chosen.
    """

    law: Law
    rows: int
    columns: int
    depth: int
    dtype: str
    count: int = 1
    is_experts: bool = False


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Attention of layers that are alike, which an engine runs as one fused operator each.

    Attributes:
        pairs: The multiply-accumulates of one layer, which follow pairs of a query and a key.
        columns: The size of a head's output.
        dtype: The name of their dtype.
        count: In how many layers.
    """

    pairs: Term
    columns: int
    dtype: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class TrafficShape:
    """Operators without products that are alike, after fusion.

    Attributes:
        family: The family of traffic: "normalization".
        token_bytes: Bytes that one of them moves for each new token.
        dtype: The name of their dtype.
        count: How many there are.
    """

    family: str
    token_bytes: float
    dtype: str
    count: int = 1


@dataclass(frozen=True)
class StepShapes:
    """What a step of an engine runs: products with weights, attention, and traffic besides."""

    products: tuple[ProductShape, ...] = ()
    attention: tuple[AttentionShape, ...] = ()
    traffic: tuple[TrafficShape, ...] = ()


def find_shapes(passes: Passes) -> StepShapes | None:
    """Return the shapes of a step from two traced passes; None where work follows no law of tokens and pairs.

    Products are those of the step; all attention of a layer is one operator. Traffic is that of the prefill, fused as
    `profilerkit_predict.prediction` has it: regions that write a square of the prompt are part of fused attention.
    """
    laws: dict[tuple[str, str], Term] = {}
    for key, terms in find_laws(passes).items():
        if len(terms) != 1 or terms[0].law not in (Law.TOKEN, Law.LAST, Law.PAIR) or terms[0].most_attended:
            return None
        laws[key] = terms[0]
    batch = passes.batch
    products: Counter[ProductShape] = Counter()
    pairs: dict[str, list[OpRecord]] = {}
    for operator in passes.decode:
        term = laws.get((operator.layer, operator.operator))
        if not operator.macs or term is None:
            continue
        if term.law is Law.PAIR:
            pairs.setdefault(operator.layer, []).append(operator)
        else:
            products[_shape_product(operator, term.law, batch)] += 1
    attention = Counter(_shape_attention(layer, operators, laws) for layer, operators in pairs.items())
    return StepShapes(
        tuple(replace(product, count=count) for product, count in products.items()),
        tuple(replace(one_layer, count=count) for one_layer, count in attention.items()),
        tuple(_list_traffic(passes.prefill, batch, passes.prompt)),
    )


def _shape_product(operator: OpRecord, law: Law, batch: int) -> ProductShape:
    """Return the shape of one product of the step, in which each sequence has one token."""
    from ..prediction.operators import find_sizes

    times, rows, columns, depth = find_sizes(operator)
    is_experts = "grouped" in operator.operator
    rows_of_a_token = max(1, times * rows // batch)
    return ProductShape(law, rows_of_a_token, columns, depth, find_dtype(operator), is_experts=is_experts)


def _shape_attention(layer: str, operators: Sequence[OpRecord], laws: Mapping[tuple[str, str], Term]) -> AttentionShape:
    """Return the shape of the attention of a layer: all of its products over pairs, the last of which makes values."""
    pairs = [term for key, term in laws.items() if key[0] == layer and term.law is Law.PAIR]
    last = operators[-1]
    columns = last.outputs[0].shape[-1] if last.outputs else 1
    all_pairs = replace(pairs[0], rate=sum(term.rate for term in pairs))
    return AttentionShape(all_pairs, max(1, columns), find_dtype(last))


def _list_traffic(prefill: Iterable[OpRecord], batch: int, prompt: int) -> Iterable[TrafficShape]:
    """Yield the regions without products that have a value for each token; no part of attention, and no small ones."""
    from ..prediction.operators import find_family, find_regions

    counts: Counter[TrafficShape] = Counter()
    for region in find_regions(prefill, fused=True):
        head = region.head
        sizes = head.outputs[0].shape if head.outputs else ()
        is_square = sizes.count(prompt) > 1
        is_small = math.prod(sizes) < batch * prompt
        if head.macs or not region.moved_bytes or is_square or is_small:
            continue
        dtype = find_dtype(head)
        if dtype.startswith(("int", "uint", "bool")):  # calibrations have floats alone
            dtype = "float32"
        counts[TrafficShape(find_family(head), region.moved_bytes / (batch * prompt), dtype)] += 1
    yield from (replace(shape, count=count) for shape, count in counts.items())
