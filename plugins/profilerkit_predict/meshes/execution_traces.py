"""Steps of ranks as Chakra execution traces, the files that ASTRA-sim and other simulators of clusters read.

MLCommons defines the format: https://github.com/mlcommons/chakra, ``schema/protobuf/et_def.proto``. A file is a row
of messages of Protocol Buffers (https://protobuf.dev/programming-guides/encoding/), each after its length: the version,
and a node for each task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

from profilerkit.api import profile
from profilerkit.errors import ArgumentError
from profilerkit.process.files import write_bytes, write_text

from ..rank_metrics import RankStep
from .layout import MESH, find_places
from .records import Collective
from .tasks import Task, list_tasks

#: The file with the ranks of each group, for ASTRA-sim.
GROUPS_FILE = "comm_groups.json"
#: The version of the schema, its types of nodes, and its numbers of collectives.
_VERSION = "0.0.4"
_COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 4, 5, 6, 7
_COLLECTIVES = {"all-reduce": 0, "all-gather": 2, "broadcast": 5, "all-to-all": 6, "reduce-scatter": 7}
#: The numbers of the fields of a node, and of the fields for an attribute's value, by its type in the schema.
_ID, _NAME, _TYPE, _DATA_DEPENDENCIES, _ATTRIBUTE = 1, 2, 3, 5, 10
_INT32, _INT64, _UINT64, _BOOL, _STRING = 7, 9, 13, 27, 29

#: The ranks of groups that exchange with each other, with their numbers from 1 in the order in which they first occur.
Groups = dict[tuple[int, ...], int]


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

    first = trace(0)
    sent = (task.collective for task in first if task.collective is not None and task.collective.is_sent)
    differing |= {dimension for collective in sent for dimension in collective.dimensions}
    kinds: dict[tuple[int, ...], list[Task]] = {}  # by the positions of ranks along these dimensions
    target, groups, paths = Path(folder), Groups(), []
    target.mkdir(parents=True, exist_ok=True)
    for rank in range(prod(sizes.values())):
        kind = tuple(index for dimension, index in find_places(rank, sizes).items() if dimension in differing)
        if kind not in kinds:
            kinds[kind] = trace(rank) if rank else first
        paths.append(target / f"{name}.{rank}.et")
        write_bytes(paths[-1], encode_trace(kinds[kind], rank, sizes, groups))
    write_text(target / GROUPS_FILE, json.dumps({str(number): group for group, number in groups.items()}))
    return paths


def encode_trace(tasks: Iterable[Task], rank: int, mesh: Mapping[str, int], groups: Groups) -> bytes:
    """Return the content of a file: the version, and a node for each task; new groups of ranks get a number.

    Raises `ArgumentError` for an exchange that the format does not have.
    """
    messages = [_encode(1, _VERSION)]
    for number, task in enumerate(tasks):
        attributes: list[tuple[str, int, int | str]] = [("is_cpu_op", _BOOL, 0)]
        if task.collective is None:
            kind = _COMPUTE
            # A simulator divides operations by bytes, so there is one at least.
            attributes += [("num_ops", _INT64, max(1, task.flops)), ("tensor_size", _UINT64, task.bytes)]
        else:
            kind = _find_type(task.name, task.collective)
            attributes += _describe_exchange(task.collective, rank, mesh, groups)
        node = _encode(_ID, number) + _encode(_NAME, task.name) + _encode(_TYPE, kind)
        node += b"".join(_encode(_DATA_DEPENDENCIES, before) for before in task.after)
        # The value of an attribute is written even if it is 0, because one of several fields holds it.
        for name, field, value in attributes:
            node += _encode(_ATTRIBUTE, _encode(1, name) + _encode(field, value))
        messages.append(node)
    return b"".join(_encode_number(len(message)) + message for message in messages)


def _find_type(name: str, collective: Collective) -> int:
    """Return the type of the node of an exchange; raises `ArgumentError` if the format has none."""
    if collective.is_sent:
        return _SEND if collective.kind == "send" else _RECEIVE
    if collective.kind not in _COLLECTIVES:
        raise ArgumentError(
            f"{name}: a Chakra execution trace has no such exchange; it has {', '.join(_COLLECTIVES)}, send and receive"
        )
    return _COLLECTIVE


def _describe_exchange(
    collective: Collective, rank: int, mesh: Mapping[str, int], groups: Groups
) -> Iterator[tuple[str, int, int | str]]:
    """Yield the attributes of an exchange, whose size is what one rank gives; the group of all ranks has no name."""
    partners = collective.list_partners(rank, mesh)
    size = collective.bytes // collective.ranks if collective.kind == "all-gather" else collective.bytes
    yield "comm_size", _INT64, size
    if collective.is_sent:
        yield "comm_src", _INT32, partners[0]
        yield "comm_dst", _INT32, partners[1]
        yield "comm_tag", _INT32, 0 if collective.phase == "forward" else 1
        return
    yield "comm_type", _INT64, _COLLECTIVES[collective.kind]
    if len(partners) < prod(mesh.values()):
        yield "pg_name", _STRING, str(groups.setdefault(tuple(partners), len(groups) + 1))


def _encode(field: int, value: int | str | bytes) -> bytes:
    """Return a field: of type 0 with a number that is not negative, or of type 2 with a length and bytes or a text."""
    if isinstance(value, int):
        return _encode_number(field << 3) + _encode_number(value)
    content = value.encode() if isinstance(value, str) else value
    return _encode_number(field << 3 | 2) + _encode_number(len(content)) + content


def _encode_number(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; all but the last have the eighth bit."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes((*groups, number))
