"""The laws that multiply-accumulates follow, from two traced passes: the prefill of a prompt, and a step after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from profilerkit.trace.records import ModelTrace, OpRecord

from .records import Term

__all__ = ["Law", "find_laws", "find_root_call", "find_terms", "split_phases"]

#: A law with its rate and its window; None for work that follows none.
Law = tuple[str, int, int | None] | None

#: Multiply-accumulates of a layer's operator, by the layer's path and the operator.
Groups = Mapping[tuple[str, str], int]


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
    start: tuple[str, int], calls: Mapping[str, Sequence[object]], roots: dict[tuple[str, int], int]
) -> int:
    """Return the index of the model's own call that a layer's call was made in; -1 outside all of them.

    ``roots`` keeps what was found for calls on the way.
    """
    at: tuple[str, int] | None = start
    trail = []
    root = -1
    while at is not None:
        if at in roots:
            root = roots[at]
            break
        trail.append(at)
        path, index = at
        if path == "":
            root = index
            break
        at = getattr(calls[path][index], "caller", None) if 0 <= index < len(calls[path]) else None
    roots.update(dict.fromkeys(trail, root))
    return root


def _sum_macs(operators: Iterable[OpRecord]) -> Counter[tuple[str, str]]:
    groups: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        if operator.macs:
            groups[operator.layer, operator.operator] += operator.macs
    return groups


def find_laws(
    prefill: Iterable[OpRecord],
    decode: Iterable[OpRecord],
    *,
    batch: int,
    prompt: int,
    windows: Mapping[str, int | None],
) -> dict[tuple[str, str], Law]:
    """Return the law that the operators of each layer follow, by its path and the operator; see `find_terms`."""
    first, second = _sum_macs(prefill), _sum_macs(decode)
    return {
        key: _law(first[key], second[key], batch, prompt, _find_window(key[0], windows))
        for key in sorted({*first, *second})
    }


def find_terms(
    prefill: Iterable[OpRecord],
    decode: Iterable[OpRecord],
    *,
    batch: int,
    prompt: int,
    windows: Mapping[str, int | None],
) -> tuple[tuple[Term, ...], tuple[str, ...]]:
    """Return the terms of a model, equal ones added up, and the layers that follow no law, which are "split".

    The operators of a layer are compared between a prefill of ``prompt`` tokens and a step of one token after it, both
    of ``batch`` sequences. ``windows`` has the tokens that a layer attends to, by its path or one around it.
    """
    first, second = _sum_macs(prefill), _sum_macs(decode)
    sums: Counter[tuple[str, int | None]] = Counter()
    split: list[Term] = []
    strangers: list[str] = []
    for key in sorted({*first, *second}):
        layer = key[0]
        law = _law(first[key], second[key], batch, prompt, _find_window(layer, windows))
        if law is None:
            rate = Fraction(first[key], batch * prompt)
            split.append(Term("split", second[key] // batch, None, rate))
            strangers.append(layer)
        else:
            sums[law[0], law[2]] += law[1]
    terms = [Term(law, rate, window) for (law, window), rate in sorted(sums.items(), key=str)]
    return (*terms, *_merge_split(split)), tuple(dict.fromkeys(strangers))


def _merge_split(split: Sequence[Term]) -> Iterable[Term]:
    if split:
        yield Term("split", sum(t.rate for t in split), None, sum((t.prefill_rate for t in split), Fraction(0)))


def _law(first: int, second: int, batch: int, prompt: int, window: int | None) -> tuple[str, int, int | None] | None:
    """Return the law that both numbers follow exactly, with its rate and its window; None for none."""
    if second % batch:
        return None
    rate = second // batch
    if first == rate * batch * prompt:
        return "token", rate, None
    if first == second:
        return "last", rate, None
    keys = prompt + 1 if window is None else min(prompt + 1, window)
    if rate % keys == 0 and first == batch * prompt * prompt * (rate // keys):
        return "pair", rate // keys, window
    if rate % (prompt + 1) == 0 and first == batch * prompt * (rate // (prompt + 1)):
        return "key", rate // (prompt + 1), None
    return None


def _find_window(layer: str, windows: Mapping[str, int | None]) -> int | None:
    path = layer
    while path:
        if path in windows:
            return windows[path]
        path = path.rpartition(".")[0]
    return windows.get("")
