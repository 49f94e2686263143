"""Operators that take functions: conditions, loops, scans, flex attention, and wrappers of other operators.

What their functions do is recorded as if the model had done it itself. Where a condition's value is not known, as on
shapes alone, the dearer branch is counted, which makes the counts upper bounds, and of a loop one round, which makes
them lower bounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.backend_kit.branch_memory import Window, peak_ends
from profilerkit.costs import Cost, Shape
from profilerkit.trace.bounds import Branch, Choice

from ..compat import (
    HigherOrderOperator,
    disable_dispatch_modes,
    dispatch_modes,
    find_scan,
    python_kernel,
    triton_kernel,
)
from ..costs import attention
from ..untouched.temporary_settings import disable_compiling

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["call_directly", "is_control_flow", "run_higher_order"]

Handler = Callable[["Recorder", HigherOrderOperator, Any, Any], Any]


@contextmanager
def call_directly() -> Iterator[None]:
    """Have conditions, loops and flex attention call their functions without compiling them first."""
    with disable_compiling(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"flex_attention called without torch\.compile")
        yield


def run_higher_order(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator that takes functions, and have the recorder record what they do."""
    return _HANDLERS.get(func.name(), _by_its_kernel)(recorder, func, args, kwargs)


def is_control_flow(func: Any) -> bool:
    """Return whether an operator is a condition, a loop or a scan, which a model could spell without it.

    Where gradients are wanted it is run so: weights that its functions find in the model are no operands of theirs, and
    the operator would give them no gradients.
    """
    return isinstance(func, HigherOrderOperator) and func.name() in _CONTROL


def _record_into(recorder: Recorder) -> AbstractContextManager[Any]:
    """Have the recorder record, where it does not already."""
    active = any(mode is recorder for mode in dispatch_modes())
    return nullcontext() if active else recorder


def _by_its_kernel(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    kernel = python_kernel(func)
    if kernel is None:
        return recorder.opaque(func, args, kwargs)
    with _record_into(recorder):
        return kernel(*args, **kwargs)


def _make_caller(arguments: Callable[..., tuple[Any, ...]]) -> Handler:
    """Return a handler that calls the first argument, with what the others hold for it."""

    def handler(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
        function, *others = args
        with _record_into(recorder):
            return function(*arguments(*others), **kwargs)

    return handler


def _scan(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    combine, init, xs, *further = args
    *position, more = further or [()]  # torch 2.6 names the dimension and the direction before what else it hands on
    steps_to_drop = _steps_for_shapes()

    def step(*values: Any) -> Any:
        nonlocal steps_to_drop
        if not steps_to_drop:
            return combine(*values)
        steps_to_drop -= 1
        with _apart(recorder):
            return combine(*values)

    with _record_into(recorder):
        return find_scan()(step, init, xs, *position, additional_inputs=more)


@cache
def _steps_for_shapes() -> int:
    """Return how many steps torch's scan takes beforehand, for the shapes of the outputs: 1 in torch 2.10."""
    steps = 0

    def step(carry: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        nonlocal steps
        steps += 1
        return [carry, x]

    with disable_dispatch_modes():
        row = torch.zeros(1, device="meta")
        find_scan()(step, [row], [torch.zeros(1, 1, device="meta")])
    return steps - 1


def _condition(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    predicate, if_true, if_false, operands = args
    holds = _value(recorder, predicate)
    if holds is not None:
        with _record_into(recorder):
            return (if_true if holds else if_false)(*operands)
    branches = []
    for branch in (if_true, if_false):
        with _apart(recorder) as excerpt, _record_into(recorder):
            result = branch(*operands)
        branches.append((excerpt, result))
    counted = max(range(2), key=lambda index: (branches[index][0].flops, branches[index][0].macs))
    excerpt, result = branches[counted]
    other = branches[1 - counted][0]
    start, base = len(recorder.operators), branches[0][0].base
    excerpt.keep(base)
    recorder.uncounted.update(other.missed - excerpt.missed)
    sides = tuple(branch.work() for branch, _ in branches)
    low = min(branch.peaks[0] for branch, _ in branches)
    high = max(branch.peaks[1] for branch, _ in branches)
    recorder.windows.append(Window(start, len(recorder.operators), base + low, base + high, _DEARER))
    if sides[0] != sides[1] or (recorder.DECIDED_BY_BRANCHES and low != high):
        recorder.choices.append(Choice(sides, counted, _DEARER, recorder.DECIDED_BY_BRANCHES))
    return result


_DEARER = "a condition depends on values that shapes do not tell: the dearer of its two branches is counted"


def _loop(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    condition, body, carried, *further = args
    additional = tuple(further[0]) if further else ()
    carried = tuple(carried)
    with _record_into(recorder):
        while True:
            holds = _value(recorder, condition(*carried, *additional))
            if holds is False:
                return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in carried)
            if holds is None:
                break
            carried = tuple(body(*carried, *additional))
    with _apart(recorder) as round_, _record_into(recorder):
        results = tuple(body(*carried, *additional))
    _keep_perhaps(recorder, round_)
    carried = results
    recorder.miss(f"higher_order::{func.name()}")
    _note(recorder, "how often a loop goes round depends on values that shapes do not tell: one round is counted")
    return carried


def _keep_perhaps(recorder: Recorder, excerpt: _Excerpt) -> None:
    """Add what was taken apart to the record again, as something that may not run."""
    start, base, high = len(recorder.operators), excerpt.base, excerpt.peaks[1]
    excerpt.keep(base)
    recorder.windows.append(Window(start, len(recorder.operators), base, base + high, _MAYBE))
    if excerpt.work().work:
        recorder.choices.append(Choice((excerpt.work(), Branch({})), 0, _MAYBE, recorder.DECIDED_BY_BRANCHES))


_MAYBE = "a loop whose number of rounds shapes do not tell may not run at all: one round is counted"


def _value(recorder: Recorder, predicate: Any) -> bool | None:
    """Return whether a predicate holds, or None where its value is unknown."""
    if isinstance(predicate, torch.Tensor):
        if recorder.on_meta:
            predicate = recorder.values.of(predicate)
        predicate = getattr(predicate, "constant", predicate)  # what a fake tensor knows
        if predicate is None or predicate.is_meta or hasattr(predicate, "fake_mode"):
            return None
        with disable_dispatch_modes():
            return bool(predicate.item())
    return bool(predicate)


def _flex_attention(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Count the dense product, whatever the blocks of the mask, and what the modification does to each score."""
    query, key, value, modify = args[:4]
    result = recorder.run_whole(func, args, kwargs)
    shapes = [Shape(tensor.shape) for tensor in (query, key, value)]
    cost = attention.dot_product_attention(*shapes, out=Shape(result[0].shape))
    buffers = args[7] if len(args) > 7 else kwargs.get("score_mod_other_buffers", ())
    with _apart(recorder) as modification, _record_into(recorder):
        index = [torch.zeros((), dtype=torch.int32, device=query.device) for _ in range(4)]
        modify(query.new_zeros(()), *index, *buffers)
    scores = Shape(result[0].shape[:-1]).numel * key.shape[-2]
    recorder.record(str(func), Cost(cost.macs, cost.flops + scores * modification.flops), args[:3], result)
    return result


def _triton(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    kernel = triton_kernel(kwargs["kernel_idx"])
    name = getattr(getattr(kernel, "fn", kernel), "__name__", "kernel")
    return recorder.opaque(func, args, kwargs, f"triton::{name}")


class _Excerpt:
    """What was recorded since a point in time: taken off the record, and kept or dropped."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._start = len(recorder.operators)
        self._uncounted = recorder.uncounted.copy()
        self._choices, self._windows = len(recorder.choices), len(recorder.windows)
        self._all_macs = recorder.operator_macs
        #: The bytes alive at the beginning.
        self.base = recorder.live.total
        self.flops = self.macs = 0

    def take(self) -> None:
        """Take what was recorded since then off the record."""
        recorder, start = self._recorder, self._start
        self._operators, self._bytes = recorder.operators[start:], recorder.live_bytes[start:]
        del recorder.operators[start:], recorder.live_bytes[start:]
        self.missed = recorder.uncounted - self._uncounted
        recorder.uncounted.clear()
        recorder.uncounted.update(self._uncounted)
        self.choices = recorder.choices[self._choices :]
        del recorder.choices[self._choices :]
        self._inside = recorder.windows[self._windows :]
        del recorder.windows[self._windows :]
        recorder.operator_macs, self._all_macs = self._all_macs, recorder.operator_macs - self._all_macs
        self.flops = sum(record.flops for record in self._operators)
        self.macs = sum(record.macs for record in self._operators)

    def keep(self, base: int) -> None:
        """Add what was taken away to the record again, as if ``base`` bytes had been alive at its beginning."""
        self._recorder.operators += self._operators
        self._recorder.live_bytes += [alive - self.base + base for alive in self._bytes]
        self._recorder.uncounted.update(self.missed)
        self._recorder.operator_macs += self._all_macs

    @property
    def peaks(self) -> tuple[int, int]:
        """The least and the most bytes that may be alive at once, above those at the beginning."""
        windows = [window.shift(-self._start) for window in self._inside]
        low, high = peak_ends(self._bytes, self.base, windows)
        return low - self.base, high - self.base

    def work(self) -> Branch:
        """Return what was taken as one side of a choice, with the choices inside it."""
        return Branch.of(((record.layer, record.macs, record.flops) for record in self._operators), self.choices)


@contextmanager
def _apart(recorder: Recorder) -> Iterator[_Excerpt]:
    excerpt = _Excerpt(recorder)
    try:
        yield excerpt
    finally:
        excerpt.take()


def _note(recorder: Recorder, note: str) -> None:
    if note not in recorder.notes:
        recorder.notes.append(note)


_CONTROL = ("cond", "while_loop", "scan", "map_impl", "strict_mode", "hints_wrapper")
_HANDLERS: dict[str, Handler] = {
    "cond": _condition,
    "while_loop": _loop,
    "scan": _scan,
    "flex_attention": _flex_attention,
    "triton_kernel_wrapper_mutation": _triton,
    "triton_kernel_wrapper_functional": _triton,
    "strict_mode": _make_caller(tuple),
    "hints_wrapper": _make_caller(lambda operands, named, hints=None: tuple(operands)),
    "run_const_graph": _make_caller(tuple),
    "invoke_subgraph": _make_caller(lambda name, *operands: operands),
    **dict.fromkeys(("foreach_map", "invoke_quant", "local_map_hop"), _make_caller(lambda *operands: operands)),
}
