"""A step in which few of a model's equal blocks run: the first four and the last four.

A call of a block between them returns what it was given. That is sound because all that it assumes is checked: the
blocks are alike in all that they hold (`equal_blocks`); none asks which one it is (`watched_numbers`); each call that
is left out gets arguments like those of the block before; nothing is computed between two of these calls; and the
blocks that run do the same, operator by operator and byte by byte (`extension`). Where one of these fails,
`DifferentBlocksError` says so, and the step is traced whole.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit.backend_kit.call_stack import tensors_in
from profilerkit.backend_kit.replaced_attributes import replace_attribute
from profilerkit.process.cached import cached_property

from .equal_blocks import EqualBlocks
from .likeness import TensorLook, look_at
from .recorder import Gaps, RankRecorder
from .watched_numbers import watch_numbers

__all__ = ["DifferentBlocksError", "Mark", "SkippedBlocks"]

#: Stands for the tensor that a block returns, in what is kept of its output.
_TENSOR = object()


class DifferentBlocksError(Exception):
    """Blocks that look equal are called in different ways, or do not do the same."""


class Mark(NamedTuple):
    """Where the work of a block begins in a step, forward or back.

    Attributes:
        block: The place of the block among its equals.
        operators: How many operators were recorded before.
        gaps: What could not be counted before.
    """

    block: int
    operators: int
    gaps: Gaps


class _Call(NamedTuple):
    """A call of a block that ran: what the calls that are left out must be like. It keeps no tensor alive.

    Attributes:
        arguments: What was given; of tensors how they look.
        handed: The name or number of the argument that the block before has returned; None if there is none.
        output: What was returned, with `_TENSOR` in place of the tensor.
        look: How that tensor looks.
        ended: How many operators were recorded before the call ended.
    """

    arguments: Any
    handed: int | str | None
    output: Any
    look: TensorLook
    ended: int


@dataclass(eq=False)
class _Passage:
    """What was seen of equal blocks in a step.

    Attributes:
        blocks: The blocks.
        marks: Of each time that the blocks were gone through, forward and back.
        last: The last call of one that ran.
        passed: A reference to the tensor that it returned.
    """

    blocks: EqualBlocks
    marks: list[list[Mark]] = field(default_factory=list)
    last: _Call | None = None
    passed: Callable[[], torch.Tensor | None] = lambda: None

    @cached_property
    def indices(self) -> Mapping[int, int]:
        """The index of each block by its ``id``."""
        return {id(module): index for index, module in enumerate(self.blocks.modules)}


class SkippedBlocks:
    """Leaves out blocks in a step, and marks where those that run begin."""

    def __init__(self, equal: Sequence[EqualBlocks], recorder: RankRecorder) -> None:
        self.equal: Sequence[EqualBlocks] = equal
        self.recorder: RankRecorder = recorder
        self._passages = [_Passage(blocks) for blocks in equal]
        self._by_module = {number: passage for passage in self._passages for number in passage.indices}

    @property
    def ways(self) -> Iterator[tuple[EqualBlocks, Sequence[Mark]]]:
        """The marks of each time that blocks were gone through, in one direction."""
        return ((passage.blocks, marks) for passage in self._passages for marks in passage.marks if marks)

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Leave out blocks inside."""
        classes = {type(module) for blocks in self.equal for module in blocks.modules}
        calls = [(kind, self._wrap(kind.__call__)) for kind in classes]  # one may be a subclass of another
        with ExitStack() as replaced:
            for kind, call in calls:
                replaced.enter_context(replace_attribute(kind, "__call__", call))
            asked = replaced.enter_context(watch_numbers(number for blocks in self.equal for number in blocks.numbers))
            try:
                yield
            except Exception as error:
                if self.equal:  # code in C takes no number that is watched
                    raise DifferentBlocksError(f"the step fails where blocks are left out: {error}") from error
                raise
            if asked:
                raise DifferentBlocksError(f"a block asks for its own number, {asked[0]}")

    def _wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands in place of the call of a class."""

        def run_or_skip(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            passage = self._by_module.get(id(module))
            if passage is None or self.recorder.phase != "forward":  # a checkpoint runs a block once more
                return call(module, *args, **kwargs)
            arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
            index = passage.indices[id(module)]
            if index in passage.blocks.left_out:
                return self._skip(passage, arguments)
            return self._run(passage, index, arguments, partial(call, module, *args, **kwargs))

        return run_or_skip

    def _run(self, passage: _Passage, index: int, arguments: Mapping[Any, Any], call: Callable[[], Any]) -> Any:
        """Call a block that runs, and mark where it begins, forward and back."""
        if index == 0:
            passage.marks += [[], []]
        elif passage.last is None or (index == passage.blocks.left_out.stop and not self._is_right_after(passage.last)):
            raise DifferentBlocksError("something runs between blocks")
        forward, backward = passage.marks[-2:]
        forward.append(self._mark(index))
        handed, looks = _find_handed(arguments, passage.passed()), _look_inside(arguments)
        output = call()
        tensor = _find_tensor(output)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: backward.append(self._mark(index)))
        kept = _exchange(output, tensor, _TENSOR)
        is_last = index == len(passage.blocks.modules) - 1  # after which no argument may be kept alive
        ended = len(self.recorder.operators)
        passage.last = None if is_last else _Call(looks, handed, kept, look_at(tensor), ended)
        passage.passed = weakref.ref(tensor)
        return output

    def _skip(self, passage: _Passage, arguments: Mapping[Any, Any]) -> Any:
        """Return what a block returns that is left out: as the block before, with the tensor that it is given."""
        last = passage.last
        if last is None or last.handed is None or not self._is_right_after(last):
            raise DifferentBlocksError("something runs between blocks")
        looks = _look_inside(arguments)
        if not _are_same(looks, last.arguments) or looks[last.handed] != last.look:
            raise DifferentBlocksError("blocks are called with different arguments")
        return _exchange(last.output, _TENSOR, arguments[last.handed])

    def _is_right_after(self, call: _Call) -> bool:
        return len(self.recorder.operators) == call.ended

    def _mark(self, index: int) -> Mark:
        return Mark(index, len(self.recorder.operators), Gaps(*map(Counter, self.recorder.gaps)))


def _find_handed(arguments: Mapping[Any, Any], tensor: torch.Tensor | None) -> int | str | None:
    """Return the name or number of the argument that is this tensor; None if none is."""
    return next((name for name, value in arguments.items() if tensor is not None and value is tensor), None)


def _find_tensor(output: Any) -> torch.Tensor:
    """Return the only tensor of a block's output."""
    tensors: list[torch.Tensor] = list(tensors_in(output, torch.is_tensor))
    if len(tensors) != 1:
        raise DifferentBlocksError("a block returns several tensors, or none")
    return tensors[0]


def _exchange(output: Any, before: Any, after: Any) -> Any:
    """Return an output with another value in place of one: of the output, or of an entry of a tuple or list."""
    if output is before:
        return after
    if type(output) not in (tuple, list) or not any(entry is before for entry in output):
        raise DifferentBlocksError("a block returns its tensor in something else than a tuple or a list")
    return type(output)(after if entry is before else entry for entry in output)


def _look_inside(value: Any) -> Any:
    """Return a value with the look of each tensor in its place, so that tensors can be freed."""
    if isinstance(value, torch.Tensor):
        return look_at(value)
    if isinstance(value, dict):
        return {name: _look_inside(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_look_inside(entry) for entry in value]
    return value


def _are_same(first: Any, second: Any) -> bool:
    """Return whether arguments, looked inside, are the same."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_are_same(first[name], second[name]) for name in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_are_same, first, second))
    return first is second or (isinstance(first, TensorLook | int | float | str) and bool(first == second))
