"""Operators that move, make, choose or compare data, and work on texts and sequences: no floating-point arithmetic.

Comparisons that return truth values cost nothing here, as in the other backends.
"""

from __future__ import annotations

from .registry import OPERATORS

#: Copies, casts and rearrangements.
_MOVED = """
    BitCast Cast CastLike Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity
    MaxUnpool Pad Reshape ReverseSequence Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose Trilu Unsqueeze
    CenterCropPad
"""
#: New tensors.
_MADE = """
    Constant ConstantOfShape EyeLike OneHot Range Shape Size
    Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
"""
#: Choices, comparisons and truth values, and the indices of the largest and smallest elements.
_CHOSEN = """
    And ArgMax ArgMin Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual NonZero Not Or TopK Unique Where Xor
"""
#: Work on integers.
_INTEGERS = "BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor"
#: Sequences, optional values and texts.
_OTHERS = """
    ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty
    SequenceErase SequenceInsert SequenceLength SplitToSequence
    ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit
"""
for _names in (_MOVED, _MADE, _CHOSEN, _INTEGERS, _OTHERS):
    OPERATORS.register_free(*_names.split())

#: Look-ups of ai.onnx.ml, and a comparison.
_OF_TABLES = """
    ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer LabelEncoder OneHotEncoder
    ZipMap
"""
OPERATORS.register_free(*(f"ai.onnx.ml::{name}" for name in _OF_TABLES.split()))

#: Into the blocked layout of onnxruntime, and out of it.
OPERATORS.register_free("com.microsoft.nchwc::ReorderInput", "com.microsoft.nchwc::ReorderOutput")
