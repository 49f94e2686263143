"""The facts that torch's exporter tells about the tensors of the exported module, in the metadata of the model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from onnx import ModelProto, NodeProto

from profilerkit.costs.numbers import is_float

from .constants import Constant, Use

__all__ = ["ExportedModule", "Role"]

#: The metadata key of the list of the module's tensors, a line of this list, and the beginning of the names of weights
#: that the exporter's quantization has put in the place of parameters.
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_TENSOR, _FROZEN = re.compile(r"^(\w+): (PARAMETER|BUFFER) target='([^']+)'", re.MULTILINE), "_frozen_param"
#: The metadata key of the operator of torch that a node is a part of, and the name of a parameter in this text:
#: "%group_norm = call_function[target=torch.ops.aten.group_norm.default](args = (%x, 2, %p_0_weight, %p_0_bias))".
_TORCH_OPERATOR, _TORCH_PARAMETER = "pkg.torch.onnx.fx_node", re.compile(r"%(p_\w+)")
#: Names of constants that the exporter has computed, maybe from a parameter.
_COMPUTED = re.compile(r"val_\d+|.*lifted_tensor.*|_tensor_constant\d+|scalar_tensor.*")
#: Names of results of operators of torch that only move the elements of a parameter or a buffer.
_MOVED = re.compile(r"(clone|expand|flatten|permute|reshape|select|slice|squeeze|t|transpose|unsqueeze|view)(_\d+)?")


class Role(Enum):
    """The role of a tensor in the module."""

    PARAMETER = "PARAMETER"
    BUFFER = "BUFFER"


class ExportedModule:
    """The module that a model was exported from; of a model that is not torch's, no role is told.

    A parameter has moved if it is no constant, and if no operator of torch with nodes in the graph reads it: then an
    operator that moves its elements may have given it a name in the file.
    """

    def __init__(self, model: ModelProto, constants: Iterable[Constant]) -> None:
        self._roles: dict[str, Role] = {}
        missing: set[str] = set()
        names = {constant.name for constant in constants}
        for entry in (*model.metadata_props, *model.graph.metadata_props):
            for argument, role, name in _TENSOR.findall(entry.value) if entry.key == _SIGNATURE else ():
                self._roles[name] = Role(role)
                if self._roles[name] is Role.PARAMETER and name not in names:
                    missing.add(argument)
        for node in model.graph.node if missing else ():
            missing -= _list_torch_parameters(node)
        self._has_moved_parameter = bool(missing)

    def tell_role(self, constant: Constant) -> Role | None:
        """Return the role of a floating-point constant; None if the exporter does not tell it."""
        is_told = is_float(constant.dtype) and not constant.name.startswith(_FROZEN)
        return self._roles.get(constant.name) if is_told else None

    def has_computed(self, constant: Constant) -> bool:
        """Return whether the exporter has computed a constant, and has not only given a parameter another form."""
        name = constant.name
        if name in self._roles or any(map(_works_with_parameter, constant.uses)):
            return False
        if _COMPUTED.fullmatch(name):
            return True
        if not self._roles or not name.isidentifier():
            return False
        return not (self._has_moved_parameter and _MOVED.fullmatch(name))  # "sin", "zeros_1": an operator's result


def _list_torch_parameters(node: NodeProto) -> set[str]:
    """Return the parameters that the operator of torch reads which a node is a part of, as the operator names them."""
    texts = [entry.value for entry in node.metadata_props if entry.key == _TORCH_OPERATOR]
    return set(_TORCH_PARAMETER.findall(" ".join(texts)))


def _works_with_parameter(use: Use) -> bool:
    """Return whether a node is a part of an operator of torch that reads a parameter, and scales or shifts by it.

    An example is the affine part of a group norm: the exporter has added dimensions to its weights.
    """
    return use.node.op_type in ("Add", "Mul") and bool(_list_torch_parameters(use.node))
