"""Families of layers: types that do the same under the names of different frameworks, as ``Linear`` and ``Dense``."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["ACTIVATION", "GENERIC", "find_family", "is_activation"]

#: The type of layers from exporters that write no classes: only the places of these layers are known.
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
_DIMENSIONS = re.compile(r"\dd\Z")
#: The name of a layer that computes the same with weights of another form, or with an activation.
_VARIANT = re.compile(
    r"(?:dynamicquantize|parametrized|quantized|quant|hqq|qlinear|q)?(.+?)(?:relu|integer|nbits|4bit|8bitlt)?"
)
_FAMILY_OF_NAME = {name: family for family, names in _FAMILIES.items() for name in names.split()}
#: Types whose layers are one element-wise function, or a softmax, written as the names above.
_ACTIVATIONS = (
    "activation elu gelu hardsigmoid hardswish leakyrelu logistic mish relu relu6 selu sigmoid silu softmax softplus "
    "softsign tanh"
)


class Family(NamedTuple):
    """The family of a type of layers, and its dimensions if the type's name has them: "2d"."""

    name: str
    dimensions: str


def find_family(layer_type: str) -> Family:
    """Return the family of a type of layers; a type that is in no known family is a family of its own.

    >>> find_family("CONV_2D")
    Family(name='convolution', dimensions='2d')
    >>> find_family("Gemm").name, find_family("QLinear").name, find_family("Block").name
    ('linear', 'linear', 'block')
    """
    name = _write_plain(layer_type)
    dimensions = _DIMENSIONS.search(name)
    bare = name if dimensions is None else name[: dimensions.start()]
    variant = _VARIANT.fullmatch(bare)
    same = _FAMILY_OF_NAME.get(variant[1]) if variant else None
    return Family(_FAMILY_OF_NAME.get(bare) or same or bare, "" if dimensions is None else dimensions[0])


def is_activation(layer_type: str) -> bool:
    """Return whether layers of a type are one element-wise function, or a softmax."""
    return _write_plain(layer_type) in _ACTIVATIONS.split()


def _write_plain(layer_type: str) -> str:
    return layer_type.lower().replace("_", "")
