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

from profilerkit.backend_kit.replaced_attributes import replace_attribute
from profilerkit.process.cached import cached_property

from .block_calls import BlockCall, DifferentBlocksError, find_argument, find_tensor, look_inside
from .equal_blocks import EqualBlocks
from .recorder import Gaps, RankRecorder
from .watched_numbers import watch_numbers

__all__ = ["Mark", "Passage", "SkippedBlocks"]


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


class Passage(NamedTuple):
    """One time that equal blocks run one after another, forward or back: a mark for each that runs, in order."""

    blocks: EqualBlocks
    marks: list[Mark]


@dataclass(eq=False)
class _Followed:
    """Equal blocks in a step.

    Attributes:
        blocks: The blocks.
        passages: Each time that they have run, forward and back.
        last: The last call of one that ran; None before the first block runs, and after the last one.
        passed: A reference to the tensor that it returned.
        end: How many operators were recorded before it ended.
    """

    blocks: EqualBlocks
    passages: list[Passage] = field(default_factory=list)
    last: BlockCall | None = None
    passed: Callable[[], torch.Tensor | None] = lambda: None
    end: int = 0

    @cached_property
    def indices(self) -> Mapping[int, int]:
        """The index of each block by its ``id``."""
        return {id(module): index for index, module in enumerate(self.blocks.modules)}


class SkippedBlocks:
    """Leaves out blocks in a step, and marks where those that run begin."""

    def __init__(self, equal: Sequence[EqualBlocks], recorder: RankRecorder) -> None:
        self.equal: Sequence[EqualBlocks] = equal
        self.recorder: RankRecorder = recorder
        self._followed = [_Followed(blocks) for blocks in equal]
        self._by_module = {number: followed for followed in self._followed for number in followed.indices}

    @property
    def passages(self) -> list[Passage]:
        """Each time that blocks have run, in one direction."""
        return [passage for followed in self._followed for passage in followed.passages if passage.marks]

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
            followed = self._by_module.get(id(module))
            if followed is None or self.recorder.phase != "forward":  # a checkpoint runs a block once more
                return call(module, *args, **kwargs)
            arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
            index = followed.indices[id(module)]
            if index in followed.blocks.left_out:
                return self._require_call_before(followed).repeat(arguments)
            return self._run(followed, index, arguments, partial(call, module, *args, **kwargs))

        return run_or_skip

    def _run(self, followed: _Followed, index: int, arguments: Mapping[Any, Any], call: Callable[[], Any]) -> Any:
        """Call a block that runs, and mark where it begins, forward and back."""
        blocks = followed.blocks
        if index == 0:
            followed.passages += [Passage(blocks, []), Passage(blocks, [])]  # forward, and back
        elif followed.last is None:
            raise DifferentBlocksError("something runs between blocks")
        elif index == blocks.left_out.stop:  # the first behind those that are left out
            self._require_call_before(followed)
        forward, backward = followed.passages[-2:]
        forward.marks.append(self._mark(index))
        argument, looks = find_argument(arguments, followed.passed()), look_inside(arguments)
        output = call()
        tensor = find_tensor(output)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: backward.marks.append(self._mark(index)))
        ended = BlockCall.make(looks, argument, output)
        is_last = index == len(blocks.modules) - 1  # after which no argument may be kept alive
        followed.last = None if is_last else ended
        followed.passed = weakref.ref(tensor)
        followed.end = len(self.recorder.operators)
        return output

    def _require_call_before(self, followed: _Followed) -> BlockCall:
        """Return the last call of a block that ran; raise `DifferentBlocksError` if anything was recorded since."""
        if followed.last is None or followed.end != len(self.recorder.operators):
            raise DifferentBlocksError("something runs between blocks")
        return followed.last

    def _mark(self, index: int) -> Mark:
        return Mark(index, len(self.recorder.operators), Gaps(*map(Counter, self.recorder.gaps)))
