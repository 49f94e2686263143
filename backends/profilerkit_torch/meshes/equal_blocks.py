"""The equal blocks of a model: modules of one list, one behind the other, that are alike in all that they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from ..model.inventory import Inventory
from .likeness import Comparison, Place
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
            equal.extend(_split([_Block(",".join(paths[id(child)]), child) for child in module.children()]))
        else:
            remaining.extend(module.children())
    return equal


def _split(blocks: Sequence[_Block]) -> Iterator[EqualBlocks]:
    """Yield the equal blocks of a list, where there are enough of them."""
    begin, numbers = 0, []
    for end in range(1, len(blocks) + 1):
        if end < len(blocks):
            comparison = Comparison(Place(begin, blocks[begin].path), Place(end, blocks[end].path))
            if _are_equal(blocks[begin], blocks[end], comparison):
                numbers += comparison.numbers
                continue
        if end - begin >= LEAST:
            equal = blocks[begin:end]
            paths, modules = tuple(block.path for block in equal), tuple(block.module for block in equal)
            yield EqualBlocks(paths, modules, _drop_repeated(numbers))
        begin, numbers = end, []


def _are_equal(first: _Block, other: _Block, comparison: Comparison) -> bool:
    """Return whether two blocks of one path each are alike, and share no weights."""
    if "," in first.path + other.path or not set(first.module.parameters()).isdisjoint(other.module.parameters()):
        return False
    return comparison.is_alike(first.module, other.module)


def _drop_repeated(numbers: Sequence[OwnNumber]) -> tuple[OwnNumber, ...]:
    """Return numbers once: those of the first block are met in each comparison."""
    return tuple({(id(number.attributes), number.name): number for number in numbers}.values())
