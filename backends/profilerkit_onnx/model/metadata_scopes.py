"""Layers in the metadata of nodes, as torch's exporter by ``torch.export`` (``dynamo=True``) writes them.

Two entries hold lists, as Python writes them: the paths of the modules around a node, the model itself (an empty path)
first, and their classes. Each list ends with the node: its name, or its operator. Of a convolution in ``block.conv``::

    pkg.torch.onnx.name_scopes      ['', 'block', 'block.conv', 'conv2d']
    pkg.torch.onnx.class_hierarchy  ['net.Net', 'net.Block', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d.default']
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from onnx import NodeProto

from profilerkit.backend_kit.named_layers import LayersAround, is_path

__all__ = ["MetadataLayer", "has_scopes", "list_layers", "read_layers", "read_types", "write_layers"]

#: The keys of both entries.
_PATHS, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


class MetadataLayer(NamedTuple):
    """A layer around a node: its path, which is empty for the model itself, and the name of its class."""

    path: str
    type: str


def has_scopes(node: NodeProto) -> bool:
    """Return whether the metadata of a node tells its layer, if only that it is the model itself."""
    return bool(_read_entry(node, _PATHS))


def read_layers(node: NodeProto) -> LayersAround:
    """Return the paths of the layers around a node."""
    return LayersAround(tuple(dict.fromkeys(path for path in _read_list(node, _PATHS) if path and is_path(path))))


def read_types(nodes: Iterable[NodeProto]) -> dict[str, str]:
    """Return the name of the class of each layer by its path; where nodes tell different ones, that of the first."""
    types: dict[str, str] = {}
    for node in nodes:
        for layer in list_layers(node):
            types.setdefault(layer.path, layer.type)
    return types


def list_layers(node: NodeProto) -> Iterator[MetadataLayer]:
    """Yield the layers around a node, the model itself first; their classes without the modules that define them."""
    for path, name in zip(_read_list(node, _PATHS), _read_list(node, _CLASSES), strict=False):  # a file may lack some
        yield MetadataLayer(path, name.rpartition(".")[2])


def write_layers(node: NodeProto, layers: Sequence[MetadataLayer]) -> None:
    """Write the layers around a node, from the outermost on; all other metadata of it is deleted."""
    around = list(layers) or [MetadataLayer("", "")]
    del node.metadata_props[:]
    node.metadata_props.add(key=_PATHS, value=repr([*(layer.path for layer in around), node.name]))
    node.metadata_props.add(key=_CLASSES, value=repr([*(layer.type for layer in around), node.op_type]))


def _read_list(node: NodeProto, key: str) -> list[str]:
    """Return the texts in a list of the metadata, without the last one, which is the node; none if it is no list."""
    text = _read_entry(node, key)
    try:
        names = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)][:-1] if isinstance(names, list) else []


def _read_entry(node: NodeProto, key: str) -> str:
    return next((entry.value for entry in node.metadata_props if entry.key == key), "")
