"""Families of layers: what frameworks and exporters call differently and is one thing, as ``Linear`` and ``Dense``."""

from __future__ import annotations

import re

__all__ = ["ACTIVATION", "GENERIC", "find_family", "is_activation"]

#: What the type of a layer is called where only its place is known: by exporters that write no classes.
GENERIC = "module"
#: The family of a layer that has its function as an option, as in Keras.
ACTIVATION = "activation"
#: Names of one family, each in lower case, without underscores and dimensions: ``Conv2d`` and ``CONV_2D`` are "conv".
_FAMILIES = {
    "attention": "multiheadattention multiheaddotproductattention",
    "average pooling": "averagepool averagepooling avgpool",
    "batch norm": "batchnorm batchnormalization spatialbatchnormalization",
    "convolution": "conv convolution depthwiseconv fusedconv groupconvolution",
    "embedding": "embed embedding",
    "flatten": "flatten reshape",
    "global average pooling": "adaptiveavgpool globalaveragepool globalaveragepooling mean reducemean",
    "group norm": "groupnorm groupnormalization",
    "layer norm": "layernorm layernormalization",
    "linear": "dense fullyconnected fusedgemm fusedmatmul gemm linear matmul",
    "max pooling": "maxpool maxpooling",
    "sigmoid": "logistic sigmoid",
    "padding": "pad zeropad zeropadding",
    "transposed convolution": "convolutionbackpropdata convtranspose transposeconv transposedconv",
}
_OF_NAME = {name: family for family, names in _FAMILIES.items() for name in names.split()}
_ACTIVATIONS = frozenset(
    (
        *(
            "activation",
            "elu",
            "gelu",
            "hardsigmoid",
            "hardswish",
            "leakyrelu",
            "logistic",
            "mish",
            "relu",
            "relu6",
            "selu",
        ),
        *("sigmoid", "silu", "softmax", "softplus", "softsign", "tanh"),
    )
)


def find_family(layer_type: str) -> tuple[str, str]:
    """Return the family of a type of layers, and its dimensions where the name has them.

    A type of no family is one of its own.

    >>> find_family("CONV_2D"), find_family("Gemm"), find_family("Block")
    (('convolution', '2d'), ('linear', ''), ('block', ''))
    """
    name = _write_plain(layer_type)
    parts = re.fullmatch(r"(.*?)(\dd)?", name)
    bare, dimensions = (parts[1], parts[2] or "") if parts is not None else (name, "")
    return _OF_NAME.get(bare, bare), dimensions


def is_activation(layer_type: str) -> bool:
    """Return whether layers of a type are one element-wise function, or a softmax."""
    return _write_plain(layer_type) in _ACTIVATIONS


def _write_plain(layer_type: str) -> str:
    return layer_type.lower().replace("_", "")
