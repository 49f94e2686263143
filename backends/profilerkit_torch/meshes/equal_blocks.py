"""The equal blocks of a model: modules of one list, one behind the other, that are alike in all that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from ..model.inventory import Inventory
from .likeness import Comparison
from .watched_numbers import OwnNumber

__all__ = ["EDGE", "EqualBlocks", "find_equal_blocks"]

#: The blocks at each end that may differ from the others: ``fully_shard`` gathers weights up to two blocks ahead.
EDGE = 2
#: The blocks at each end that run: the edge, and those that it gathers. How many there are at least to leave out some.
_END, LEAST = 2 * EDGE, 11
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


@dataclass(frozen=True)
class _Block:
    """A module of a list, with its path in the model."""

    path: str
    module: nn.Module


@dataclass(frozen=True, eq=False)
class EqualBlocks:
    """Equal modules of a model, in order.

    Attributes:
        paths: Their paths in the model.
        modules: The modules.
        numbers: By which they know which ones they are.
    """

    paths: tuple[str, ...]
    modules: tuple[nn.Module, ...]
    numbers: tuple[OwnNumber, ...]

    @property
    def active(self) -> tuple[int, ...]:
        """The indices of those that run in a step: at each end the edge, and as many others."""
        number = len(self.modules)
        return (*range(_END), *range(number - _END, number))

    @property
    def left_out(self) -> range:
        """The indices of those that are left out."""
        return range(_END, len(self.modules) - _END)


def find_equal_blocks(inventory: Inventory) -> list[EqualBlocks]:
    """Return blocks that are equal to their neighbours, in the lists of a model that are in no other list.

    A module with several paths, which runs several times, is none of them.
    """
    paths: dict[int, list[str]] = {}
    for path, module in inventory.layers:
        paths.setdefault(id(module), []).append(path)
    equal: list[EqualBlocks] = []
    remaining = [inventory.model]
    while remaining:
        module = remaining.pop()
        if isinstance(module, _CONTAINERS):
            runs = _split([_Block(",".join(paths[id(child)]), child) for child in module.children()])
            equal.extend(run.close() for run in runs if len(run.blocks) >= LEAST)
        else:
            remaining.extend(module.children())
    return equal


def _split(blocks: Sequence[_Block]) -> list[_Run]:
    """Return the blocks of a list in runs of equal ones."""
    runs: list[_Run] = []
    for block in blocks:
        if not runs or not runs[-1].take(block):
            runs.append(_Run(block))
    return runs


class _Run:
    """Blocks, one behind the other, that are equal to the first of them."""

    def __init__(self, first: _Block) -> None:
        self.blocks: list[_Block] = [first]
        #: The numbers of the first by which it knows which one it is, and those of all others.
        self._numbers: list[OwnNumber] = []
        self._others: list[OwnNumber] = []
        self._weights = set(first.module.parameters())

    def take(self, block: _Block) -> bool:
        """Take a block of one path that is like the first and shares no weights; return whether it is one.

        It must differ from the first in the same numbers as the others do: one that it has alone is a setting of it.
        """
        first, weights = self.blocks[0], set(block.module.parameters())
        if "," in first.path + block.path or not self._weights.isdisjoint(weights):
            return False
        comparison = Comparison(len(self.blocks))
        if not comparison.is_alike(first.module, block.module):
            return False
        keys = {number.key for number in comparison.numbers}
        if len(self.blocks) > 1 and keys != {number.key for number in self._numbers}:
            return False
        self.blocks.append(block)
        self._weights |= weights
        self._numbers = comparison.numbers
        self._others += comparison.others
        return True

    def close(self) -> EqualBlocks:
        """Return the blocks that were taken."""
        paths, modules = tuple(block.path for block in self.blocks), tuple(block.module for block in self.blocks)
        return EqualBlocks(paths, modules, (*self._numbers, *self._others))
