"""Which layer each instruction of the program works for that XLA compiles of a model: read from the program's text.

The model is compiled here, each layer in a scope whose name XLA keeps with its instructions; nothing is run. The same
versions name the instructions of the same program alike, so that a profile's names are found in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import explain_failure

from ..model.arrays import is_array, make_struct
from ..model.calls import bind_call, list_arrays
from ..model.scope_names import Marks, read_last_mark
from ..model.subject import Pass
from ..model.subjects import find_subject
from ..training.steps import make_step

__all__ = ["Instruction", "InstructionLayers", "compile_program", "find_layer", "find_layers", "read_program"]

_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (.*?)\s([a-z][\w\-]*)\((.*)$")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_CALLS = re.compile(r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)")
_OPERAND = re.compile(r"%([\w.\-]+)")
_SCOPES = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
#: The instructions with products: of a fusion they decide the layer.
_PRODUCTS = ("dot", "convolution", "custom-call")


@dataclass(frozen=True)
class Instruction:
    """An instruction of a compiled program.

    Attributes:
        opcode: What it does: "dot", "fusion".
        scopes: The scopes that it was traced in; empty if XLA has added it.
        operands: The names of the instructions that it reads, and of the computations that it calls.
        computation: The computation that it stands in.
        calls: The computation that it calls first; empty for none.
        type: The dtype and shape of its result: ``f32[4,128]{1,0}``; of several results in brackets.
        attributes: All that stands behind its operands.
    """

    opcode: str
    scopes: str
    operands: tuple[str, ...]
    computation: str
    calls: str = ""
    type: str = ""
    attributes: str = ""


def compile_program(model: Any, inputs: ModelInputs, training: bool) -> str:
    """Return the text of the program that XLA compiles of a pass or a training step; raises as a run does."""
    subject = find_subject(model)
    call = bind_call(subject, inputs, Pass(training, Marks()))

    def outputs(weights: Any, arrays: Any) -> list[Any]:
        return [leaf for leaf in jax.tree.leaves(call(weights, arrays)[0]) if is_array(leaf)]

    weights = [make_struct(value) for value in subject.values]
    arrays = [make_struct(array) for array in list_arrays(inputs)]
    try:
        compiled = jax.jit(make_step(subject, call) if training else outputs).lower(weights, arrays).compile()
        return compiled.as_text() or ""
    except Exception as error:
        raise explain_failure(error, inputs, "jax", __package__ or "") from error


def read_program(text: str) -> dict[str, Instruction]:
    """Return the instructions of a program by their names."""
    instructions: dict[str, Instruction] = {}
    computation = ""
    for line in text.splitlines():
        header = _COMPUTATION.match(line)
        if header:
            computation = header[1]
            continue
        match = _INSTRUCTION.match(line)
        if match is None:
            continue
        name, result_type, opcode, rest = match.groups()
        scopes, calls = _SCOPES.search(rest), _CALLS.search(rest)
        attributes = rest.partition("metadata=")[0]
        instructions[name] = Instruction(
            opcode,
            scopes[1] if scopes else "",
            tuple(_OPERAND.findall(attributes)),
            computation,
            calls[1] if calls else "",
            result_type,
            attributes,
        )
    return instructions


class InstructionLayers(NamedTuple):
    """The layers that the instructions of a program work for.

    Attributes:
        by_name: The layer of each instruction whose scopes, or readers, tell it.
        fused: All layers that a fused instruction works for.
    """

    by_name: dict[str, str]
    fused: dict[str, set[str]]


def find_layers(instructions: Mapping[str, Instruction], paths: Container[str]) -> InstructionLayers:
    """Return the layers that instructions work for.

    A fusion is of the layer of its product, if it has one, otherwise of that of most of its instructions. What XLA has
    added, such as a copy in another layout, is of the layer that reads it.
    """
    layers: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for name, instruction in instructions.items():
        layer = find_layer(instruction.scopes, paths)
        if layer is not None:
            layers[name] = layer
        members.setdefault(instruction.computation, []).append(name)
    fused: dict[str, set[str]] = {}
    for name, instruction in instructions.items():
        inside = [member for member in members.get(instruction.calls, ()) if member in layers]
        if instruction.opcode == "fusion" and inside:
            products = [member for member in inside if instructions[member].opcode in _PRODUCTS]
            fused[name] = {layers[member] for member in inside}
            [(layers[name], _)] = Counter(layers[member] for member in products or inside).most_common(1)
    _add_layers_of_readers(instructions, layers)
    return InstructionLayers(layers, fused)


def _add_layers_of_readers(instructions: Mapping[str, Instruction], layers: dict[str, str]) -> None:
    """Give instructions without a layer that of the first that reads them, the last ones first."""
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

    Without marks, as in a program of the user's own, it is the longest row of scopes that is the path of a layer.
    """
    mark = read_last_mark(scopes)
    if mark is None:
        return _find_longest_path([part for part in scopes.split("/") if part and "(" not in part], paths)
    layer = mark.layer
    for part in filter(None, mark.inside.split("/")):
        inner = f"{layer}.{part.replace('.', '_')}" if layer else part.replace(".", "_")
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
