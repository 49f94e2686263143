"""The kinds and families of operators whose measured times stand in for those of others that were not measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

#: The kind or family that replaces an unmeasured one; a replacement may have a replacement too.
_STAND_IN: Mapping[str, str] = {
    **dict.fromkeys(("convolution", "recurrent", "batched product"), "product"),
    "attention": "batched product",
    **dict.fromkeys(("depthwise convolution", "convolution gradient"), "convolution"),
    "depthwise convolution gradient": "convolution gradient",
    **dict.fromkeys(("recurrent gradient", "stepwise recurrent"), "recurrent"),
    "stepwise recurrent gradient": "recurrent gradient",
    **dict.fromkeys(("activation", "reduction", "movement"), "element-wise"),
    "gather": "movement",
    **dict.fromkeys(("normalization", "random", "activation gradient"), "activation"),
    **dict.fromkeys(("pooling", "batch normalization", "softmax", "normalization gradient"), "normalization"),
    **dict.fromkeys(("average pooling", "upsampling", "pooling gradient"), "pooling"),
    "average pooling gradient": "average pooling",
    "upsampling gradient": "upsampling",
    **dict.fromkeys(("batch statistics", "batch normalization gradient"), "batch normalization"),
    "softmax gradient": "softmax",
}


def list_stand_ins(kind: str) -> Iterator[str]:
    """Yield a kind or family, and its replacements if it was not measured, the nearest first.

    >>> list(list_stand_ins("attention"))
    ['attention', 'batched product', 'product']
    """
    name: str | None = kind
    while name is not None:
        yield name
        name = _STAND_IN.get(name)
