"""Adapters of low rank (LoRA) that are resident beside the weights: their bytes, and their share of a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from profilerkit.arguments.checks import Check, at_least, several
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, by_likeness

from ..facts.records import MatrixShape, ModelFacts
from .layout import Layout


@dataclass(frozen=True, slots=True)
class Adapters:
    """Adapters of one rank, each two thin matrices beside every matrix that it changes, in the dtype of activations.

    Attributes:
        rank: Their rank.
        count: How many different adapters are resident. Sequences are assumed to use as many of them as they can.
        matrices: The matrices that they change.
        element_bytes: The bytes of an element.
    """

    rank: int
    count: int
    matrices: tuple[MatrixShape, ...]
    element_bytes: int

    @property
    def parameters(self) -> int:
        """The elements of one adapter."""
        return sum(self._count_elements(matrix) * matrix.experts for matrix in self.matrices)

    @property
    def macs_of_a_token(self) -> int:
        """The multiply-accumulates that an adapter adds to a token: every element once, but only chosen experts."""
        return sum(self._count_elements(matrix) * matrix.experts_per_token for matrix in self.matrices)

    @property
    def total_bytes(self) -> int:
        """The bytes of all of them."""
        return self.count * self.parameters * self.element_bytes

    def list_stage_bytes(self, layout: Layout, layers: int | None) -> list[float]:
        """Return the bytes of all of them on a device in each stage of a pipeline, which shares them as the matrices.

        They stand beside matrices of so many layers.
        """
        elements = 0.0
        for matrix in self.matrices:
            of_all = self._count_elements(matrix) * matrix.experts
            is_dense = matrix.routing is None
            elements += of_all / layout.tensor if is_dense else layout.share_out_experts(of_all, matrix.experts)
        return [self.count * elements * self.element_bytes * share for share in layout.compute_stage_shares(layers)]

    def count_read_bytes(self, device_sequences: int, sequences: int, layout: Layout) -> float:
        """Return the bytes that a device reads in a step: an adapter once, however many sequences use it.

        Of the adapters beside experts it reads those of the experts that a token is sent to. They are spread over all
        replicas, like the experts: ``sequences`` of all replicas use them. Others are read for the sequences of the
        device's own replica.
        """
        read = 0.0
        for matrix in self.matrices:
            users, devices = (device_sequences, layout.tensor)
            if matrix.routing is not None:
                users, devices = (sequences, layout.expert_devices)
            elements = self._count_elements(matrix) * matrix.experts_per_token
            read += min(self.count, users) * elements * self.element_bytes / devices
        return read

    def _count_elements(self, matrix: MatrixShape) -> int:
        return matrix.count * self.rank * (matrix.rows + matrix.columns)


def _read_targets(value: Any) -> list[str]:
    names = value.split(",") if isinstance(value, str) else several(value)
    if not names:
        raise ValueError
    return [str(name).strip() for name in names]


_TARGETS = Check("names of matrices, such as 'q_proj,v_proj'", _read_targets)


def read_adapters(facts: ModelFacts, rank: Any, count: Any, targets: Any) -> Adapters | None:
    """Return so many adapters of a rank beside the matrices of these names, for None beside all; None without a rank.

    Raises `ArgumentError` for arguments without a rank, and for names that no matrix of the model has.
    """
    if rank is None:
        for name, value in {"lora_adapters": count, "lora_targets": targets}.items():
            if value is not None:
                raise ArgumentError(f"{name}={shown(value)} without a rank: give lora_rank (--lora-rank) too")
        return None
    matrices = facts.matrices
    if targets is not None:
        matrices = tuple(_select(facts, _TARGETS("lora_targets", targets)))
    number = at_least(1)("lora_adapters", 1 if count is None else count)
    return Adapters(at_least(1)("lora_rank", rank), number, matrices, facts.element_bytes)


def _select(facts: ModelFacts, names: Iterable[str]) -> Iterable[MatrixShape]:
    """Yield the matrices of these names."""
    names_of_matrices = dict.fromkeys(matrix.name for matrix in facts.matrices)
    for name in dict.fromkeys(names):
        if name not in names_of_matrices:
            raise ArgumentError(
                f"lora_targets: {facts.name} has no matrix {name!r}; there are, nearest first: "
                f"{', '.join(by_likeness(name, names_of_matrices))}"
            )
        yield from (matrix for matrix in facts.matrices if matrix.name == name)
