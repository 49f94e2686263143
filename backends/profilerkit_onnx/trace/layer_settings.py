"""The settings of layers: what the attributes of their convolutions and poolings say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, helper

__all__ = ["read_settings"]

_SHOWN = ("kernel_shape", "strides", "dilations", "group")


def read_settings(nodes: Iterable[NodeProto], paths: Sequence[str]) -> dict[str, str]:
    """Return the settings of layers by their paths, as "kernel_shape=(3, 3), strides=(2, 2)".

    ``paths`` has the layer of each node. Of a layer with several such nodes it is not said which is meant: it has none.
    """
    written: dict[str, set[str]] = {}
    for node, path in zip(nodes, paths, strict=True):
        text = ", ".join(f"{one.name}={_read(one)}" for one in node.attribute if one.name in _SHOWN)
        if text:
            written.setdefault(path, set()).add(text)
    return {path: min(texts) for path, texts in written.items() if len(texts) == 1}


def _read(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return value if isinstance(value, (int, float, bytes)) else tuple(value)
