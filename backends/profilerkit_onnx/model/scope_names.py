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
    paths = [list(nest_scopes(node.name.lstrip("/").split("/")[:-1])) for node in model.graph.node]
    weights = _find_weights(model, paths)
    named = add_outer(tensor.name.rpartition(".")[0] for tensor in model.graph.initializer)
    calls = {path: _read_call(path, weights, named) for path in weights}
    return [tuple([calls[path] for path in nested]) for nested in paths]


def _find_weights(model: ModelProto, paths: Iterable[Sequence[str]]) -> Mapping[str, Set[str]]:
    """Return the weights of two or more dimensions that the nodes inside each path read.

    ``paths`` has the paths around each node. A weight that is read in several places may have a copy for each.
    """
    originals = {tensor.name: tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 1}
    weights: defaultdict[str, set[str]] = defaultdict(set)
    for node, nested in zip(model.graph.node, paths, strict=True):
        names = {originals[name] for name in node.input if name in originals}
        if node.op_type == "Identity":
            originals.update((node.output[0], name) for name in names)
        for path in nested:
            weights[path] |= names
    return weights


def _read_call(path: str, weights: Mapping[str, Set[str]], named: Container[str]) -> Scope:
    """Return the call that a path stands for; ``named`` are the layers in the names of weights, and those around."""
    numbered = re.fullmatch(r"(.+)_(\d+)", path)
    if numbered is None or numbered[1] not in weights or path in named:
        return Scope(path)
    has_own_weights = weights[path] and weights[path].isdisjoint(weights[numbered[1]])
    return Scope(path) if has_own_weights else Scope(numbered[1], int(numbered[2]))
