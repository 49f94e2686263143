"""A mesh of devices as people write it: ``{"dp_shard": 64, "tp": 8}``, or ``dp_shard=64,tp=8``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, is_dataclass
from math import prod
from typing import Any

from profilerkit.arguments.checks import Check, at_least
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, by_likeness
from profilerkit.models.python_loaders import is_in_file, is_in_module

#: The schemes that have a name.
SCHEMES: tuple[str, ...] = ("fsdp2", "ddp", "zero1", "zero2", "zero3")
#: The argument for how many passes' gradients are added up, by the name that training loops have for it.
PASSES = "gradient_accumulation_steps"
_EXPECTED = "names and sizes of its dimensions: mesh={'dp_shard': 64, 'tp': 8}, or 'dp_shard=64,tp=8'"
_SIZE = at_least(1)
#: More ranks than any machine has: frameworks list them all, which takes minutes.
_MOST_RANKS = 2**20


@dataclass(frozen=True, eq=False)
class RankModel:
    """One rank's share of a model on a mesh: how the model is built, and how it is spread."""

    #: A function that returns the model, or a text for a model loader.
    build: Any
    #: The sizes of the mesh's dimensions by name, the outermost first.
    mesh: Mapping[str, int]
    #: A function of the model and the mesh that spreads it, the text ``file.py:name`` of one, the name of a scheme, or
    #: settings of the framework's. None: the model is on every rank as it is.
    parallelize: Any = None
    #: The number of the rank, from 0.
    rank: int = 0
    #: Of how many passes the gradients are added up in a step.
    passes: int = 1
    #: Whether a file that may run code is loaded.
    trust: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks the mesh has."""
        return prod(self.mesh.values())

    @property
    def name(self) -> str:
        """The name of the model, by the function that builds it."""
        if isinstance(self.build, str):
            return self.build.rpartition(":")[2]
        return getattr(self.build, "__name__", type(self.build).__name__)

    def describe(self) -> str:
        """Return the subject of the numbers: ``rank 0 of 512 (dp_shard=64, tp=8)``."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        step = f", in a step of {self.passes} passes" if self.passes > 1 else ""
        return f"rank {self.rank} of {self.ranks:,} ({sizes}): its own share of the weights, work and memory{step}"


def _read_mesh(value: Any) -> dict[str, int]:
    """Return the sizes of a mesh; raises `ValueError` for a value that is no mesh, and `MESH` makes the message."""
    if isinstance(value, str):
        value = {name: int(size) for name, size in _read_pairs(value).items()}
    if not isinstance(value, Mapping) or not value:
        raise ValueError
    if not all(isinstance(name, str) and name.isidentifier() for name in value):
        raise ValueError
    sizes = {name: _SIZE(name, size) for name, size in value.items()}
    if prod(sizes.values()) > _MOST_RANKS:
        raise ArgumentError(f"a mesh of {prod(sizes.values()):,} ranks: give one of at most {_MOST_RANKS:,}")
    return sizes


def _read_open_mesh(value: Any) -> dict[str, int | None]:
    """Return sizes of which some may be looked for: None, or ``?`` in a text."""
    if isinstance(value, str):
        value = {name: None if size == "?" else int(size) for name, size in _read_pairs(value).items()}
    if not isinstance(value, Mapping):
        raise ValueError
    sizes = _read_mesh({name: 1 if size is None else size for name, size in value.items()})
    return {name: None if value[name] is None else size for name, size in sizes.items()}


def _read_pairs(text: str) -> dict[str, str]:
    """Return names and sizes of a text; raises `ValueError` for a name that is there twice."""
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    sizes = {name.strip(): size.strip() for name, size in pairs}
    if len(sizes) < len(pairs):
        raise ValueError
    return sizes


MESH: Check = Check(_EXPECTED, _read_mesh)
#: A mesh of which sizes are looked for: ``dp_shard=?,tp=8``.
OPEN_MESH: Check = Check("names and sizes of its dimensions: dp_shard=64,tp=8", _read_open_mesh)


def read_rank(rank: Any, mesh: Mapping[str, int]) -> int:
    """Return the number of a rank; raises `ArgumentError` for a rank that the mesh does not have."""
    number: int = at_least(0)("rank", rank)
    ranks = prod(mesh.values())
    if number >= ranks:
        raise ArgumentError(f"rank={number}: the mesh has {ranks:,} ranks; give one from 0 to {ranks - 1:,}")
    return number


def list_group(rank: int, mesh: Mapping[str, int], dimensions: Collection[str]) -> list[int]:
    """Return the ranks that differ from one in no other dimensions than these, in their order.

    >>> list_group(5, {"dp": 2, "tp": 4}, ["dp"]), list_group(5, {"dp": 2, "tp": 4}, ["tp"])
    ([1, 5], [4, 5, 6, 7])
    """
    ranks = [0]
    for dimension, position in find_places(rank, mesh).items():
        positions = range(mesh[dimension]) if dimension in dimensions else [position]
        ranks = [outer * mesh[dimension] + index for outer in ranks for index in positions]
    return ranks


def find_places(rank: int, mesh: Mapping[str, int]) -> dict[str, int]:
    """Return the position of a rank along each dimension; neighbours in the innermost have neighbouring numbers.

    >>> find_places(5, {"dp": 2, "tp": 4})
    {'dp': 1, 'tp': 1}
    """
    positions = {}
    for dimension in reversed(list(mesh)):
        rank, positions[dimension] = divmod(rank, mesh[dimension])
    return dict(reversed(positions.items()))


def read_parallelize(value: Any) -> Any:
    """Return a function, the text of one, the name of a scheme, or settings; raises `ArgumentError` for anything else.

    Settings are an object of a dataclass, such as the ``DistributedConfig`` of transformers: a backend knows its own.
    """
    if value is None or callable(value) or is_dataclass(value):
        return value
    if isinstance(value, str) and (value in SCHEMES or is_in_file(value) or is_in_module(value)):
        return value
    nearest = ", ".join(map(repr, by_likeness(str(value), SCHEMES)))
    raise ArgumentError(
        f"parallelize={shown(value)}: give a function that is called with the model and the mesh, the text of one such "
        f"as 'train.py:shard', or the name of a scheme: {nearest}"
    )
