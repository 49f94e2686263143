"""The settings of layers, such as the strides of a convolution, from the attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import NodeProto, helper

__all__ = ["read_settings"]

#: Attributes of convolutions and poolings that tables of layers show.
_SETTINGS = ("kernel_shape", "strides", "dilations", "group")


def read_settings(nodes: Iterable[NodeProto], paths: Sequence[str]) -> dict[str, str]:
    """Return the settings of layers by their paths, as "kernel_shape=(3, 3), strides=(2, 2)".

    ``paths`` has the layer of each node. A layer of several nodes with different settings has none here.
    """
    written: dict[str, set[str]] = {}
    for node, path in zip(nodes, paths, strict=True):
        settings = []
        for attribute in node.attribute:
            if attribute.name in _SETTINGS:
                value = helper.get_attribute_value(attribute)
                value = value if isinstance(value, (int, float, bytes)) else tuple(value)
                settings.append(f"{attribute.name}={value!r}")
        if settings:
            written.setdefault(path, set()).add(", ".join(settings))
    return {path: min(texts) for path, texts in written.items() if len(texts) == 1}
