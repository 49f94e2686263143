"""The settings of layers: what the attributes of their convolutions and poolings say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replace_fields
from onnx import AttributeProto, NodeProto, helper

from profilerkit import ModelTrace

__all__ = ["add_settings"]

_SHOWN = ("kernel_shape", "strides", "dilations", "group")


def add_settings(trace: ModelTrace, nodes: Iterable[NodeProto], paths: Sequence[str]) -> ModelTrace:
    """Return a trace whose layers have the settings of their nodes, as "kernel_shape=(3, 3), strides=(2, 2)".

    ``paths`` has the layer of each node. Of a layer with several such nodes it is not said which is meant: it has none.
    """
    written: dict[str, set[str]] = {}
    for node, path in zip(nodes, paths, strict=True):
        text = ", ".join(f"{one.name}={_read(one)}" for one in node.attribute if one.name in _SHOWN)
        written.setdefault(path, set()).update([text] if text else [])
    settings = {path: min(texts) for path, texts in written.items() if len(texts) == 1}
    layers = (replace_fields(layer, configuration=settings.get(layer.path, "")) for layer in trace.layers)
    return replace(trace, layers=tuple(layers))


def _read(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return value if isinstance(value, (int, float, bytes)) else tuple(value)
