"""The shapes of a step's operators in an engine, by two traced passes: products, attention, and traffic besides.

An estimate by a calibration adds up their times. Products and attention are from the traced step, and follow laws of
tokens and pairs; traffic is from the prefill, without the tensors inside fused attention.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from profilerkit.devices.products import find_dtype
from profilerkit.trace.records import OpRecord

from ...prediction.kinds import find_family, find_sizes
from ...prediction.regions import find_regions
from .laws import Passes, find_laws
from .work import Law, Term


@dataclass(frozen=True, slots=True)
class ProductShape:
    """Products with weights that are alike."""

    #: The law of all new tokens, or of the last token of each sequence.
    law: Law
    #: Rows of the output for one token.
    rows: int
    columns: int
    #: Multiply-accumulates for each element of the output.
    depth: int
    dtype: str
    #: Whether they are of experts, whose rows are divided over the experts that are chosen.
    is_experts: bool = False


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Attention of layers that are alike, which an engine runs as one fused operator each."""

    #: The multiply-accumulates of one layer, which follow pairs of a query and a key.
    pairs: Term
    #: The size of a head's output.
    columns: int
    dtype: str


@dataclass(frozen=True, slots=True)
class TrafficShape:
    """Operators without products that are alike, after fusion."""

    #: The family of traffic: "normalization".
    family: str
    #: Bytes that one of them moves for each new token.
    token_bytes: float
    dtype: str


@dataclass(frozen=True)
class StepShapes:
    """The shapes of a step of an engine, each with its number: products with weights, attention, and traffic."""

    products: Mapping[ProductShape, int] = field(default_factory=dict)
    attention: Mapping[AttentionShape, int] = field(default_factory=dict)
    traffic: Mapping[TrafficShape, int] = field(default_factory=dict)


def find_shapes(passes: Passes) -> StepShapes | None:
    """Return the shapes of a step from two traced passes; None if work follows no law of tokens and pairs.

    Products are from the step; all attention of a layer is one operator. Traffic is from the prefill, fused like in
    `profilerkit_predict.prediction`: regions that write a square of the prompt are part of fused attention.
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
    traffic = _list_traffic(passes, [key for key, term in laws.items() if term.law is Law.PAIR])
    return StepShapes(products, attention, Counter(traffic))


def _shape_product(operator: OpRecord, law: Law, batch: int) -> ProductShape:
    """Return the shape of one product of the step, in which each sequence has one token."""
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


def _list_traffic(passes: Passes, of_pairs: Container[tuple[str, str]]) -> Iterator[TrafficShape]:
    """Yield the regions without products that have a value for each token; no part of attention, and no small regions.

    ``of_pairs`` are the layers and operators whose products are of pairs.
    """
    tokens = passes.batch * passes.prompt
    # The sizes of a step may be those of a window that is as long as the prompt: then they tell nothing.
    in_step = set() if passes.prompt in passes.windows.values() else set(map(_read_output, passes.decode))
    for region in find_regions(_leave_attention_out(passes.prefill, of_pairs), fused=True):
        head = region.head
        output = _read_output(head)
        is_small = math.prod(output.sizes) < tokens
        if head.macs or not region.moved_bytes or is_small or _is_square(output, passes.prompt, in_step):
            continue
        dtype = find_dtype(head)
        if dtype.startswith(("int", "uint", "bool")):  # calibrations have floats alone
            dtype = "float32"
        yield TrafficShape(find_family(head), region.moved_bytes / tokens, dtype)


def _leave_attention_out(operators: Sequence[OpRecord], of_pairs: Container[tuple[str, str]]) -> Iterator[OpRecord]:
    """Yield the operators without the work on scores: operators between the products of a layer over pairs."""
    products: dict[str, list[int]] = {}
    for index, operator in enumerate(operators):
        if operator.macs and (operator.layer, operator.operator) in of_pairs:
            products.setdefault(operator.layer, []).append(index)
    inside = {index for of_layer in products.values() for index in range(of_layer[0] + 1, of_layer[-1])}
    return (operator for index, operator in enumerate(operators) if index not in inside)


class _Output(NamedTuple):
    """The first output of an operator of a layer."""

    layer: str
    operator: str
    sizes: tuple[int, ...]


def _read_output(operator: OpRecord) -> _Output:
    return _Output(operator.layer, operator.operator, operator.outputs[0].shape if operator.outputs else ())


def _is_square(output: _Output, prompt: int, in_step: Set[_Output]) -> bool:
    """Return whether two dimensions are of the prompt's tokens: scores of attention, or a mask.

    Another dimension may have as many elements by chance. Then the output of the same operator in the step differs in
    one dimension alone, that of its one token; a square has one key more in the step.
    """
    sizes = output.sizes
    dimensions = [index for index, size in enumerate(sizes) if size == prompt]
    for index in dimensions:
        with_one_token = (*sizes[:index], 1, *sizes[index + 1 :])
        if output._replace(sizes=with_one_token) in in_step:
            return False
    return len(dimensions) > 1
