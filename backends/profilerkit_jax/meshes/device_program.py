"""The program that XLA makes for each device of a mesh: the shapes of its share, its products, and what it exchanges.

It is read right after XLA has divided the program: before the rewrites for a kind of device, which need not be that of
the mesh. Each instruction has the numbers of the equation that it was made of (`numbered`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ..joining.programs import Instruction, read_program
from ..model.scope_names import EQUATION
from .numbered import Chain, find_by_chain, list_numbers

__all__ = ["DeviceProgram", "Exchange", "Memory", "compile_program", "read_device_program"]

#: The pass of XLA's that divides a program.
_DIVIDED = "after_spmd-partitioning"
#: What keeps XLA from making the machine code fast: it never runs.
_OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")
_BITS = re.compile(r"\d+")
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
#: What XLA calls the body of a loop among scopes.
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


class _Array(NamedTuple):
    """An array that an instruction returns."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes that it takes; a truth value takes one."""
        bits = _BITS.search(self.dtype)
        return (prod(self.shape) * (int(bits[0]) if bits else 8) + 7) // 8


@dataclass(frozen=True)
class Exchange:
    """An instruction that exchanges something.

    Attributes:
        chain: The numbers of the equation that it was made of; empty if XLA has added it.
        scopes: Its scopes.
        kind: "all-gather", "all-reduce", ...
        groups: The part of the instruction that says which devices exchange with each other.
        shape: The shape of what one device gives.
        elements: The elements of what it returns.
        bytes: The bytes of what it returns.
        slices: How many slices that has, if the device keeps no more than one of them; 1 if it keeps all.
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
        exchanges: What is exchanged, in the order of the text.
        memory: What XLA reserves.
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
    """Compile what JAX has lowered, and return the program of each device."""
    with tempfile.TemporaryDirectory() as folder:
        written = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": "spmd-partitioning", "xla_dump_hlo_as_text": True}
        sizes = lowered.compile(compiler_options={**_OPTIONS, **written}).memory_analysis()
        texts = [path.read_text(encoding="utf-8") for path in Path(folder).glob(f"*{_DIVIDED}*.txt")]
    memory = Memory(*(int(getattr(sizes, f"{part}_size_in_bytes")) for part in ("argument", "output", "temp")))
    return read_device_program("\n".join(texts), memory)


def read_device_program(text: str, memory: Memory) -> DeviceProgram:
    """Return what the text of a divided program says; nothing for an empty text, of a program that is not divided."""
    instructions = read_program(text)
    chains = {name: list_numbers(instruction.scopes.partition(";")[0]) for name, instruction in instructions.items()}
    readers: dict[str, list[str]] = {}
    for name, instruction in instructions.items():
        for operand in instruction.operands:
            readers.setdefault(operand, []).append(name)
    shapes: dict[Chain, list[tuple[int, ...]]] = {}
    macs: dict[Chain, int] = {}
    exchanges: list[Exchange] = []
    for name, instruction in reversed(instructions.items()):
        chain = chains[name]
        if chain and all(chains[reader] != chain for reader in readers.get(name, ())):
            shapes.setdefault(chain, []).extend(array.shape for array in _list_arrays(instruction.type))
        if instruction.opcode == "dot":
            macs[chain] = macs.get(chain, 0) + _count_macs(instruction, instructions)
        if instruction.opcode in _KINDS:
            around = [instructions[reader] for reader in readers.get(name, ())]
            is_gather = _KINDS[instruction.opcode] == "all-gather"
            equation = _find_reading_equation(name, chains, readers) if is_gather else chain
            exchanges.insert(0, _read_exchange(instruction, equation, instructions, around))
    return DeviceProgram(shapes, macs, exchanges, memory)


def _find_reading_equation(name: str, chains: Mapping[str, Chain], readers: Mapping[str, Sequence[str]]) -> Chain:
    """Return the numbers of the equation that an instruction gathers something for.

    They are its own, or those of an equation inside that reads what it returns: from jaxlib 0.12 on, what gathers a
    weight has the scope of the weight, or of the loop or checkpoint around.
    """
    around, waiting, visited = chains[name], [name], {name}
    while waiting:
        for reader in readers.get(waiting.pop(0), ()):
            chain = chains[reader]
            if len(chain) > len(around) and chain[: len(around)] == around:
                return chain
            if reader not in visited:
                visited.add(reader)
                waiting.append(reader)
    return around


def _list_arrays(text: str) -> list[_Array]:
    """Return the arrays in the type of an instruction."""
    return [
        _Array(dtype, tuple(int(size) for size in sizes.split(",") if size)) for dtype, sizes in _ARRAY.findall(text)
    ]


def _list_given(instruction: Instruction, instructions: Mapping[str, Instruction]) -> list[_Array]:
    """Return the arrays of an instruction's first operand; from jaxlib 0.12 on one of a tuple may be ``%name#0``."""
    name = instruction.operands[0]
    arrays = _list_arrays(instructions[name].type)
    element = re.match(rf"%{re.escape(name)}#(\d+)", instruction.attributes)
    return [arrays[int(element[1])]] if element else arrays


def _count_macs(instruction: Instruction, instructions: Mapping[str, Instruction]) -> int:
    """Return the multiply-accumulates of a product: of each element as many as dimensions are summed over."""
    [left] = _list_given(instruction, instructions)
    contracted = _CONTRACTED.search(instruction.attributes)
    sums = prod(left.shape[int(index)] for index in contracted[1].split(",") if index) if contracted else 1
    return sums * sum(prod(array.shape) for array in _list_arrays(instruction.type))


def _read_exchange(
    instruction: Instruction, chain: Chain, instructions: Mapping[str, Instruction], readers: Sequence[Instruction]
) -> Exchange:
    """Return an instruction that exchanges something; the readers of its result say whether a slice of that is kept."""
    first, returned = _list_given(instruction, instructions), _list_arrays(instruction.type)
    elements = sum(prod(array.shape) for array in returned)
    slices = [_list_arrays(reader.type) for reader in readers if reader.opcode == "dynamic-slice"]
    is_sliced = len(slices) == len(readers) == 1 and len(returned) == 1
    return Exchange(
        chain,
        instruction.scopes,
        _KINDS[instruction.opcode],
        instruction.attributes,
        first[0].shape,
        elements,
        sum(array.bytes for array in returned),
        elements // max(1, prod(slices[0][0].shape)) if is_sliced else 1,
    )
