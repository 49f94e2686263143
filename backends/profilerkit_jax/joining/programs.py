"""Programs that XLA compiles: of a model, as text; the instructions in it, and the layer that each works for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from profilerkit import ModelInputs

from ..model.arrays import is_array
from ..model.calls import bind_call, compile_function, make_step
from ..model.scope_names import Marks, read_last_mark
from ..model.subject import Pass
from ..model.subjects import find_subject

__all__ = ["Instruction", "InstructionLayers", "compile_program", "find_layer", "find_layers", "read_program"]


def compile_program(model: Any, inputs: ModelInputs, training: bool) -> str:
    """Return the text of the program that XLA compiles of a pass or a training step; raises as a run does."""
    subject = find_subject(model)
    call = bind_call(subject, inputs, Pass(training, Marks()))

    def outputs(weights: Any, arrays: Any) -> list[Any]:
        return [leaf for leaf in jax.tree.leaves(call(weights, arrays)[0]) if is_array(leaf)]

    function = make_step(subject, call) if training else outputs
    return compile_function(function, subject, inputs).as_text() or ""


# The text of a program: its instructions, as records ------------------------------------------------------------------


#: ``%dot.1 = f32[2,4]{1,0} dot(%x, %w), lhs_contracting_dims={1}, metadata={op_name="jit(f)/dot_general"}``
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (.*?)\s([a-z][\w\-]*)\((.*)$")
#: ``%fused_computation (param_0: f32[2,4]) -> f32[2,4] {``, or behind ``ENTRY`` the one that a program begins with
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_FUSED = re.compile(r"calls=%?([\w.\-]+)")
_OPERAND = re.compile(r"%([\w.\-]+)")
_SCOPES = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Instruction:
    """An instruction of a compiled program.

    Attributes:
        opcode: What it does: "dot", "fusion".
        scopes: The scopes that it was traced in, as one text: "jit(f)/block/dot_general"; empty if XLA has added it.
        operands: The names of the instructions that it reads, and of the computations that it calls.
        computation: The computation that it stands in.
        fused: The computation that a fusion stands for; empty for others.
        type: The dtype and shape of its result: ``f32[4,128]{1,0}``; of several results in brackets.
        attributes: Its operands and attributes as text, without the metadata: "%x, %w), lhs_contracting_dims={1}, ".
    """

    opcode: str
    scopes: str
    operands: tuple[str, ...]
    computation: str
    fused: str = ""
    type: str = ""
    attributes: str = ""


def read_program(text: str) -> dict[str, Instruction]:
    r"""Return the instructions of a program by their names.

    >>> program = (
    ...     "ENTRY %main (x: f32[2,8], w: f32[8,4]) -> f32[2,4] {\n"
    ...     '  ROOT %dot.1 = f32[2,4]{1,0} dot(%x, %w), lhs_contracting_dims={1}, metadata={op_name="jit(f)/dot"}'
    ... )
    >>> dot = read_program(program)["dot.1"]
    >>> dot.opcode, dot.type, dot.operands, dot.scopes, dot.computation
    ('dot', 'f32[2,4]{1,0}', ('x', 'w'), 'jit(f)/dot', 'main')
    """
    instructions: dict[str, Instruction] = {}
    computation = ""
    for line in text.splitlines():
        header = _COMPUTATION.match(line)
        match = _INSTRUCTION.match(line)
        if header:
            computation = header[1]
        elif match:
            name, result_type, opcode, rest = match.groups()
            instructions[name] = _read_instruction(result_type, opcode, rest, computation)
    return instructions


def _read_instruction(result_type: str, opcode: str, rest: str, computation: str) -> Instruction:
    """Return an instruction; ``rest`` is what stands behind the bracket that opens its operands."""
    scopes, fused = _SCOPES.search(rest), _FUSED.search(rest)
    attributes = rest.partition("metadata=")[0]
    return Instruction(
        opcode,
        scopes=scopes[1] if scopes else "",
        operands=tuple(_OPERAND.findall(attributes)),
        computation=computation,
        fused=fused[1] if fused else "",
        type=result_type,
        attributes=attributes,
    )


# The layer of each instruction, by the scopes that XLA keeps with it --------------------------------------------------


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

    A fusion is of the layer of its product, if it has one, otherwise of that of most of its instructions. What XLA has
    added, such as a copy in another layout, is of the layer that reads it.
    """
    layers: dict[str, str] = {}
    for name, instruction in instructions.items():
        layer = find_layer(instruction.scopes, paths)
        if layer is not None:
            layers[name] = layer
    by_fusion = _add_layers_of_fusions(instructions, layers)
    _add_layers_of_readers(instructions, layers)
    return InstructionLayers(layers, by_fusion)


def _add_layers_of_fusions(instructions: Mapping[str, Instruction], layers: dict[str, str]) -> dict[str, set[str]]:
    """Give each fusion a layer of its instructions; return all layers of these, by the name of the fusion."""
    names_by_computation: dict[str, list[str]] = {}
    for name, instruction in instructions.items():
        names_by_computation.setdefault(instruction.computation, []).append(name)
    by_fusion: dict[str, set[str]] = {}
    for name, instruction in instructions.items():
        inside = [member for member in names_by_computation.get(instruction.fused, ()) if member in layers]
        if instruction.opcode == "fusion" and inside:
            by_fusion[name] = {layers[member] for member in inside}
            products = [member for member in inside if instructions[member].opcode in _PRODUCTS]
            [(layer, _)] = Counter(layers[member] for member in products or inside).most_common(1)
            layers[name] = layer
    return by_fusion


def _add_layers_of_readers(instructions: Mapping[str, Instruction], layers: dict[str, str]) -> None:
    """Give each instruction without a layer that of the first instruction that reads it.

    Readers stand behind what they read: from the last to the first, a whole chain of copies gets the layer of its end.
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
        names = [part for part in scopes.split("/") if part and "(" not in part]  # no jit(f), jvp(f)
        return _find_longest_path(names, paths)
    layer = mark.layer
    for part in filter(None, mark.inside.split("/")):
        name = part.replace(".", "_")  # as paths have it, in which a dot begins another layer
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
