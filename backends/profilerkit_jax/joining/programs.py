"""Programs that XLA compiles: the program of a model as text, and the instructions in such a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax

from profilerkit import ModelInputs

from ..model.arrays import is_array
from ..model.calls import bind_call, compile_function, make_step
from ..model.scope_names import Marks
from ..model.subject import Pass
from ..model.subjects import find_subject

__all__ = ["Instruction", "ResultArray", "compile_program", "read_program"]


def compile_program(model: Any, inputs: ModelInputs, training: bool) -> str:
    """Return the text of the program that XLA compiles of a pass or a training step; raises as a run does."""
    subject = find_subject(model)
    call = bind_call(subject, inputs, Pass(training, Marks()))

    def outputs(weights: Any, arrays: Any) -> list[Any]:
        return [leaf for leaf in jax.tree.leaves(call(weights, arrays)[0]) if is_array(leaf)]

    function = make_step(subject, call) if training else outputs
    return compile_function(function, subject, inputs).as_text() or ""


# The text of a program ------------------------------------------------------------------------------------------------

#: ``%dot.1 = f32[2,4]{1,0} dot(%x, %w), lhs_contracting_dims={1}, metadata={op_name="jit(f)/dot_general"}``
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (.*?)\s([a-z][\w\-]*)\((.*)$")
#: ``%fused_computation (param_0: f32[2,4]) -> f32[2,4] {``, or behind ``ENTRY`` the one that a program begins with
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_FUSED = re.compile(r"calls=%?([\w.\-]+)")
_OPERAND = re.compile(r"%([\w.\-]+)")
_SCOPES = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')


#: ``f32[2,4]``
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")
_BITS = re.compile(r"\d+")


class ResultArray(NamedTuple):
    """An array that an instruction returns."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes that it takes; a truth value takes one."""
        bits = _BITS.search(self.dtype)
        return (prod(self.shape) * (int(bits[0]) if bits else 8) + 7) // 8


@dataclass(frozen=True)
class Instruction:
    """An instruction of a compiled program.

    Attributes:
        opcode: Its kind: "dot", "fusion".
        scopes: The scopes that it was traced in, as one text: "jit(f)/block/dot_general"; empty if XLA has added it.
        operands: The names of the instructions that it reads, and of the computations that it calls.
        computation: The computation that contains it.
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

    @property
    def results(self) -> list[ResultArray]:
        """The arrays that it returns."""
        arrays = _ARRAY.findall(self.type)
        return [ResultArray(dtype, tuple(int(size) for size in sizes.split(",") if size)) for dtype, sizes in arrays]


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
    """Return an instruction; ``rest`` is the text behind the opening bracket of its operands."""
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
