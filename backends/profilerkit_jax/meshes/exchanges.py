"""The exchanges of one device, by the instructions of its program: the group, the bytes, and the additions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from profilerkit.costs import Cost
from profilerkit_predict.meshes.records import Message, count_additions

from .device_program import DeviceProgram, Exchange
from .numbered import Chain

__all__ = ["RankExchange", "find_group", "list_exchanges"]

#: The kinds that run after the equation whose results they add up. All other kinds run before the equation that reads
#: their result: an all-gather gives it whole weights.
_REDUCTIONS = ("all-reduce", "reduce-scatter")


class RankExchange(NamedTuple):
    """The exchange of a rank by one instruction, each time that it runs.

    Attributes:
        instruction: The instruction.
        message: The sent data. Its kind may differ from the kind of the instruction.
        cost: The additions of the rank, around a ring.
    """

    instruction: Exchange
    message: Message
    cost: Cost

    @property
    def is_reduction(self) -> bool:
        """Whether it adds up the results of an equation; otherwise it brings the inputs of an equation."""
        return self.message.kind in _REDUCTIONS


def list_exchanges(
    program: DeviceProgram, rank: int, ranks: int
) -> tuple[dict[Chain, list[RankExchange]], Counter[str]]:
    """Return the exchanges of a rank, by the numbers of equations.

    With them, the number of instructions, by kind, whose groups are not known.
    """
    exchanges: dict[Chain, list[RankExchange]] = {}
    unknown = Counter[str]()
    for instruction in program.exchanges:
        try:
            group = find_group(instruction.groups, rank, ranks)
        except LookupError:
            unknown[instruction.kind] += 1
            continue
        if len(group) > 1:
            exchanges.setdefault(instruction.chain, []).append(_read_exchange(instruction, group))
    return exchanges, unknown


def _read_exchange(instruction: Exchange, group: tuple[int, ...]) -> RankExchange:
    """Return the exchange of a group of ranks by an instruction, with the size of the whole tensor.

    If each rank keeps only its slice, an all-reduce is a reduce-scatter: XLA makes it one on devices that have it.
    """
    kind, parts = instruction.kind, 1
    if kind == "all-reduce" and instruction.slices == len(group):
        kind = "reduce-scatter"
    elif kind == "reduce-scatter":
        parts = len(group)  # the instruction returns one part of the whole tensor
    message = Message(kind, group, parts * instruction.bytes)
    return RankExchange(instruction, message, count_additions(message, parts * instruction.elements))


# The groups of devices that exchange with each other, in each form in which XLA writes them ---------------------------

_LISTED = re.compile(r"(?:replica_groups|source_target_pairs)=\{((?:\{[\d,]*\},?)*)\}")
_COUNTED = re.compile(r"replica_groups=\[(?P<sizes>[\d,]+)\]<=(?P<order>\[.*)")
_OF_MESH = re.compile(
    r"replica_groups=mesh\[(?P<axes>[^\]]*)\](?:, device_ids=\((?P<order>[^{]*)\))?\s*\{(?P<parts>[^}]*)\}"
)
_AXIS_SIZE = re.compile(r"'([^']+)'=(\d+)")
_AXIS_PART = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
_ORDER = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")


def find_group(attributes: str, rank: int, ranks: int) -> tuple[int, ...]:
    """Return the devices with which a device exchanges, itself among them; itself alone if it has no part.

    Raises `LookupError` for groups in a form that is not known.
    """
    groups = _list_groups(attributes, ranks)
    if "source_target_pairs" in attributes:
        return next((pair for pair in groups if pair[0] == rank), (rank,))
    return next((group for group in groups if rank in group), (rank,))


def _list_groups(attributes: str, ranks: int) -> list[tuple[int, ...]]:
    """Return the groups of devices that exchange; of pairs, the device that sends and the one that receives."""
    listed = _LISTED.search(attributes)
    if listed:
        groups = [_read_numbers(group) for group in re.findall(r"\{([\d,]*)\}", listed[1])]
        return groups or [tuple(range(ranks))]
    counted = _COUNTED.search(attributes)
    if counted:
        return _list_rows(_read_order(counted["order"]).reshape(_read_numbers(counted["sizes"])))
    of_mesh = _OF_MESH.search(attributes)
    if of_mesh is None:
        raise LookupError(attributes)
    axes = {name: int(size) for name, size in _AXIS_SIZE.findall(of_mesh["axes"])}
    devices = np.arange(prod(axes.values())) if of_mesh["order"] is None else _read_order(of_mesh["order"])
    return _list_groups_of_mesh(devices.reshape(-1), axes, _read_parts(of_mesh["parts"], axes))


class _Part(NamedTuple):
    """A part of an axis of a mesh: ``'x':(2)3`` is the middle one of an axis of 2 x 3 x n devices.

    Attributes:
        outside: How many devices the axis has outside of it.
        size: How many it has itself.
    """

    outside: int
    size: int


def _read_parts(text: str, axes: Mapping[str, int]) -> dict[str, _Part]:
    """Return the parts along which devices exchange, by their axes; ``'x'`` alone is the whole axis."""
    return {name: _Part(int(outside or 1), int(size or axes[name])) for name, outside, size in _AXIS_PART.findall(text)}


def _list_groups_of_mesh(
    devices: np.ndarray, axes: Mapping[str, int], parts: Mapping[str, _Part]
) -> list[tuple[int, ...]]:
    """Return the groups along parts of the axes of a mesh.

    Each axis is cut in three dimensions, its part in the middle. Devices that differ in the middle dimensions alone are
    a group.
    """
    sizes: list[int] = []
    middle: dict[str, int] = {}  # the index of the middle dimension of each axis
    for name, size in axes.items():
        part = parts.get(name, _Part(size, 1))
        middle[name] = len(sizes) + 1
        sizes += [part.outside, part.size, size // (part.outside * part.size)]
    along = [middle[name] for name in parts]
    others = [index for index in range(len(sizes)) if index not in along]
    group_size = prod(part.size for part in parts.values())
    return _list_rows(devices.reshape(sizes).transpose([*others, *along]).reshape(-1, group_size))


def _read_order(text: str) -> np.ndarray:
    """Return the devices in an order such as ``[4,2]T(1,0)``: numbered in this shape, then transposed; or a list."""
    order = _ORDER.match(text)
    if order is None:
        return np.array(_read_numbers(text))
    sizes = _read_numbers(order[1])
    axes = _read_numbers(order[2]) if order[2] else tuple(range(len(sizes)))
    return np.arange(prod(sizes)).reshape(sizes).transpose(axes)


def _read_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def _list_rows(numbers: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(map(int, row)) for row in numbers.reshape(len(numbers), -1)]
