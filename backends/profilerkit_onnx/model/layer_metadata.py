"""The layers around a node in its metadata, as torch's exporter by ``torch.export`` (``dynamo=True``) writes them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from onnx import NodeProto

__all__ = ["NodeLayers", "read_layers", "write_layers"]

#: The keys of both entries.
_PATHS, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


class NodeLayers(NamedTuple):
    """The layers around a node, the model itself first; none if its metadata does not tell them.

    Attributes:
        paths: The path of each; empty for the model itself.
        types: The name of the class of each, without the module that defines it; a file may lack some.
    """

    paths: Sequence[str] = ()
    types: Sequence[str] = ()


def read_layers(node: NodeProto) -> NodeLayers:
    """Return the layers around a node, of two lists in its metadata, as Python writes them.

    These are the paths of the modules around the node, the model itself (an empty path) first, and their classes. Each
    list ends with the node: its name, or its operator. Of a convolution in ``block.conv``::

        pkg.torch.onnx.name_scopes      ['', 'block', 'block.conv', 'conv2d']
        pkg.torch.onnx.class_hierarchy  ['net.Net', 'net.Block', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d.default']
    """
    if not node.metadata_props:
        return NodeLayers()
    texts = {entry.key: entry.value for entry in node.metadata_props}
    types = [name.rpartition(".")[2] for name in _read_list(texts.get(_CLASSES, ""))]
    return NodeLayers(_read_list(texts.get(_PATHS, "")), types)


def write_layers(node: NodeProto, layers: NodeLayers, origin: NodeProto | None) -> None:
    """Write the layers around a node, and the further metadata of the node that it comes from."""
    del node.metadata_props[:]
    for entry in () if origin is None else origin.metadata_props:
        if entry.key not in (_PATHS, _CLASSES):
            node.metadata_props.add(key=entry.key, value=entry.value)
    node.metadata_props.add(key=_PATHS, value=repr([*layers.paths, node.name]))
    node.metadata_props.add(key=_CLASSES, value=repr([*layers.types, node.op_type]))


def _read_list(text: str) -> list[str]:
    """Return the texts in a list of the metadata, without the last one, which is the node; none if it is no list."""
    try:
        names = ast.literal_eval(text) if text else []
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # all that ``literal_eval`` may raise
        return []
    return [name for name in names if isinstance(name, str)][:-1] if isinstance(names, list) else []
