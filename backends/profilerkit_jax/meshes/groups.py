"""Which devices exchange with each other: read from the attributes of an instruction, in each form that XLA writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

__all__ = ["find_group"]

_LISTED = re.compile(r"(?:replica_groups|source_target_pairs)=\{((?:\{[\d,]*\},?)*)\}")
_COUNTED = re.compile(r"replica_groups=\[([\d,]+)\]<=(\[.*)")
_OF_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(([^{]*)\))?\s*\{([^}]*)\}")
_AXIS = re.compile(r"'([^']+)'=(\d+)")
#: An axis, or a part of one: behind so many parts that are outside of it, and of such a size.
_PART = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
_ORDER = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")


def find_group(attributes: str, rank: int, ranks: int) -> tuple[int, ...]:
    """Return the devices with which a device exchanges, itself among them; itself alone where it has no part.

    Raises `LookupError` for groups in a form that is not known.
    """
    groups = _list_groups(attributes, ranks)
    pairs = "source_target_pairs" in attributes
    return next((group for group in groups if (group[0] == rank if pairs else rank in group)), (rank,))


def _list_groups(attributes: str, ranks: int) -> list[tuple[int, ...]]:
    listed = _LISTED.search(attributes)
    if listed:
        groups = [_read_numbers(group) for group in re.findall(r"\{([\d,]*)\}", listed[1])]
        return groups or [tuple(range(ranks))]
    counted = _COUNTED.search(attributes)
    if counted:
        return _list_rows(_read_order(counted[2]).reshape(_read_numbers(counted[1])))
    of_mesh = _OF_MESH.search(attributes)
    if of_mesh is None:
        raise LookupError(attributes)
    axes = {name: int(size) for name, size in _AXIS.findall(of_mesh[1])}
    devices = np.arange(prod(axes.values())) if of_mesh[2] is None else _read_order(of_mesh[2])
    return _list_groups_of_mesh(devices.reshape(-1), axes, _PART.findall(of_mesh[3]))


def _list_groups_of_mesh(
    devices: np.ndarray, axes: Mapping[str, int], parts: Sequence[tuple[str, str, str]]
) -> list[tuple[int, ...]]:
    """Return the groups along axes of a mesh, or along parts of them: name, parts outside of it, and size of each."""
    sizes: list[int] = []
    inside: dict[str, int] = {}
    part_by_name = {name: (int(outside or 1), int(size or axes[name])) for name, outside, size in parts}
    for name, size in axes.items():
        outside, part = part_by_name.get(name, (size, 1))
        inside[name] = len(sizes) + 1
        sizes += [outside, part, size // (outside * part)]
    along = [inside[name] for name in part_by_name]
    others = [index for index in range(len(sizes)) if index not in along]
    return _list_rows(devices.reshape(sizes).transpose([*others, *along]).reshape(-1, prod(sizes[at] for at in along)))


def _read_order(text: str) -> np.ndarray:
    """Return devices as ``[4,2]T(1,0)`` has them, which is so many counted through, transposed; or as a list."""
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
