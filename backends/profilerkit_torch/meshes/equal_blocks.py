"""The equal blocks of a model: modules of one list, one behind the other, that are alike in all that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from ..model.inventory import Inventory
from .likeness import Likeness, compare
from .watched_numbers import OwnNumber

__all__ = ["EDGE", "EqualBlocks", "find_equal_blocks"]

#: The blocks at each end that may differ from the others: ``fully_shard`` gathers weights up to two blocks ahead.
EDGE = 2
#: The blocks at each end that run: the edge, and as many that are like those left out.
_END = 2 * EDGE
#: Of so many equal blocks some are left out: eight of them run, and with fewer it would not be worth the comparison.
LEAST = 11
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


@dataclass(frozen=True)
class _Block:
    """A module of a list, with its paths in the model: several, if several modules have it."""

    paths: tuple[str, ...]
    module: nn.Module


@dataclass(frozen=True, eq=False)
class EqualBlocks:
    """Equal modules of a model, in order.

    Attributes:
        paths: Their paths in the model.
        modules: The modules.
        numbers: Where they keep numbers that say which ones they are, such as ``layer_idx``.
    """

    paths: tuple[str, ...]
    modules: tuple[nn.Module, ...]
    numbers: tuple[OwnNumber, ...]

    @property
    def active(self) -> tuple[int, ...]:
        """The indices of those that run in a step."""
        number = len(self.modules)
        return (*range(_END), *range(number - _END, number))

    @property
    def left_out(self) -> range:
        """The indices of those that are left out: all between the ends."""
        return range(_END, len(self.modules) - _END)


def find_equal_blocks(inventory: Inventory) -> list[EqualBlocks]:
    """Return blocks that are equal to their neighbours, in the outermost lists of a model."""
    paths: dict[int, tuple[str, ...]] = {}
    for path, module in inventory.layers:
        paths[id(module)] = (*paths.get(id(module), ()), path)
    equal: list[EqualBlocks] = []
    remaining = [inventory.model]
    while remaining:
        module = remaining.pop()
        if isinstance(module, _CONTAINERS):  # what is in a list is not looked into
            runs = _split([_Block(paths[id(child)], child) for child in module.children()])
            equal.extend(run.close() for run in runs if len(run.blocks) >= LEAST)
        else:
            remaining.extend(module.children())
    return equal


def _split(blocks: Sequence[_Block]) -> list[_Run]:
    """Return the blocks of a list in runs of equal ones."""
    runs: list[_Run] = []
    for block in blocks:
        likeness = runs[-1].compare(block) if runs else None
        if likeness is None:
            runs.append(_Run(block))
        else:
            runs[-1].add(block, likeness)
    return runs


class _Run:
    """Blocks, one behind the other, that are equal to the first of them."""

    def __init__(self, first: _Block) -> None:
        self.blocks: list[_Block] = [first]
        self._weights = set(first.module.parameters())
        #: The numbers by which the first knows which one it is, and those of all others.
        self._numbers: list[OwnNumber] = []
        self._others: list[OwnNumber] = []

    def compare(self, block: _Block) -> Likeness | None:
        """Return how the next block is like the first; None if it is not equal to these.

        It must differ from the first in the same numbers as the others do: one that it has alone is a setting of it.
        Equal blocks share no weights, and run once: they have one path.
        """
        first = self.blocks[0]
        if len(first.paths) > 1 or len(block.paths) > 1 or not self._weights.isdisjoint(block.module.parameters()):
            return None
        likeness = compare(first.module, block.module, distance=len(self.blocks))
        if likeness is None or len(self.blocks) == 1:
            return likeness
        return likeness if _list_keys(likeness.first) == _list_keys(self._numbers) else None

    def add(self, block: _Block, likeness: Likeness) -> None:
        """Add a block that is equal to these."""
        self.blocks.append(block)
        self._weights.update(block.module.parameters())
        self._numbers = likeness.first  # the same for each
        self._others += likeness.second

    def close(self) -> EqualBlocks:
        """Return the blocks that were added."""
        paths, modules = tuple(block.paths[0] for block in self.blocks), tuple(block.module for block in self.blocks)
        return EqualBlocks(paths, modules, (*self._numbers, *self._others))


def _list_keys(numbers: Iterable[OwnNumber]) -> set[tuple[int, str]]:
    return {number.key for number in numbers}
