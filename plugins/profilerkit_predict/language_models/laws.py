"""What two traced passes show, a prefill and a step after it: the laws of their work, and the shapes of a step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from profilerkit.devices.products import find_dtype
from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import LayerCall, ModelTrace, OpRecord

from .formulas import count_attended_entries
from .model_cache import is_index
from .records import Law, Term

__all__ = [
    "AttentionShape",
    "Passes",
    "ProductShape",
    "StepShapes",
    "Terms",
    "TrafficShape",
    "find_laws",
    "find_root_call",
    "find_shapes",
    "find_terms",
    "split_phases",
]


def split_phases(trace: ModelTrace) -> tuple[tuple[int, ...], ...]:
    """Return for each call of the model the indices of the operators that ran in it, in order."""
    calls = {record.path: record.calls for record in trace.layers}
    roots: dict[tuple[str, int], int] = {}
    phases: list[list[int]] = [[] for _ in calls[""]]
    for index, operator in enumerate(trace.operators):
        root = find_root_call((operator.layer, operator.call), calls, roots)
        if 0 <= root < len(phases):
            phases[root].append(index)
    return tuple(map(tuple, phases))


def find_root_call(
    call: tuple[str, int], calls: Mapping[str, Sequence[LayerCall]], roots: dict[tuple[str, int], int]
) -> int:
    """Return the index of the model's own call that a layer's call was made in; -1 outside all of them.

    A call is the path of its layer and its index among the calls of that. ``roots`` keeps what was found before.
    """
    path, index = call
    if path == "":
        return index
    if call not in roots:
        caller = calls[path][index].caller if 0 <= index < len(calls[path]) else None
        roots[call] = -1 if caller is None else find_root_call(caller, calls, roots)
    return roots[call]


def _sum_macs(operators: Iterable[OpRecord]) -> Counter[tuple[str, str]]:
    groups: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        if operator.macs:
            groups[operator.layer, operator.operator] += operator.macs
    return groups


class Passes(NamedTuple):
    """The operators of a prefill and of a step of one token after it, and what their work may follow.

    Attributes:
        prefill: Those of the pass over the prompts.
        decode: Those of the step.
        batch: The sequences of both.
        prompt: The tokens of each prompt.
        windows: How many tokens a layer attends to, by its path or one around it; None for all.
        strides: For how many tokens entries stand that are for several, in the cache or as an indexer makes them.
        limits: How many entries a layer attends to at most, by its path or one around it, where an indexer chooses
            them.
        has_chunks: Whether windows are those of chunks; see `CacheLayer`.
    """

    prefill: Sequence[OpRecord]
    decode: Sequence[OpRecord]
    batch: int
    prompt: int
    windows: Mapping[str, int | None]
    strides: tuple[int, ...] = ()
    limits: Mapping[str, int | None] = MappingProxyType({})
    has_chunks: bool = False


def find_laws(passes: Passes) -> dict[tuple[str, str], tuple[Term, ...]]:
    """Return the terms that the operators of each layer add up to, by its path and the operator; none for no law.

    The operators of a layer are compared between both passes.
    """
    in_prefill, in_step = _sum_macs(passes.prefill), _sum_macs(passes.decode)
    keys = sorted({*in_prefill, *in_step})
    return {key: _find_law(in_prefill[key], in_step[key], key[0], passes) for key in keys}


class Terms(NamedTuple):
    """The terms of a model, and the layers whose work follows no law."""

    terms: tuple[Term, ...]
    strangers: tuple[str, ...]


def find_terms(passes: Passes) -> Terms:
    """Return the terms of a model, equal ones added up; what follows no law is one term of `Law.SPLIT` together."""
    sums: Counter[Term] = Counter()
    strangers: list[tuple[str, str]] = []
    for key, parts in find_laws(passes).items():
        for term in parts:
            sums[replace(term, rate=0)] += term.rate
        if not parts:
            strangers.append(key)
    terms = [replace(term, rate=rate) for term, rate in sorted(sums.items(), key=str)]
    if strangers:
        in_prefill, in_step = _sum_macs(passes.prefill), _sum_macs(passes.decode)
        rate = sum(in_step[key] for key in strangers) // passes.batch
        prefill_rate = Fraction(sum(in_prefill[key] for key in strangers), passes.batch * passes.prompt)
        terms.append(Term(Law.SPLIT, rate, prefill_rate=prefill_rate))
    return Terms(tuple(terms), tuple(dict.fromkeys(layer for layer, _ in strangers)))


def _find_law(prefill: int, step: int, layer: str, passes: Passes) -> tuple[Term, ...]:
    """Return the terms that the work of a layer's operator in both passes is exactly; none if no law has both.

    In the prefill a sequence has ``prompt`` new tokens; in the step one, after ``prompt`` in its cache. Attention over
    tokens is computed as written: in the prefill the whole square, in the step one query with the keys of its window.
    """
    batch, prompt = passes.batch, passes.prompt
    rate, rest = divmod(step, batch)
    if rest:
        return ()
    if prefill == batch * prompt * rate:
        return (Term(Law.TOKEN, rate),)
    if prefill == step:
        return (Term(Law.LAST, rate),)
    window = _find_around(layer, passes.windows)
    keys = _count_keys(prompt, window)
    if rate % keys == 0 and prefill == batch * prompt * prompt * (rate // keys):
        limit = _find_limit(layer, passes) if window is None else None
        is_chunked = passes.has_chunks and window is not None
        return (Term(Law.PAIR, rate // keys, window, most_attended=limit, is_chunked=is_chunked),)
    if rate % (prompt + 1) == 0 and prefill == batch * prompt * (rate // (prompt + 1)):
        return (Term(Law.KEY, rate // (prompt + 1)),)
    return _find_entries(prefill, rate, layer, passes)


def _find_entries(prefill: int, rate: int, layer: str, passes: Passes) -> tuple[Term, ...]:
    """Return the terms of attention to entries, alone as an indexer's or beside the keys of tokens; none for neither.

    ``rate`` is the work of a sequence in the step.
    """
    batch, prompt = passes.batch, passes.prompt
    window = _find_around(layer, passes.windows)
    for stride in passes.strides:
        entries = Term(Law.ENTRY, 0, stride=stride, most_attended=_find_limit(layer, passes))
        in_prompt, in_step = prompt // stride, (prompt + 1) // stride
        if not in_prompt:
            continue
        unit, rest = divmod(rate, in_step)
        if not rest and prefill == batch * count_attended_entries(prompt, 0, stride) * unit:
            return (replace(entries, rate=unit, is_causal=True),)
        if not rest and prefill == batch * prompt * in_prompt * unit:
            return (replace(entries, rate=unit),)
        unit, rest = divmod(rate, _count_keys(prompt, window) + in_step)
        if not rest and prefill == batch * prompt * (prompt + in_prompt) * unit:
            return (Term(Law.PAIR, unit, window), replace(entries, rate=unit))
    return ()


def _count_keys(prompt: int, window: int | None) -> int:
    """Return how many keys of tokens the step after a prompt sees, its own among them."""
    return prompt + 1 if window is None else min(prompt + 1, window)


def _find_limit(layer: str, passes: Passes) -> int | None:
    """Return how many entries a layer attends to at most; None for an indexer, which goes through all."""
    return None if is_index(layer) else _find_around(layer, passes.limits)


def _find_around(layer: str, values: Mapping[str, int | None]) -> int | None:
    """Return the value of a layer, or of the nearest one around it that has one; None for none."""
    return next((values[path] for path in walk_outwards(layer) if path in values), None)


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
        tuple(_list_traffic(passes, [key for key, term in laws.items() if term.law is Law.PAIR])),
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


def _list_traffic(passes: Passes, of_pairs: Container[tuple[str, str]]) -> Iterable[TrafficShape]:
    """Yield the regions without products that have a value for each token; no part of attention, and no small ones.

    ``of_pairs`` are the layers and operators whose products are of pairs.
    """
    from ..prediction.operators import find_family, find_regions

    counts: Counter[TrafficShape] = Counter()
    tokens, in_step = passes.batch * passes.prompt, _list_step_sizes(passes)
    for region in find_regions(_leave_attention_out(passes.prefill, of_pairs), fused=True):
        head = region.head
        sizes = _read_sizes(head)
        is_square = _is_square(sizes, passes.prompt, in_step.get((head.layer, head.operator), set()))
        is_small = math.prod(sizes) < tokens
        if head.macs or not region.moved_bytes or is_square or is_small:
            continue
        dtype = find_dtype(head)
        if dtype.startswith(("int", "uint", "bool")):  # calibrations have floats alone
            dtype = "float32"
        counts[TrafficShape(find_family(head), region.moved_bytes / tokens, dtype)] += 1
    yield from (replace(shape, count=count) for shape, count in counts.items())


def _leave_attention_out(operators: Sequence[OpRecord], of_pairs: Container[tuple[str, str]]) -> Iterator[OpRecord]:
    """Yield the operators but for those between the products of a layer over pairs: work on scores."""
    products: dict[str, list[int]] = {}
    for index, operator in enumerate(operators):
        if operator.macs and (operator.layer, operator.operator) in of_pairs:
            products.setdefault(operator.layer, []).append(index)
    inside = {index for of_layer in products.values() for index in range(of_layer[0] + 1, of_layer[-1])}
    return (operator for index, operator in enumerate(operators) if index not in inside)


def _read_sizes(operator: OpRecord) -> tuple[int, ...]:
    return operator.outputs[0].shape if operator.outputs else ()


def _list_step_sizes(passes: Passes) -> dict[tuple[str, str], set[tuple[int, ...]]]:
    """Return the sizes of what the operators of each layer make in the step; none if they may be those of a window."""
    sizes: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    if passes.prompt not in passes.windows.values():
        for operator in passes.decode:
            sizes.setdefault((operator.layer, operator.operator), set()).add(_read_sizes(operator))
    return sizes


def _is_square(sizes: tuple[int, ...], prompt: int, in_step: Set[tuple[int, ...]]) -> bool:
    """Return whether two dimensions are tokens of the prompt, and not one that happens to have as many elements.

    The step has one token, and in a square, which also has one key more, both dimensions are others than the prompt's.
    """
    tokens = [dim for dim, size in enumerate(sizes) if size == prompt]
    with_one_token = {(*sizes[:dim], 1, *sizes[dim + 1 :]) for dim in tokens}
    return len(tokens) > 1 and with_one_token.isdisjoint(in_step)
