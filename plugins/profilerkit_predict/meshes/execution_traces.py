"""Steps of ranks as Chakra execution traces, the files that ASTRA-sim and other simulators of clusters read.

MLCommons defines the format: https://github.com/mlcommons/chakra, ``schema/protobuf/et_def.proto``. A file is a row
of messages of Protocol Buffers (https://protobuf.dev/programming-guides/encoding/), each after its length: the version,
and a node for each task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import IntEnum
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from profilerkit.api import profile
from profilerkit.errors import ArgumentError
from profilerkit.process.files import write_bytes, write_text

from ..rank_metrics import RankStep
from .layout import MESH, find_places
from .records import Collective
from .tasks import Task, list_tasks

#: The file with the ranks of each group, for ASTRA-sim.
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
#: The numbers of the fields of a node, and of the fields for an attribute's value, by its type in the schema.
_ID, _NAME, _TYPE, _DATA_DEPENDENCIES, _ATTRIBUTE = 1, 2, 3, 5, 10
_INT32, _INT64, _UINT64, _BOOL, _STRING = 7, 9, 13, 27, 29


def write_execution_traces(
    build: Any,
    inputs: Any = None,
    *,
    mesh: Any,
    folder: str | PathLike[str],
    name: str = "rank",
    differ: Iterable[str] = (),
    **arguments: Any,
) -> list[Path]:
    """Write the step of each rank of a mesh as a Chakra execution trace: ``rank.0.et``, ``rank.1.et``, ...

    The groups of ranks that exchange with each other are in ``comm_groups.json`` beside them.

    Args:
        build: The function that builds the model; see `profilerkit.profile` for this and for the inputs.
        inputs: The inputs of each rank.
        mesh: Names and sizes of the dimensions: ``{"dp_shard": 64, "tp": 8}``.
        folder: The folder of the files, which is made.
        name: The name of the files before the number of the rank.
        differ: Dimensions along which ranks do different work, besides dimensions along which one rank sends to the
            next, like the stages of a pipeline. One rank of each kind is traced; the others do the same in their
            groups.
        arguments: Further arguments of `profilerkit.profile`: ``parallelize``, ``input_shape``.

    Raises:
        ArgumentError: An argument is invalid, or a rank exchanges data in a way that the format does not have.
    """
    sizes = MESH("mesh", mesh)
    differing = {differ} if isinstance(differ, str) else set(differ)
    if not differing <= sizes.keys():
        raise ArgumentError(f"differ={sorted(differing)}: give dimensions of the mesh, {', '.join(sizes)}")

    def trace(rank: int) -> list[Task]:
        step = profile(build, inputs, mesh=sizes, rank=rank, metrics=[RankStep.NAME], strict=True, **arguments)
        return list_tasks(step[RankStep.NAME])

    groups, target = _Groups(prod(sizes.values())), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank, tasks in enumerate(_trace_ranks(trace, sizes, differing)):
        paths.append(target / f"{name}.{rank}.et")
        write_bytes(paths[-1], _encode_trace(tasks, _Rank(rank, sizes, groups)))
    write_text(target / GROUPS_FILE, json.dumps({str(number): group for group, number in groups.numbers.items()}))
    return paths


def _trace_ranks(
    trace: Callable[[int], list[Task]], mesh: Mapping[str, int], differing: Set[str]
) -> Iterator[list[Task]]:
    """Yield the tasks of each rank, of which one is traced of each kind; see `write_execution_traces`."""
    first = trace(0)
    sent = (task.collective for task in first if task.collective is not None and task.collective.is_sent)
    differing = differing | {dimension for collective in sent for dimension in collective.dimensions}
    kinds: dict[tuple[int, ...], list[Task]] = {}
    for rank in range(prod(mesh.values())):
        kind = tuple(index for dimension, index in find_places(rank, mesh).items() if dimension in differing)
        if kind not in kinds:
            kinds[kind] = trace(rank) if rank else first
        yield kinds[kind]


class _Groups:
    """The groups of ranks that exchange with each other, by numbers from 1 in the order in which they first occur."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self.numbers: dict[tuple[int, ...], int] = {}

    def find_name(self, group: Sequence[int]) -> str:
        """Return the name of a group, which is its number, a new one if needed; empty for the group of all ranks."""
        return "" if len(group) == self._ranks else str(self.numbers.setdefault(tuple(group), len(self.numbers) + 1))


class _Rank(NamedTuple):
    """A rank of a mesh, and the groups that the ranks of all files share."""

    number: int
    mesh: Mapping[str, int]
    groups: _Groups


def _encode_trace(tasks: Iterable[Task], rank: _Rank) -> bytes:
    """Return the content of a file: the version, and a node for each task."""
    messages = [_encode_text(1, _VERSION), *(_encode_node(number, task, rank) for number, task in enumerate(tasks))]
    return b"".join(_encode_number(len(message)) + message for message in messages)


def _encode_node(number: int, task: Task, rank: _Rank) -> bytes:
    exchange = task.collective
    kind, attributes = _describe_work(task) if exchange is None else _describe_exchange(task, exchange, rank)
    return b"".join(
        (
            _encode_field(_ID, number),
            _encode_text(_NAME, task.name),
            _encode_field(_TYPE, kind),
            *(_encode_field(_DATA_DEPENDENCIES, before) for before in task.after),
            _encode_part(_ATTRIBUTE, _encode_attribute("is_cpu_op", _BOOL, 0)),
            *(_encode_part(_ATTRIBUTE, attribute) for attribute in attributes),
        )
    )


def _describe_work(task: Task) -> tuple[_NodeType, list[bytes]]:
    """Return the type and the attributes of work; a simulator divides operations by bytes, so there is one at least."""
    operations = _encode_attribute("num_ops", _INT64, max(1, task.flops))
    return _NodeType.COMPUTE, [operations, _encode_attribute("tensor_size", _UINT64, task.bytes)]


def _describe_exchange(task: Task, collective: Collective, rank: _Rank) -> tuple[_NodeType, list[bytes]]:
    """Return the type and the attributes of an exchange, with the bytes that one rank gives as the size.

    Raises `ArgumentError` for an exchange that the format does not have.
    """
    size = collective.bytes // collective.ranks if collective.kind == "all-gather" else collective.bytes
    comm_size = _encode_attribute("comm_size", _INT64, size)
    partners = collective.list_partners(rank.number, rank.mesh)
    if collective.kind in _COLLECTIVES:
        kind = _encode_attribute("comm_type", _INT64, _COLLECTIVES[collective.kind])
        name = rank.groups.find_name(partners)
        group = [_encode_attribute("pg_name", _STRING, name)] if name else []
        return _NodeType.COLLECTIVE, [kind, comm_size, *group]
    if not collective.is_sent:
        raise ArgumentError(
            f"{task.name}: a Chakra execution trace has no such exchange; it has {', '.join(_COLLECTIVES)}, send and "
            "receive"
        )
    sender, receiver = partners
    return _NodeType.SEND if collective.kind == "send" else _NodeType.RECEIVE, [
        comm_size,
        _encode_attribute("comm_src", _INT32, sender),
        _encode_attribute("comm_dst", _INT32, receiver),
        _encode_attribute("comm_tag", _INT32, 0 if collective.phase == "forward" else 1),
    ]


def _encode_attribute(name: str, field: int, value: int | str) -> bytes:
    """Return an attribute; the value is written even if it is 0, because one of several fields holds it."""
    content = _encode_text(field, value) if isinstance(value, str) else _encode_field(field, value)
    return _encode_text(1, name) + content


def _encode_field(field: int, number: int) -> bytes:
    """Return a field with a number that is not negative: its key of type 0, and the number."""
    return _encode_number(field << 3) + _encode_number(number)


def _encode_text(field: int, text: str) -> bytes:
    """Return a field with a text."""
    return _encode_part(field, text.encode())


def _encode_part(field: int, content: bytes) -> bytes:
    """Return a field with bytes, a text or a message: its key of type 2, the length, and the content."""
    return _encode_number(field << 3 | 2) + _encode_number(len(content)) + content


def _encode_number(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; all but the last have the eighth bit."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes((*groups, number))
