"""The program that XLA makes for each device of a mesh: the shapes of its share, its products, and its exchanges.

It is read right after XLA has divided the program: before the rewrites for a kind of device, which may differ from the
mesh's. Each instruction has the numbers of the equation that it was made of (`numbered`).
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ..joining.programs import Instruction, ResultArray, read_program
from ..model.scope_names import EQUATION
from .numbered import Chain, find_by_chain, list_numbers

__all__ = ["DeviceProgram", "Exchange", "Memory", "compile_program"]

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
    divided = _DividedText("\n".join(texts))
    return DeviceProgram(divided.find_shapes(), divided.count_macs(), divided.list_exchanges(), memory)


# The text that XLA writes ---------------------------------------------------------------------------------------------

_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
#: XLA's name for the body of a loop among scopes.
_IN_BODY = "/while/body"
#: The instructions that exchange something, by the names of reports.
_KINDS = {
    "all-gather": "all-gather",
    "all-reduce": "all-reduce",
    "all-to-all": "all-to-all",
    "collective-broadcast": "broadcast",
    "collective-permute": "permute",
    "ragged-all-to-all": "all-to-all",
    "reduce-scatter": "reduce-scatter",
}


@dataclass(frozen=True)
class Exchange:
    """An instruction that exchanges data.

    Attributes:
        chain: The numbers of the equation that it was made of; empty if XLA has added it.
        scopes: Its scopes.
        kind: "all-gather", "all-reduce", ...
        groups: The part of the instruction with the groups of devices that exchange with each other.
        shape: The shape of the array that one device gives.
        elements: The elements of its result.
        bytes: The bytes of its result.
        slices: How many slices the result has, if the device keeps no more than one of them; 1 if it keeps all.
    """

    chain: Chain
    scopes: str
    kind: str
    groups: str
    shape: tuple[int, ...]
    elements: int
    bytes: int
    slices: int = 1

    @property
    def is_in_body(self) -> bool:
        """Whether it is in the body of a loop, and of the loop itself rather than of an equation in the body."""
        return _IN_BODY in self.scopes.rpartition(EQUATION)[2]


class _DividedText:
    """The text of a divided program.

    An instruction is a line. This one is of the equation number 7::

        %dot.3 = f32[4,8] dot(%x.1, %w.2), lhs_contracting_dims={1}, metadata={op_name=".../profilerkit-equation.7/dot"}

    Attributes:
        instructions: The instructions by name.
        chains: For each instruction, the numbers of the equation that it was made of.
        readers: For each instruction, the names of the instructions that read its result.
    """

    def __init__(self, text: str) -> None:
        self.instructions = read_program(text)
        self.chains: dict[str, Chain] = {
            name: list_numbers(instruction.scopes.partition(";")[0]) for name, instruction in self.instructions.items()
        }
        self.readers: defaultdict[str, list[str]] = defaultdict(list)
        for name, instruction in self.instructions.items():
            for operand in instruction.operands:
                self.readers[operand].append(name)

    def find_shapes(self) -> dict[Chain, list[tuple[int, ...]]]:
        """Return the shapes of the arrays that leave each equation: no instruction of it reads them; the last first."""
        shapes: defaultdict[Chain, list[tuple[int, ...]]] = defaultdict(list)
        for name in reversed(self.instructions):
            chain = self.chains[name]
            if chain and all(self.chains[reader] != chain for reader in self.readers[name]):
                shapes[chain] += (array.shape for array in self.instructions[name].results)
        return dict(shapes)

    def count_macs(self) -> Counter[Chain]:
        """Return the multiply-accumulates of the products of each equation."""
        macs: Counter[Chain] = Counter()
        for name, instruction in self.instructions.items():
            if instruction.opcode == "dot":
                macs[self.chains[name]] += self._count_macs_of_product(instruction)
        return macs

    def list_exchanges(self) -> list[Exchange]:
        """Return the exchanges, in the order of the text."""
        return [
            self._read_exchange(name, instruction)
            for name, instruction in self.instructions.items()
            if instruction.opcode in _KINDS
        ]

    def _count_macs_of_product(self, instruction: Instruction) -> int:
        """Return the elements of the product, times the sizes of the dimensions that are summed over."""
        [left] = self._list_given(instruction)
        contracted = _CONTRACTED.search(instruction.attributes)
        sums = prod(left.shape[int(index)] for index in contracted[1].split(",") if index) if contracted else 1
        return sums * sum(prod(array.shape) for array in instruction.results)

    def _read_exchange(self, name: str, instruction: Instruction) -> Exchange:
        kind = _KINDS[instruction.opcode]
        results = instruction.results
        return Exchange(
            chain=self._find_reading_equation(name) if kind == "all-gather" else self.chains[name],
            scopes=instruction.scopes,
            kind=kind,
            groups=instruction.attributes,
            shape=self._list_given(instruction)[0].shape,
            elements=sum(prod(array.shape) for array in results),
            bytes=sum(array.bytes for array in results),
            slices=self._count_slices(name),
        )

    def _count_slices(self, name: str) -> int:
        """Return how many slices the result of an instruction has, if only one of them is read; 1 if all is read."""
        results = self.instructions[name].results
        readers = [self.instructions[reader] for reader in self.readers[name]]
        if len(results) != 1 or [reader.opcode for reader in readers] != ["dynamic-slice"]:
            return 1
        return prod(results[0].shape) // max(1, prod(readers[0].results[0].shape))

    def _find_reading_equation(self, name: str) -> Chain:
        """Return the numbers of the equation for which an instruction gathers data.

        They are its own numbers, or the numbers of an inner equation that reads its result: from jaxlib 0.12 on, an
        instruction that gathers a weight has the scope of the weight, or of the loop or checkpoint around.
        """
        around, waiting, visited = self.chains[name], [name], {name}
        while waiting:
            for reader in self.readers[waiting.pop(0)]:
                chain = self.chains[reader]
                if len(chain) > len(around) and chain[: len(around)] == around:
                    return chain
                if reader not in visited:
                    visited.add(reader)
                    waiting.append(reader)
        return around

    def _list_given(self, instruction: Instruction) -> Sequence[ResultArray]:
        """Return the arrays of an instruction's first operand; from jaxlib 0.12 on it may be of a tuple: ``%w#0``."""
        name = instruction.operands[0]
        arrays = self.instructions[name].results
        element = re.match(rf"%{re.escape(name)}#(\d+)", instruction.attributes)
        return [arrays[int(element[1])]] if element else arrays
