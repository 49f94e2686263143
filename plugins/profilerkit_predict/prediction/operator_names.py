"""The names of operators as plain words, which all frameworks write differently."""

from __future__ import annotations

import re

#: Between two words of a name like "FusedBatchNorm", "LSTMBlockCell", "BlockLSTMV2" or "scatter-add".
_WORD_STARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]|V\d)|-")
#: The dimensions or the version at the end of a word.
_NUMBERS = re.compile(r"\d+d?(?=_|$)")


def plain_name(operator: str) -> str:
    """Return an operator's name without its namespace and overload, in small letters.

    >>> plain_name("aten.conv2d.default"), plain_name("aten::mm"), plain_name("Conv"), plain_name("com.microsoft::Gelu")
    ('conv2d', 'mm', 'conv', 'gelu')
    """
    return _leave_out_namespace(operator).lower()


def join_words(operator: str) -> str:
    """Return the words of an operator's name, joined by underscores, without the numbers at their ends.

    >>> join_words("aten._adaptive_avg_pool2d.default"), join_words("MaxPool3DGrad"), join_words("MAX_POOL_2D")
    ('adaptive_avg_pool', 'max_pool_grad', 'max_pool')
    """
    words = _WORD_STARTS.sub("_", _leave_out_namespace(operator)).lower()
    return _NUMBERS.sub("", words).strip("_")


def compile_words(pattern: str) -> re.Pattern[str]:
    """Return a pattern that is found in joined words as whole words alone."""
    return re.compile(rf"(?<![^_])(?:{pattern})(?![^_])")


def _leave_out_namespace(operator: str) -> str:
    _, separator, name = operator.rpartition("::")
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and not separator else parts[0]
