"""The layer that each instruction of a compiled program works for, by the scopes that XLA keeps with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from ..model.scope_names import read_last_mark
from .programs import Instruction

__all__ = ["InstructionLayers", "find_layer", "find_layers"]

#: Instructions that multiply matrices: of a fusion they decide the layer. A custom call, as a rule, is a product too,
#: by a library.
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

    A fusion belongs to the layer of its product, if it has one, otherwise to the layer of most of its instructions. An
    instruction that XLA has added, a copy in another layout for example, belongs to the layer that reads its result.
    """
    layers: dict[str, str] = {}
    for name, instruction in instructions.items():
        layer = find_layer(instruction.scopes, paths)
        if layer is not None:
            layers[name] = layer
    by_fusion = _add_layers_of_fusions(instructions, layers)
    _add_layers_of_readers(instructions, layers)
    return InstructionLayers(layers, by_fusion)


def find_layer(scopes: str, paths: Container[str]) -> str | None:
    """Return the layer that scopes lead to: the innermost mark, and scopes of the user's in it; None without a mark.

    The mark of ``block`` in ``jit(f)/jvp(MARK)/conv/dot_general`` leads to ``block.conv`` if that is the path of a
    layer, otherwise to ``block``. Without marks, in the user's own program for example, the longest row of scopes that
    is the path of a layer is the layer.
    """
    mark = read_last_mark(scopes)
    if mark is None:
        names = [part for part in scopes.split("/") if part and "(" not in part]  # no jit(f), jvp(f)
        return _find_longest_path(names, paths)
    layer = mark.layer
    for part in filter(None, mark.inside.split("/")):
        name = part.replace(".", "_")  # like in paths, in which a dot begins another layer
        inner = f"{layer}.{name}" if layer else name
        if inner in paths:
            layer = inner
    return layer


def _find_longest_path(parts: Sequence[str], paths: Container[str]) -> str | None:
    """Return the path that the most neighbouring parts make; the first of several of one length."""
    for length in range(len(parts), 0, -1):
        for begin in range(len(parts) - length + 1):
            path = ".".join(parts[begin : begin + length])
            if path in paths:
                return path
    return None


def _add_layers_of_fusions(instructions: Mapping[str, Instruction], layers: dict[str, str]) -> dict[str, set[str]]:
    """Give each fusion a layer of its instructions; return all layers of these, by the name of the fusion.

    A fusion inside another one stands before it in the text: it brings its layers along, and its product.
    """
    names_by_computation: dict[str, list[str]] = {}
    for name, instruction in instructions.items():
        names_by_computation.setdefault(instruction.computation, []).append(name)
    products = {name for name, instruction in instructions.items() if instruction.opcode in _PRODUCTS}
    by_fusion: dict[str, set[str]] = {}
    for name, instruction in instructions.items():
        inside = [member for member in names_by_computation.get(instruction.fused, ()) if member in layers]
        if instruction.opcode != "fusion" or not inside:
            continue
        inner_products = [member for member in inside if member in products]
        if inner_products:
            products.add(name)
        [(layer, _)] = Counter(layers[member] for member in inner_products or inside).most_common(1)
        by_fusion[name] = set().union(*(by_fusion.get(member, {layers[member]}) for member in inside))
        layers[name] = layer
    return by_fusion


def _add_layers_of_readers(instructions: Mapping[str, Instruction], layers: dict[str, str]) -> None:
    """Give each instruction without a layer the layer of the first instruction that reads it.

    Readers stand behind their inputs: from the last to the first, a whole chain of copies gets the layer of its end.
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
