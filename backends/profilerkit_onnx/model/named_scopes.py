"""Layers in the names of nodes, ``/block/convolution/Conv``, as torch's older exporter writes them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import NamedTuple

from onnx import ModelProto

from profilerkit.backend_kit.named_layers import LayersAround, nest_scopes

__all__ = ["read_names"]


def read_names(model: ModelProto) -> list[LayersAround]:
    """Return the layers that names such as ``/block/block.0/Conv`` tell, and which call of the innermost it is.

    The second call of a layer has a number at its name, ``/block/convolution_1/Conv``. It is told from a layer that is
    called so by its sibling ``/block/convolution``, and by the weights, which have the names of their layers.
    """
    scopes = [node.name.lstrip("/").rpartition("/")[0] for node in model.graph.node]
    paths_by_scope = {scope: tuple(nest_scopes(scope.split("/"))) for scope in dict.fromkeys(scopes)}
    all_paths = {path for paths in paths_by_scope.values() for path in paths}
    owners = {tensor.name.rpartition(".")[0] for tensor in model.graph.initializer}
    calls = {path: _split_number(path, all_paths, owners) for path in all_paths}
    around = {
        scope: LayersAround(tuple(calls[path].layer for path in paths), tuple(calls[path].number for path in paths))
        for scope, paths in paths_by_scope.items()
    }
    return [around[scope] for scope in scopes]


class _NumberedCall(NamedTuple):
    """A call of a layer: the path of the layer, and the number of the call."""

    layer: str
    number: int


def _split_number(path: str, all_paths: Container[str], owners: Iterable[str]) -> _NumberedCall:
    """Return the call that a path is; ``owners`` are the layers with weights."""
    numbered = re.fullmatch(r"(.+)_(\d+)", path)
    if numbered is None or numbered[1] not in all_paths or _has_weights(path, owners):
        return _NumberedCall(path, 0)
    return _NumberedCall(numbered[1], int(numbered[2]))


def _has_weights(path: str, owners: Iterable[str]) -> bool:
    return any(owner == path or owner.startswith(f"{path}.") for owner in owners)
