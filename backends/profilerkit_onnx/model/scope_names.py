"""The layers in the names of nodes, as the older exporter of torch (TorchScript) writes them: ``/block/conv/Conv``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence, Set

from onnx import ModelProto

from profilerkit.backend_kit.named_layers import nest_scopes
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.layer_paths import add_outer

__all__ = ["read_names"]


def read_names(model: ModelProto) -> list[tuple[Scope, ...]]:
    """Return the layers in names such as ``/block/block.0/Conv``, and the number of the call of each layer.

    The second call of a layer has a number behind its name, ``/block/convolution_1/Conv``. A layer of that name is told
    from a second call of its sibling ``/block/convolution`` by the weights: the weights that the sibling reads, or
    weights with the names of their layers. Without weights nothing tells: ``relu`` and ``relu_1`` are one layer.
    """
    scopes = [node.name.lstrip("/").rpartition("/")[0] for node in model.graph.node]
    paths = {scope: list(nest_scopes(scope.split("/"))) for scope in dict.fromkeys(scopes)}
    weights = _find_weights(model, scopes, paths)
    owners = add_outer([tensor.name.rpartition(".")[0] for tensor in model.graph.initializer])
    around = {}
    for scope, nested in paths.items():
        around[scope] = tuple([_split_number(path, weights, owners) for path in nested])
    return [around[scope] for scope in scopes]


def _find_weights(
    model: ModelProto, scopes: Iterable[str], paths: Mapping[str, Sequence[str]]
) -> Mapping[str, Set[str]]:
    """Return the weights of two or more dimensions that the nodes inside each path read.

    ``scopes`` has the scope of each node, and ``paths`` has the paths around each scope. A weight that is read in
    several places may have a copy for each.
    """
    originals = {tensor.name: tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 1}
    read: defaultdict[str, set[str]] = defaultdict(set)
    for node, scope in zip(model.graph.node, scopes, strict=True):
        names = {originals[name] for name in node.input if name in originals}
        if node.op_type == "Identity":
            originals.update((node.output[0], name) for name in names)
        for path in paths[scope]:
            read[path] |= names
    return read


def _split_number(path: str, weights: Mapping[str, Set[str]], owners: Container[str]) -> Scope:
    """Return the call that a path stands for; ``owners`` are the layers named in weights, and the layers around."""
    numbered = re.fullmatch(r"(.+)_(\d+)", path)
    if numbered is None or numbered[1] not in weights or path in owners:
        return Scope(path)
    if weights[path] and weights[path].isdisjoint(weights[numbered[1]]):
        return Scope(path)
    return Scope(numbered[1], int(numbered[2]))
