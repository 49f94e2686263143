"""Steps of ranks as Chakra execution traces, the files that ASTRA-sim and other simulators of clusters read.

The format is that of MLCommons: https://github.com/mlcommons/chakra, ``schema/protobuf/et_def.proto``. A file is a row
of messages of Protocol Buffers, each after its length. The messages that a trace needs are few, and are written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

from profilerkit.api import profile
from profilerkit.errors import ArgumentError
from profilerkit.process.files import write_bytes, write_text

from ..rank_metrics import RankStep
from .layout import MESH, list_group, read_rank
from .records import Collective
from .tasks import Task, list_tasks

__all__ = ["GROUPS_FILE", "write_execution_traces"]

#: The file with the ranks of each group, as ASTRA-sim reads them.
GROUPS_FILE = "comm_groups.json"
#: The version of the schema.
_VERSION = "0.0.4"


class _NodeType(IntEnum):
    """The types of nodes in the schema."""

    COMPUTE = 4
    SEND = 5
    RECEIVE = 6
    COLLECTIVE = 7


#: The numbers of collectives in the schema.
_COLLECTIVES = {"all-reduce": 0, "all-gather": 2, "broadcast": 5, "all-to-all": 6, "reduce-scatter": 7}
#: The numbers of the fields that hold a value of an attribute, by their types in the schema.
_INT32, _INT64, _UINT64, _BOOL, _STRING = 7, 9, 13, 27, 29


def write_execution_traces(
    build: Any,
    inputs: Any = None,
    *,
    mesh: Any,
    folder: str | PathLike[str],
    name: str = "rank",
    differ: Iterable[str] = ("pp",),
    **arguments: Any,
) -> list[Path]:
    """Write the step of each rank of a mesh as a Chakra execution trace: ``rank.0.et``, ``rank.1.et``, ...

    The groups of ranks that exchange with each other are in ``comm_groups.json`` beside them.

    Args:
        build: The function that builds the model; see `profilerkit.profile` for this and for the inputs.
        inputs: What each rank gets.
        mesh: Names and sizes of the dimensions: ``{"dp_shard": 64, "tp": 8}``.
        folder: The folder of the files, which is made.
        name: What the files are called before the number of the rank.
        differ: The dimensions along which ranks do different things, as the stages of a pipeline do. One rank of each
            kind is traced; the others do the same in groups of their own.
        arguments: Further arguments of `profilerkit.profile`: ``parallelize``, ``input_shape``.

    Raises:
        ArgumentError: An argument cannot be, or a rank exchanges something in a way that the format does not have.
    """
    sizes = MESH("mesh", mesh)
    kinds: dict[tuple[int, ...], list[Task]] = {}
    groups: dict[tuple[int, ...], int] = {}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(prod(sizes.values())):
        kind = tuple(index for dimension, index in _find_places(rank, sizes).items() if dimension in set(differ))
        if kind not in kinds:
            step = profile(build, inputs, mesh=sizes, rank=rank, metrics=[RankStep.NAME], strict=True, **arguments)
            kinds[kind] = list_tasks(step[RankStep.NAME])
        paths.append(target / f"{name}.{rank}.et")
        write_bytes(paths[-1], _encode_trace(kinds[kind], _Rank(rank, sizes, groups)))
    write_text(target / GROUPS_FILE, json.dumps({str(number): group for group, number in groups.items()}))
    return paths


def _find_places(rank: int, mesh: Mapping[str, int]) -> dict[str, int]:
    """Return where a rank is along each dimension."""
    places, step = {}, prod(mesh.values())
    for dimension, size in mesh.items():
        step //= size
        places[dimension] = rank // step % size
    return places


class _Rank:
    """A rank of a mesh, and the numbers of the groups of ranks, which all ranks share."""

    def __init__(self, rank: int, mesh: Mapping[str, int], groups: dict[tuple[int, ...], int]) -> None:
        self.rank = read_rank(rank, mesh)
        self._mesh = mesh
        self._groups = groups

    def find_group(self, collective: Collective) -> str:
        """Return the name of the group of a collective; empty for all ranks."""
        group = tuple(list_group(self.rank, self._mesh, collective.dimensions))
        if len(group) == prod(self._mesh.values()):
            return ""
        return str(self._groups.setdefault(group, len(self._groups) + 1))

    def find_neighbour(self, collective: Collective, step: int) -> int:
        """Return the rank so many places further along the dimension of a collective, around a ring."""
        group = list_group(self.rank, self._mesh, collective.dimensions)
        return group[(group.index(self.rank) + step) % len(group)]


# Nodes ----------------------------------------------------------------------------------------------------------------


def _encode_trace(tasks: Iterable[Task], rank: _Rank) -> bytes:
    """Return the content of a file: the version, and a node for each task."""
    messages = [_write_text(1, _VERSION), *(_encode_node(number, task, rank) for number, task in enumerate(tasks))]
    return b"".join(_write_number(len(message)) + message for message in messages)


def _encode_node(number: int, task: Task, rank: _Rank) -> bytes:
    node_type, attributes = _describe_work(task) if task.collective is None else _describe_exchange(task, rank)
    return b"".join(
        (
            _write_field(1, number),
            _write_text(2, task.name),
            _write_field(3, node_type),
            *(_write_field(5, before) for before in task.after),
            _write_part(10, _write_attribute("is_cpu_op", _BOOL, 0)),
            *(_write_part(10, attribute) for attribute in attributes),
        )
    )


def _describe_work(task: Task) -> tuple[_NodeType, list[bytes]]:
    """Return the type and the attributes of work; a simulator divides its operations by its bytes, so there is one."""
    operations = _write_attribute("num_ops", _INT64, max(1, task.flops))
    return _NodeType.COMPUTE, [operations, _write_attribute("tensor_size", _UINT64, task.bytes)]


def _describe_exchange(task: Task, rank: _Rank) -> tuple[_NodeType, list[bytes]]:
    """Return the type and the attributes of an exchange, whose size is what one rank gives."""
    collective: Any = task.collective
    size = collective.bytes // collective.ranks if collective.kind == "all-gather" else collective.bytes
    comm_size = _write_attribute("comm_size", _INT64, size)
    if collective.kind in _COLLECTIVES:
        kind = _write_attribute("comm_type", _INT64, _COLLECTIVES[collective.kind])
        group = rank.find_group(collective)
        named = [_write_attribute("pg_name", _STRING, group)] if group else []
        return _NodeType.COLLECTIVE, [kind, comm_size, *named]
    if collective.kind not in ("send", "receive"):
        raise ArgumentError(
            f"{task.name}: a Chakra execution trace has no such exchange; it has {', '.join(_COLLECTIVES)}, send and "
            "receive"
        )
    is_send, towards = collective.kind == "send", 1 if collective.phase == "forward" else -1
    other = rank.find_neighbour(collective, towards if is_send else -towards)
    ends = [rank.rank, other] if is_send else [other, rank.rank]
    return _NodeType.SEND if is_send else _NodeType.RECEIVE, [
        comm_size,
        _write_attribute("comm_src", _INT32, ends[0]),
        _write_attribute("comm_dst", _INT32, ends[1]),
        _write_attribute("comm_tag", _INT32, 0 if collective.phase == "forward" else 1),
    ]


# Protocol Buffers -----------------------------------------------------------------------------------------------------


def _write_attribute(name: str, field: int, value: int | str) -> bytes:
    """Return an attribute; a value stands there even if it is 0, as one of several fields holds it."""
    return _write_text(1, name) + (_write_text(field, value) if isinstance(value, str) else _write_field(field, value))


def _write_field(field: int, number: int) -> bytes:
    """Return a field with a number that is not negative: its key of type 0, and the number."""
    return _write_number(field << 3) + _write_number(number)


def _write_text(field: int, text: str) -> bytes:
    return _write_part(field, text.encode())


def _write_part(field: int, content: bytes) -> bytes:
    """Return a field with bytes, a text or a message: its key of type 2, the length, and the content."""
    return _write_number(field << 3 | 2) + _write_number(len(content)) + content


def _write_number(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; all but the last have the eighth bit."""
    return bytes(_list_groups_of_bits(number))


def _list_groups_of_bits(number: int) -> Iterator[int]:
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number
