"""The seconds of each node that onnxruntime runs, with its layer and the nodes of the written graph behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike, fspath

from onnx import ModelProto

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.ran_nodes import RanGraph, RanNode, make_node
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import CalledOperator

from ..model.nodes import name_operator
from ..model.scopes import find_scopes
from ..trace.tracing import list_operators
from .node_origins import main_node
from .optimized import Rewritten, rewrite
from .profiled import ProfiledPass, profile_passes, switch_profiler_on
from .runs import make_feeds
from .sessions import make_options

__all__ = ["rewrite_nodes", "time_nodes"]


def time_nodes(
    model: ModelProto,
    inputs: ModelInputs,
    level: str,
    device: str,
    passes: int,
    export: str | PathLike[str] | None = None,
) -> RanGraph:
    """Run so many passes under the profiler; return the nodes that ran, in the order of the graph, with their seconds.

    Raises `InputError` for an ``export`` that cannot be written, before anything runs.
    """
    wrong = None if export is None else obstacle(export)
    if wrong is not None:
        raise InputError(f"export={fspath(export or '')!r}: {wrong}")
    feeds, options = make_feeds(model, inputs), make_options(level)
    with switch_profiler_on(options):
        rewritten = rewrite(model, options, device, inputs)
        profiled = profile_passes(rewritten.session, feeds, passes, device, inputs, export)
    layers = find_scopes(model)
    nodes = _add_seconds(_describe_nodes(model, inputs, rewritten, layers), profiled)
    return RanGraph(nodes, [one_pass.seconds for one_pass in profiled], layers)


def rewrite_nodes(model: ModelProto, inputs: ModelInputs, level: str) -> list[RanNode]:
    """Return the nodes of the graph as onnxruntime rewrites it for a CPU, without any seconds; nothing is run."""
    return _describe_nodes(model, inputs, rewrite(model, make_options(level), "cpu", inputs), find_scopes(model))


def _describe_nodes(model: ModelProto, inputs: ModelInputs, rewritten: Rewritten, layers: Scopes) -> list[RanNode]:
    """Return the nodes of a rewritten graph with the layers and operators of the written graph that they work for.

    If a node does the work of several written nodes, the layer with most of their arithmetic gets the time.
    """
    executed = list_operators(model, inputs)
    nodes = []
    for node, origin in zip(rewritten.graph.graph.node, rewritten.origins, strict=True):
        covered = [operator for index in origin.covered for operator in executed.get(index, ())]
        nodes.append(make_node(node.name, name_operator(node), covered, layers.paths, main_node(origin)))
    return nodes


def _add_seconds(nodes: Iterable[RanNode], passes: Sequence[ProfiledPass]) -> list[RanNode]:
    """Return the nodes that ran, with their seconds; a kernel that is no node of the graph is the model's own."""
    operators: dict[str, str] = {}
    seconds: dict[str, list[float]] = {}
    for index, one_pass in enumerate(passes):
        for kernel in one_pass.kernels:
            operators[kernel.name] = kernel.operator
            seconds.setdefault(kernel.name, [0.0] * len(passes))[index] += kernel.seconds
    ran = [node for node in nodes if node.name in operators]
    others = operators.keys() - {node.name for node in ran}
    ran += [RanNode(name, operators[name], "", (), CalledOperator("")) for name in operators if name in others]
    return [replace(node, seconds=tuple(seconds[node.name])) for node in ran]
