"""Programs of ``torch.export`` as modules with the layers of their model; their declared inputs and their nodes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn
from torch.export.graph_signature import ConstantArgument, InputKind

from profilerkit import InputError, ModelInputs
from profilerkit.declared_inputs import DeclaredInput
from profilerkit.trace.records import OpRecord

from ..compat.files import tree_unflatten
from ..compat.modes import TorchDispatchMode
from ..compat.names import VERSION
from ..compat.operators import find_operator

__all__ = ["is_program", "make_layered", "read_declared_inputs", "with_nodes"]

_CLONE = find_operator("aten.clone.default")
#: The attribute of a module that has the inputs for which its program was exported.
_DECLARED = "_profilerkit_declared_inputs"
#: The attribute of a module that keeps the nodes of its program that call something: names and operators.
_NODES = "_profilerkit_nodes"
#: Where a node has the layers that it belongs to, the outermost first.
_LAYERS = "nn_module_stack"
#: Model Explorer's name of the graph of a program.
_GRAPH = "graph"


def is_program(model: Any) -> bool:
    """Return whether something is an exported program."""
    return isinstance(model, torch.export.ExportedProgram)


def make_layered(program: torch.export.ExportedProgram) -> nn.Module:
    """Return an exported program as a module of its layers, which shares the weights of the program.

    Inputs may be passed by position or by name, whichever way the program was exported. A call with other inputs raises
    `TypeError`, which names those that the program takes.
    """
    module: Any = _unflatten(program)
    process_as_exported = module.process_forward_inputs

    def process_forward_inputs(*args: Any, **kwargs: Any) -> Any:
        positional, by_name = _pass_as_exported(program, args, kwargs)
        return process_as_exported(*positional, **by_name)

    module.process_forward_inputs = process_forward_inputs
    setattr(module, _DECLARED, _declare_inputs(program))
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    setattr(module, _NODES, [(node.name, str(node.target)) for node in calls])
    layered: nn.Module = module
    return layered


def _unflatten(program: torch.export.ExportedProgram) -> Any:
    """Return a program as torch unflattens it; the program's metadata, to which torch writes, are as before."""
    metadata = program.graph_module.meta
    before = dict(metadata)
    stacks = [node.meta[_LAYERS] for node in program.graph.nodes if node.meta.get(_LAYERS)]
    outermost = dict(islice(stacks[0].items(), 1)) if stacks else {}
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    # What takes a part of a weight that wraps others: torch notes no layer for it.
    parts = [(node, node.meta) for node in calls if not node.meta.get(_LAYERS)]
    try:
        for node, meta in parts:
            node.meta = {**meta, _LAYERS: outermost}
        with warnings.catch_warnings(), torch.no_grad(), _Sharing():
            warnings.filterwarnings("ignore", category=FutureWarning, message=r"`isinstance\(treespec")  # torch's own
            return torch.export.unflatten(program)
    except RuntimeError as error:
        raise InputError(
            f"torch {VERSION} cannot bring the program into the layers of its model: {error} Export the "
            "model with strict=False, or from within another module"
        ) from error
    finally:
        for node, meta in parts:
            node.meta = meta
        metadata.clear()
        metadata.update(before)


class _Sharing(TorchDispatchMode):
    """Has a clone share the elements of its source: torch would give the module copies of the program's weights."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0].detach() if func is _CLONE else func(*args, **(kwargs or {}))


def _pass_as_exported(
    program: torch.export.ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the inputs, positional and by name, as they were at the export; raise `TypeError` for others."""
    signature: Any = program.module_call_graph[0].signature
    positional, named = tree_unflatten([None] * signature.in_spec.num_leaves, signature.in_spec)
    if len(args) == len(positional) and kwargs.keys() == named.keys():
        return args, kwargs
    all_names = signature.forward_arg_names or [f"input {index}" for index in range(len(positional))]
    positional_names = list(all_names[: len(positional)])
    names = [*positional_names, *(name for name in named if name not in positional_names)]
    inputs_by_name = {**dict(zip(all_names, args, strict=False)), **kwargs}
    is_given_twice = len(inputs_by_name) < len(args) + len(kwargs)
    if is_given_twice or inputs_by_name.keys() != set(names):
        raise TypeError(
            f"the program was exported for the inputs {', '.join(names) or 'none'}; it got {len(args)} by position, "
            f"and by name: {', '.join(kwargs) or 'none'}"
        )
    return [inputs_by_name[name] for name in positional_names], {name: inputs_by_name[name] for name in named}


def read_declared_inputs(module: nn.Module) -> ModelInputs | None:
    """Return the call that a program was exported for, of the module of its layers; None for any other module."""
    return vars(module).get(_DECLARED)


def with_nodes(module: nn.Module, operators: Sequence[OpRecord]) -> tuple[OpRecord, ...]:
    """Return the operators of a pass with the nodes of the program that the module was made of.

    Without the nodes of operators that no pass records, such as views, the program must have called the same operators
    in the same order; else it is not known which node is which, and no operator has one.
    """
    recorded = {op.operator for op in operators}
    nodes = [(name, operator) for name, operator in vars(module).get(_NODES, ()) if operator in recorded]
    if not nodes or [operator for _, operator in nodes] != [op.operator for op in operators]:
        return tuple(operators)
    return tuple(replace(op, node=(_GRAPH, name)) for op, (name, _) in zip(operators, nodes, strict=True))


def _declare_inputs(program: torch.export.ExportedProgram) -> ModelInputs:
    """Return the inputs of a program, with a `DeclaredInput` for each tensor; sizes may be open."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    leaves = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT:
            continue
        is_constant = isinstance(spec.arg, ConstantArgument)  # such as a text, which may be the name of an input too
        leaves.append(spec.arg.value if is_constant else _declare_leaf(spec.arg.name, values[spec.arg.name]))
    signature: Any = program.module_call_graph[0].signature
    args, kwargs = tree_unflatten(leaves, signature.in_spec)
    return ModelInputs(*args, **kwargs)


def _declare_leaf(name: str, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    return DeclaredInput(name, shape, str(value.dtype).removeprefix("torch."))
