"""The settings of a layer in a few words: its kernel, stride and sizes, from the text of its framework."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["write_settings"]

#: A setting of a layer as its framework writes it: ``kernel_size=(3, 3)``.
_SETTING = re.compile(r"(\w+)=(\([^()]*\)|[^,()]+)")
_NUMBER = re.compile(r"\d+")
#: The settings of layers that are shown, in the names of several frameworks, and the words for them.
_SETTINGS = {
    "kernel_size": "kernel",
    "pool_size": "kernel",
    "kernel_shape": "kernel",
    "stride": "stride",
    "strides": "stride",
    "dilation": "dilation",
    "dilation_rate": "dilation",
    "dilations": "dilation",
    "groups": "groups",
    "group": "groups",
    "in_features": "in",
    "out_features": "out",
    "units": "out",
}
_USUALLY_ONE = ("stride", "dilation", "groups")


def write_settings(row: Mapping[str, Any]) -> str:
    """Return the most telling settings of a layer, from the text of its framework in ``configuration``.

    >>> write_settings({"configuration": "3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False"})
    '7x7, stride 2'
    >>> write_settings({"configuration": "in_features=512, out_features=1000, bias=True"})
    'in 512, out 1000'
    """
    settings = dict(_SETTING.findall(row.get("configuration") or ""))
    words = []
    for name, word in _SETTINGS.items():
        sizes = _NUMBER.findall(settings.get(name, ""))
        if not sizes or (word in _USUALLY_ONE and set(sizes) == {"1"}):
            continue
        is_square = len(set(sizes)) == 1 and word != "kernel"
        written = sizes[0] if is_square else "x".join(sizes)
        words.append(written if word == "kernel" and len(sizes) > 1 else f"{word} {written}")
    return ", ".join(words)
