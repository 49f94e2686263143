"""The graph as it is run: onnxruntime's rewritten graph of a model, with the layers that its nodes come from."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from onnx import ModelProto

from profilerkit import ArgumentError
from profilerkit.backend import DeviceLike
from profilerkit.error_text import shown

from ..loaders import open_model
from ..model.declared_inputs import list_declared
from ..model.layer_metadata import NodeLayers, write_layers
from ..model.model_file import read_whole
from ..model.scopes import find_scopes
from ..model.types import count_bytes
from .devices import resolve_device
from .node_origins import Origin, find_origins, main_node
from .sessions import LEVELS, make_options, make_session

__all__ = ["Rewritten", "optimize", "rewrite"]

#: From this number of bytes on, the weights of a rewritten graph go to another file, which is never read.
_LARGE = 2**28


@dataclass(frozen=True)
class Rewritten:
    """A session, the graph that it runs, and the origins of the nodes of this graph."""

    session: Any
    graph: ModelProto
    origins: list[Origin]


def optimize(model: Any, level: str = "all", device: DeviceLike = None) -> ModelProto:
    """Return the graph that onnxruntime runs in place of a model's graph: to profile it, or to compare the two.

    Each node has the metadata of its layer; a fused node has the metadata of the first node that it covers. A node that
    stayed as it was has the index of the written node in its name: "conv:3". The weights of a large model are left out:
    its graph can be counted, and not run.

    Args:
        model: A ``ModelProto``, a path or an exported program.
        level: How far the graph is rewritten: "all", "extended", "basic" or "none".
        device: The device that it is rewritten for.

    Raises `ArgumentError` for another level, and the errors of a run.
    """
    if level not in LEVELS:
        raise ArgumentError(f"level={shown(level)}: give one of {', '.join(map(repr, LEVELS))}")
    written = open_model(model)
    rewritten = rewrite(written, make_options(level), resolve_device(device))
    scopes = find_scopes(written)
    for node, origin in zip(rewritten.graph.graph.node, rewritten.origins, strict=True):
        index = main_node(origin)
        paths = [""] if index is None else [scope.path for scope in scopes.chains[index]]
        layers = NodeLayers(paths, [scopes.types[path] for path in paths])
        write_layers(node, layers, None if index is None else written.graph.node[index])
    graph = rewritten.graph.graph
    # The runtime declares inputs with default values also where it has computed with these, and then without them.
    lost = {value.name for value in list_declared(rewritten.graph)} - {value.name for value in list_declared(written)}
    inputs = [value for value in graph.input if value.name not in lost]
    del graph.input[:]
    graph.input.extend(inputs)
    graph.name = written.graph.name
    del graph.metadata_props[:]
    graph.metadata_props.extend(written.graph.metadata_props)  # the exporter's facts about the weights
    return rewritten.graph


def rewrite(model: ModelProto, options: Any, device: str, inputs: object = None) -> Rewritten:
    """Return a session of a model, the graph that it runs, and the origin of each node of it.

    Both are of a copy, in whose names each node has its index. The options get a path for the rewritten graph.
    """
    named = _number_nodes(model)
    with TemporaryDirectory(prefix="profilerkit-") as folder:
        path = Path(folder, "rewritten.onnx")
        options.optimized_model_filepath = str(path)
        weights = named.graph.initializer
        if sum(count_bytes(tensor.dims, tensor.data_type) for tensor in weights) > _LARGE:
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
        session = make_session(named, options, device, inputs)
        graph = onnx.load(path, load_external_data=False)
    return Rewritten(session, graph, find_origins(named, graph))


def _number_nodes(model: ModelProto) -> ModelProto:
    """Return a copy of a model whose nodes have names that differ, by which the runtime's profiler tells them."""
    copy = deepcopy(read_whole(model))
    for index, node in enumerate(copy.graph.node):
        node.name = f"{node.name}:{index}"
    return copy
