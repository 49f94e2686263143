"""The program that XLA makes for each device of a mesh: the shapes of its share, its products, and its exchanges.

It is read right after XLA has divided the program: before the rewrites for a kind of device, which may differ from the
mesh's. Each instruction has the numbers of the equation that it was made of (`numbered`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .divided_text import DividedText, Exchange
from .numbered import Chain, find_by_chain

__all__ = ["DeviceProgram", "Memory", "compile_program"]

#: The pass of XLA's that divides a program.
_DIVIDED = "after_spmd-partitioning"
#: Options with which XLA does not optimize the machine code: it never runs.
_OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Memory(NamedTuple):
    """The bytes that XLA reserves on each device: for arguments, for outputs, and for all that is between."""

    arguments: int = 0
    outputs: int = 0
    temporaries: int = 0


@dataclass(frozen=True)
class DeviceProgram:
    """The program of one device.

    Attributes:
        shapes: The shapes of the arrays that leave an equation, the last first, by its numbers.
        macs: The multiply-accumulates of the products of an equation, by its numbers.
        exchanges: The exchanges, in the order of the text.
        memory: The bytes that XLA reserves.
    """

    shapes: Mapping[Chain, Sequence[tuple[int, ...]]] = field(default_factory=dict)
    macs: Mapping[Chain, int] = field(default_factory=dict)
    exchanges: Sequence[Exchange] = ()
    memory: Memory = field(default_factory=Memory)

    def find_share(self, chain: Chain, shape: Sequence[int]) -> tuple[int, ...] | None:
        """Return the shape of one device's share of an array of this shape that leaves an equation; None if unknown."""
        for share in find_by_chain(self.shapes, chain) or ():
            if len(share) == len(shape) and all(part <= whole for part, whole in zip(share, shape, strict=True)):
                return share
        return None


def compile_program(lowered: Any) -> DeviceProgram:
    """Compile a lowered program of JAX, and return the program of each device; an empty one if it is not divided."""
    with tempfile.TemporaryDirectory() as folder:
        written = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": "spmd-partitioning", "xla_dump_hlo_as_text": True}
        sizes = lowered.compile(compiler_options={**_OPTIONS, **written}).memory_analysis()
        texts = [path.read_text(encoding="utf-8") for path in Path(folder).glob(f"*{_DIVIDED}*.txt")]
    memory = Memory(*(int(getattr(sizes, f"{part}_size_in_bytes")) for part in ("argument", "output", "temp")))
    divided = DividedText("\n".join(texts))
    return DeviceProgram(divided.find_shapes(), divided.count_macs(), divided.list_exchanges(), memory)
