"""The operators of each pass, with the layers and the nodes of the written graph that each of them works for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath

from onnx import ModelProto

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.ran_nodes import RanNode, make_node, time_operators
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import CalledOperator, OperatorTimes

from ..model.scopes import find_scopes
from ..running.optimized import Rewritten, main_node, rewrite
from ..running.profiled import ProfiledPass, profile_passes
from ..running.rewritten_nodes import Origin
from ..running.runs import make_feeds
from ..running.sessions import make_options
from ..trace.pricing import name_operator
from ..trace.tracing import list_operators

__all__ = ["RanNode", "operator_times", "rewrite_nodes", "run_nodes"]


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
    return time_operators(nodes, [single.seconds for single in profiled], find_scopes(model).types)


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
    executed, scopes = list_operators(model, inputs), find_scopes(model)
    return [
        _attribute_node(node.name, name_operator(node), origin, executed, scopes)
        for node, origin in zip(rewritten.graph.graph.node, rewritten.origins, strict=True)
    ]


def _attribute_node(
    name: str, operator: str, origin: Origin, executed: dict[int, list[Executed]], scopes: Scopes
) -> RanNode:
    """Return one node; of the written nodes whose work it does, the one with the most arithmetic has the time."""
    covered = [op for index in origin.covered for op in executed.get(index, ())]
    return make_node(name, operator, covered, scopes.chains, main_node(origin))


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
