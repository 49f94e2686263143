"""The facts that torch's exporter tells about the tensors of the exported module, in the metadata of the model."""

from __future__ import annotations

import re
from collections.abc import Iterable

from onnx import ModelProto, NodeProto

from profilerkit.costs.numbers import is_float

from .constants import Constant, Use

__all__ = ["ExportedModule"]

#: The metadata key of the list of the module's tensors.
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
#: A line of this list: the argument of the exported program, its role, and the name of the tensor.
_TENSOR = re.compile(r"^(\w+): (PARAMETER|BUFFER) target='([^']+)'", re.MULTILINE)
_PARAMETER = "PARAMETER"
#: The metadata key of the operator of torch that a node is a part of:
#: "%group_norm = call_function[target=torch.ops.aten.group_norm.default](args = (%x, 2, %p_0_weight, %p_0_bias))".
_TORCH_OPERATOR = "pkg.torch.onnx.fx_node"
#: An argument of the exported program in this text that is a parameter.
_TORCH_PARAMETER = re.compile(r"%(p_\w+)")
#: The beginning of the names of weights that the exporter's quantization has put in the place of parameters.
_FROZEN = "_frozen_param"
#: Names of constants that the exporter has computed, maybe from a parameter.
_COMPUTED = re.compile(r"val_\d+|.*lifted_tensor.*|_tensor_constant\d+|scalar_tensor.*")
#: Names of results of operators of torch that only move the elements of a parameter or a buffer.
_MOVED = re.compile(
    r"(_to_copy|_unsafe_view|alias|cat|clone|detach|expand|flatten|flip|getitem|permute|reshape|roll|select|slice|squeeze"
    r"|t|transpose|unsqueeze|view)(_\d+)?"
)


class ExportedModule:
    """The module that a model was exported from; of a model that is not torch's, nothing is told."""

    def __init__(self, model: ModelProto, constants: Iterable[Constant]) -> None:
        entries = (*model.metadata_props, *model.graph.metadata_props)
        tensors = _TENSOR.findall("\n".join(entry.value for entry in entries if entry.key == _SIGNATURE))
        #: By the name of each tensor of the module, whether it is a parameter, and no buffer.
        self._are_parameters = {name: role == _PARAMETER for _, role, name in tensors}
        names = {constant.name for constant in constants}
        missing = {argument: name for argument, role, name in tensors if role == _PARAMETER and name not in names}
        read = _list_parameters_of_nodes(model) if missing else ()
        #: The parameters that are not in the file by their names, and that no node reads. An operator of torch that has
        #: no node in the graph has moved their elements or computed with them, unless the module does not use them.
        self.lost = [name for argument, name in missing.items() if argument not in read]

    def is_parameter(self, constant: Constant) -> bool | None:
        """Return whether a floating-point constant is a parameter of the module; None if the exporter does not tell."""
        is_told = is_float(constant.dtype) and not constant.name.startswith(_FROZEN)
        return self._are_parameters.get(constant.name) if is_told else None

    def has_computed(self, constant: Constant) -> bool:
        """Return whether the exporter has computed a constant, and has not only given a parameter another form."""
        name = constant.name
        if name in self._are_parameters or any(map(_works_with_parameter, constant.uses)):
            return False
        if _COMPUTED.fullmatch(name):
            return True
        if self.lost and _MOVED.fullmatch(name):
            return False
        return bool(self._are_parameters) and name.isidentifier()  # the name of an operator: "sin", "zeros_1"


def _list_parameters_of_nodes(model: ModelProto) -> set[str]:
    """Return the parameters that operators of torch read whose nodes are in the graph."""
    return {parameter for node in model.graph.node for parameter in _list_torch_parameters(node)}


def _list_torch_parameters(node: NodeProto) -> set[str]:
    """Return the parameters that the operator of torch reads which a node is a part of, as the operator names them."""
    texts = [entry.value for entry in node.metadata_props if entry.key == _TORCH_OPERATOR]
    return set(_TORCH_PARAMETER.findall(" ".join(texts)))


def _works_with_parameter(use: Use) -> bool:
    """Return whether a node is a part of an operator of torch that reads a parameter, and scales, shifts or looks up.

    Examples are the affine part of a group norm, to whose weights the exporter has added dimensions, and the matrices
    of experts, which it has transposed.
    """
    is_table = use.node.op_type in ("Gather", "GatherND") and use.input == 0
    return (is_table or use.node.op_type in ("Add", "Mul")) and bool(_list_torch_parameters(use.node))
