"""The operators of each pass, with the layers and the nodes of the written graph that each of them works for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath

from onnx import ModelProto

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import CalledOperator, KernelTime, OperatorTime, OperatorTimes

from ..model.scopes import Scopes, find_scopes
from ..running.optimized import Rewritten, main_node, rewrite
from ..running.profiled import ProfiledPass, profile_passes
from ..running.rewritten_nodes import Origin
from ..running.runs import make_feeds
from ..running.sessions import make_options
from ..trace.pricing import name_operator
from ..trace.tracing import operators_by_node

__all__ = ["RanNode", "operator_times", "rewrite_nodes", "run_nodes"]

_FORWARD = "forward"


@dataclass(frozen=True)
class RanNode:
    """A node of the graph that was run.

    Attributes:
        name: Its name in that graph.
        operator: Its operator, with the domain.
        layer: The path of the layer that its time belongs to: of the node that it mainly does the work of.
        others: The paths of further layers whose work it does, because the runtime has fused them.
        called: The operators of the static trace whose work it does.
        seconds: Its seconds in each pass.
    """

    name: str
    operator: str
    layer: str
    others: tuple[str, ...]
    called: CalledOperator
    seconds: tuple[float, ...] = ()


def operator_times(
    model: ModelProto,
    inputs: ModelInputs,
    level: str,
    device: str,
    passes: int,
    export: str | PathLike[str] | None = None,
) -> OperatorTimes:
    """Return the seconds of each operator in each layer, with the operators of the static trace that it does.

    Raises `InputError` for an ``export`` that cannot be written, before anything runs.
    """
    wrong = None if export is None else obstacle(export)
    if wrong is not None:
        raise InputError(f"export={fspath(export or '')!r}: {wrong}")
    nodes, profiled = run_nodes(model, inputs, level, device, passes, export)
    groups: dict[tuple[str, str], list[tuple[int, RanNode]]] = {}
    for order, node in enumerate(nodes):
        groups.setdefault((node.operator, node.layer), []).append((order, node))
    return OperatorTimes(
        tuple(_sum_group(operator, layer, members) for (operator, layer), members in groups.items()),
        {_FORWARD: tuple(single.seconds for single in profiled)},
        {_FORWARD: frozenset(find_scopes(model).types)},
        remarks=tuple(_describe_fused_layers(nodes)),
    )


def _sum_group(operator: str, layer: str, members: Sequence[tuple[int, RanNode]]) -> OperatorTime:
    """Return the time of all nodes of one operator in one layer; each comes with its place in the graph."""
    seconds = tuple(map(sum, zip(*(node.seconds for _, node in members), strict=True)))
    called = tuple((order, node.called) for order, node in members)
    kernels = (KernelTime(operator, len(members), seconds),)  # the runtime tells of no kernels inside a node
    return OperatorTime(operator, layer, _FORWARD, len(members), seconds, kernels, called)


def _describe_fused_layers(nodes: Sequence[RanNode]) -> list[str]:
    """Say in words which operators do the work of several layers."""
    return [
        f"{node.operator} of layer {node.layer!r} does the work of {', '.join(map(repr, node.others))} too: the "
        "runtime has fused them"
        for node in nodes
        if node.others
    ]


def run_nodes(
    model: ModelProto,
    inputs: ModelInputs,
    level: str,
    device: str,
    passes: int,
    export: str | PathLike[str] | None = None,
) -> tuple[list[RanNode], list[ProfiledPass]]:
    """Run so many passes under the profiler; return the nodes that ran in the order of the graph, and the passes."""
    feeds = make_feeds(model, inputs)
    options = make_options(level)
    rewritten: list[Rewritten] = []

    def make_session() -> object:  # called when the options have the profiler switched on
        rewritten.append(rewrite(model, options, device, inputs))
        return rewritten[0].session

    profiled = profile_passes(options, make_session, feeds, passes, device, inputs, export)
    return _add_seconds(_attribute_nodes(model, inputs, rewritten[0]), profiled), profiled


def rewrite_nodes(model: ModelProto, inputs: ModelInputs, level: str, device: str) -> list[RanNode]:
    """Return the nodes of the graph as onnxruntime rewrites it by a level, without any seconds; nothing is run."""
    return _attribute_nodes(model, inputs, rewrite(model, make_options(level), device, inputs))


def _attribute_nodes(model: ModelProto, inputs: ModelInputs, rewritten: Rewritten) -> list[RanNode]:
    """Return the nodes of a rewritten graph with the layers and operators of the written graph that they work for."""
    executed, scopes = operators_by_node(model, inputs), find_scopes(model)
    return [
        _attribute_node(node.name, name_operator(node), origin, executed, scopes)
        for node, origin in zip(rewritten.graph.graph.node, rewritten.origins, strict=True)
    ]


def _attribute_node(
    name: str, operator: str, origin: Origin, executed: dict[int, list[Executed]], scopes: Scopes
) -> RanNode:
    """Return one node; of the written nodes whose work it does, the one with the most arithmetic has the time."""
    covered = [index for index in origin.covered if index in executed]
    main = max(covered, key=lambda index: _sum_flops(executed[index]), default=main_node(origin))
    layer = "" if main is None else scopes.chains[main][-1].path
    others = dict.fromkeys(scopes.chains[index][-1].path for index in covered)
    others.pop(layer, None)
    inside = tuple(
        CalledOperator(op.operator, layer=scopes.chains[index][-1].path) for index in covered for op in executed[index]
    )
    is_free = not inside and main is not None  # the runtime has added it, to copy or convert what that node makes
    return RanNode(name, operator, layer, tuple(others), CalledOperator("", inside, is_free))


def _sum_flops(executed: Sequence[Executed]) -> int:
    return sum(op.flops for op in executed)


def _add_seconds(nodes: Sequence[RanNode], passes: Sequence[ProfiledPass]) -> list[RanNode]:
    """Return the nodes that ran, with their seconds; what has no name of the graph belongs to the model itself."""
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(passes))
    operators: dict[str, str] = {}
    for index, single in enumerate(passes):
        for event in single.nodes:
            seconds[event["name"]][index] += event["dur"] / 1e6
            operators[event["name"]] = event["args"].get("op_name", event["name"])
    known_names = {node.name for node in nodes}
    unknown = [
        RanNode(name, operator, "", (), CalledOperator(""))
        for name, operator in operators.items()
        if name not in known_names
    ]
    return [replace(node, seconds=tuple(seconds[node.name])) for node in (*nodes, *unknown) if node.name in operators]
