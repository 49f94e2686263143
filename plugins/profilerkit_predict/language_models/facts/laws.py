"""The laws that the work of a model follows, by two traced passes: a prefill, and a step of one token after it.

Each layer's operators are compared between both: their work grows with each token, the last one, each pair of a query
and a key, and so on (`Law`). A backend asks with `Passes`; of the terms follows the work of a step of any length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import LayerCall, ModelTrace, OpRecord

from .model_cache import is_index
from .work import Law, Term, count_attended_entries


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
    """Return the index of the call of the model that a layer's call was made in; -1 outside all of them.

    A call is the path of its layer and its index among the layer's calls. ``roots`` keeps the results found before.
    """
    path, index = call
    if path == "":
        return index
    if call not in roots:
        caller = calls[path][index].caller if 0 <= index < len(calls[path]) else None
        roots[call] = -1 if caller is None else find_root_call(caller, calls, roots)
    return roots[call]


class Passes(NamedTuple):
    """The operators of a prefill and of a step of one token after it, and the laws that their work may follow."""

    #: The operators of the pass over the prompts.
    prefill: Sequence[OpRecord]
    #: The operators of the step.
    decode: Sequence[OpRecord]
    batch: int
    prompt: int
    #: How many tokens a layer attends to, by its path or one around it; None for all.
    windows: Mapping[str, int | None]
    #: For how many tokens entries stand that are for several, in the cache or as an indexer makes them.
    strides: tuple[int, ...] = ()
    #: How many entries a layer attends to at most, by its path or a path around it, if an indexer chooses them.
    limits: Mapping[str, int | None] = MappingProxyType({})
    #: Whether windows are chunks; see `CacheLayer`.
    has_chunks: bool = False


class Terms(NamedTuple):
    """The terms of a model, and the layers whose work follows no law."""

    terms: tuple[Term, ...]
    strangers: tuple[str, ...]


def find_laws(passes: Passes) -> dict[tuple[str, str], tuple[Term, ...]]:
    """Return the terms that the operators of each layer add up to, by its path and the operator; none for no law."""
    in_prefill, in_step = _sum_macs(passes.prefill), _sum_macs(passes.decode)
    keys = sorted({*in_prefill, *in_step})
    return {key: _find_law(in_prefill[key], in_step[key], key[0], passes) for key in keys}


def find_terms(passes: Passes) -> Terms:
    """Return the terms of a model, equal terms summed; all work that follows no law is one term of `Law.SPLIT`."""
    sums: Counter[Term] = Counter()
    strangers: list[tuple[str, str]] = []
    for key, terms in find_laws(passes).items():
        for term in terms:
            sums[replace(term, rate=0)] += term.rate
        if not terms:
            strangers.append(key)
    all_terms = [replace(term, rate=rate) for term, rate in sorted(sums.items(), key=str)]
    if strangers:
        in_prefill, in_step = _sum_macs(passes.prefill), _sum_macs(passes.decode)
        rate = sum(in_step[key] for key in strangers) // passes.batch
        prefill_rate = Fraction(sum(in_prefill[key] for key in strangers), passes.batch * passes.prompt)
        all_terms.append(Term(Law.SPLIT, rate, prefill_rate=prefill_rate))
    return Terms(tuple(all_terms), tuple(dict.fromkeys(layer for layer, _ in strangers)))


def _sum_macs(operators: Iterable[OpRecord]) -> Counter[tuple[str, str]]:
    """Return the multiply-accumulates by layer and operator."""
    groups: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        if operator.macs:
            groups[operator.layer, operator.operator] += operator.macs
    return groups


def _find_law(prefill: int, step: int, layer: str, passes: Passes) -> tuple[Term, ...]:
    """Return the terms that the work of a layer's operator in both passes is exactly; none if no law has both."""
    for terms, in_prefill, in_step in _list_candidates(layer, passes):
        rate, rest = divmod(step, passes.batch * in_step)
        if not rest and prefill == passes.batch * in_prefill * rate:
            return tuple(replace(term, rate=rate) for term in terms)
    return ()


class _Candidate(NamedTuple):
    """Terms that the work of an operator may follow, all with one rate, which is not known yet.

    The work of a sequence is the rate times a number of units: ``in_prefill`` in the prefill, ``in_step`` in the step.
    """

    terms: tuple[Term, ...]
    in_prefill: int
    in_step: int


def _list_candidates(layer: str, passes: Passes) -> Iterator[_Candidate]:
    """Yield the laws that the work of a layer may follow, in the order in which they are tried.

    In the prefill a sequence has ``prompt`` new tokens; in the step one, after ``prompt`` in its cache. Attention over
    tokens is computed as written: in the prefill the whole square, in the step one query with the keys of its window.
    Attention to entries is alone, as an indexer's, or beside the keys of tokens.
    """
    prompt, window = passes.prompt, _find_around(layer, passes.windows)
    limit = None if is_index(layer) else _find_around(layer, passes.limits)  # an indexer goes through all entries
    keys = prompt + 1 if window is None else min(prompt + 1, window)  # with the key of the step's own token
    pairs = Term(Law.PAIR, 0, window)
    attended = replace(pairs, most_attended=limit) if window is None else replace(pairs, is_chunked=passes.has_chunks)
    yield _Candidate((Term(Law.TOKEN, 0),), in_prefill=prompt, in_step=1)
    yield _Candidate((Term(Law.LAST, 0),), in_prefill=1, in_step=1)
    yield _Candidate((attended,), in_prefill=prompt * prompt, in_step=keys)
    yield _Candidate((Term(Law.KEY, 0),), in_prefill=prompt, in_step=prompt + 1)
    for stride in passes.strides:
        entries = Term(Law.ENTRY, 0, stride=stride, most_attended=limit)
        causal = replace(entries, is_causal=True)
        in_prompt, in_step = prompt // stride, (prompt + 1) // stride
        if in_prompt:
            yield _Candidate((causal,), count_attended_entries(prompt, 0, stride), in_step)
            yield _Candidate((entries,), prompt * in_prompt, in_step)
            yield _Candidate((pairs, entries), prompt * (prompt + in_prompt), keys + in_step)


def _find_around(layer: str, values: Mapping[str, int | None]) -> int | None:
    """Return the value of a layer, or of the nearest one around it that has one; None for none."""
    return next((values[path] for path in walk_outwards(layer) if path in values), None)
