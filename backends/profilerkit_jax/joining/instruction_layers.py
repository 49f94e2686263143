"""Which layer each instruction of a compiled program works for: by the scopes that XLA keeps with instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..model.scope_names import read_last_mark
from .program_text import Instruction

__all__ = ["InstructionLayers", "find_layer", "find_layers"]

#: The instructions with products: of a fusion they decide the layer. A custom call is one by a library, as a rule.
_PRODUCTS = ("dot", "convolution", "custom-call")


class InstructionLayers(NamedTuple):
    """The layers that the instructions of a program work for.

    Attributes:
        by_name: The layer of each instruction whose scopes, or readers, tell it.
        by_fusion: All layers that the instructions of a fusion work for, by the name of the fusion.
    """

    by_name: dict[str, str]
    by_fusion: dict[str, set[str]]


def find_layers(instructions: Mapping[str, Instruction], paths: Container[str]) -> InstructionLayers:
    """Return the layers that instructions work for; ``instructions`` are in the order of the program's text.

    A fusion is of the layer of its product, if it has one, otherwise of that of most of its instructions. What XLA has
    added, such as a copy in another layout, is of the layer that reads it.
    """
    layers: dict[str, str] = {}
    for name, instruction in instructions.items():
        layer = find_layer(instruction.scopes, paths)
        if layer is not None:
            layers[name] = layer
    by_fusion: dict[str, set[str]] = {}
    members = _group_by_computation(instructions)
    for name, instruction in instructions.items():
        inside = [member for member in members.get(instruction.calls, ()) if member in layers]
        if instruction.opcode == "fusion" and inside:
            products = [member for member in inside if instructions[member].opcode in _PRODUCTS]
            by_fusion[name] = {layers[member] for member in inside}
            layers[name] = _find_most_frequent(layers[member] for member in products or inside)
    _add_layers_of_readers(instructions, layers)
    return InstructionLayers(layers, by_fusion)


def _group_by_computation(instructions: Mapping[str, Instruction]) -> Mapping[str, Sequence[str]]:
    """Return the names of the instructions that stand in each computation."""
    members: dict[str, list[str]] = {}
    for name, instruction in instructions.items():
        members.setdefault(instruction.computation, []).append(name)
    return members


def _find_most_frequent(layers: Iterable[str]) -> str:
    """Return the layer that is most often among some; the first of several."""
    [(layer, _)] = Counter(layers).most_common(1)
    return layer


def _add_layers_of_readers(instructions: Mapping[str, Instruction], layers: dict[str, str]) -> None:
    """Give each instruction without a layer that of the first instruction that reads it.

    Readers stand behind what they read. From the last to the first, a chain of copies gets the layer of its end.
    """
    readers: dict[str, list[str]] = {}
    for name, instruction in instructions.items():
        for operand in instruction.operands:
            readers.setdefault(operand, []).append(name)
    for name in reversed(list(instructions)):
        if name not in layers:
            layer = next((layers[reader] for reader in readers.get(name, ()) if reader in layers), None)
            if layer is not None:
                layers[name] = layer


def find_layer(scopes: str, paths: Container[str]) -> str | None:
    """Return the layer that scopes lead to: the innermost mark, and scopes of the user's in it; None without a mark.

    The mark of ``block`` in ``jit(f)/jvp(MARK)/conv/dot_general`` leads to ``block.conv`` where that is the path of a
    layer, otherwise to ``block``. Without marks, as in a program of the user's own, it is the longest row of scopes
    that is the path of a layer.
    """
    mark = read_last_mark(scopes)
    if mark is None:
        return _find_longest_path([part for part in scopes.split("/") if part and "(" not in part], paths)
    layer = mark.layer
    for part in filter(None, mark.inside.split("/")):
        name = part.replace(".", "_")  # as paths have it, in which a dot begins another layer
        inner = f"{layer}.{name}" if layer else name
        layer = inner if inner in paths else layer
    return layer


def _find_longest_path(parts: Sequence[str], paths: Container[str]) -> str | None:
    """Return the path that the most neighbouring parts make; the first of several of one length."""
    for length in range(len(parts), 0, -1):
        for begin in range(len(parts) - length + 1):
            path = ".".join(parts[begin : begin + length])
            if path in paths:
                return path
    return None
