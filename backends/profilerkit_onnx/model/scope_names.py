"""The layers in the names of nodes, as the older exporter of torch (TorchScript) writes them: ``/block/conv/Conv``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from onnx import ModelProto

from profilerkit.backend_kit.named_layers import LayersAround, nest_scopes
from profilerkit.trace.layer_paths import add_outer

__all__ = ["read_names"]


def read_names(model: ModelProto) -> list[LayersAround]:
    """Return the layers that names such as ``/block/block.0/Conv`` tell, and which call of the innermost it is.

    The second call of a layer has a number at its name, ``/block/convolution_1/Conv``. It is told from a layer that is
    called so by its sibling ``/block/convolution``, and by the weights: those that the sibling reads, or those that
    have the names of their layers. Of layers without weights nothing tells it: ``relu`` and ``relu_1`` are one layer.
    """
    scopes = [node.name.lstrip("/").rpartition("/")[0] for node in model.graph.node]
    paths_by_scope = {scope: tuple(nest_scopes(scope.split("/"))) for scope in dict.fromkeys(scopes)}
    weights = _list_weights(model, [paths_by_scope[scope] for scope in scopes])
    owners = add_outer(tensor.name.rpartition(".")[0] for tensor in model.graph.initializer)
    calls = {path: _split_number(path, weights, owners) for path in weights}
    around = {
        scope: LayersAround(tuple(calls[path].layer for path in paths), tuple(calls[path].number for path in paths))
        for scope, paths in paths_by_scope.items()
    }
    return [around[scope] for scope in scopes]


def _list_weights(model: ModelProto, paths: Iterable[Sequence[str]]) -> Mapping[str, Set[str]]:
    """Return the matrices, and what has more dimensions, that the nodes inside each path read.

    ``paths`` has those of each node. A weight that is read in several places may have a copy for each.
    """
    originals = {tensor.name: tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 1}
    read: defaultdict[str, set[str]] = defaultdict(set)
    for node, around in zip(model.graph.node, paths, strict=True):
        names = {originals[name] for name in node.input if name in originals}
        if node.op_type == "Identity":
            originals.update((node.output[0], name) for name in names)
        for path in around:
            read[path] |= names
    return read


class _NumberedCall(NamedTuple):
    """A call of a layer: the path of the layer, and the number of the call."""

    layer: str
    number: int


def _split_number(path: str, weights: Mapping[str, Set[str]], owners: Container[str]) -> _NumberedCall:
    """Return the call that a path is; ``owners`` are the layers whose names weights have, and those around them."""
    numbered = re.fullmatch(r"(.+)_(\d+)", path)
    if numbered is None or numbered[1] not in weights or path in owners:
        return _NumberedCall(path, 0)
    if weights[path] and weights[path].isdisjoint(weights[numbered[1]]):
        return _NumberedCall(path, 0)
    return _NumberedCall(numbered[1], int(numbered[2]))
