"""Attention: two products and a softmax, however it is written; its gradient.

The dense product is counted whatever the mask, causal ones included.
"""

from __future__ import annotations

from . import activation, normalization
from .cost import Cost
from .numbers import constants as c


def attention(scores: int, width: int, value_width: int, has_mask: bool = False, has_dropout: bool = False) -> Cost:
    """``softmax(q @ k.T * scale + mask) @ v`` (Vaswani and others, Attention Is All You Need, 2017).

    Args:
        scores: Batch * heads * L * S: queries of length L, keys of length S.
        width: Elements E of a query and a key.
        value_width: Elements Ev of a value.
        has_mask: Whether a mask (or a bias) is added to each score.
        has_dropout: Whether some of the weights of the values are dropped.
    """
    operations = c.MULTIPLY + has_mask * c.ADD + activation.softmax.operations()
    operations += has_dropout * activation.dropout.operations()
    return Cost.of_macs(scores * (width + value_width), scores * operations)


def attention_gradient(scores: int, width: int, value_width: int, has_dropout: bool = False) -> Cost:
    """Return the gradients by queries, keys and values: ``2 * (E + Ev)`` multiply-accumulates for each score.

    With the probabilities ``p = softmax(q @ k.T * scale)``, and ``y = p @ v``: ``dv = p.T @ dy`` and ``dp = dy @ v.T``
    take Ev for each score; the softmax and the scale are gone through once, and dropout; ``dq = ds @ k`` and ``dk =
    ds.T @ q`` take E each. A mask's gradient is ds itself.

    Kernels that did not keep the scores compute them again. That is how they save memory, and not counted: so the
    number is the same whichever kernel runs, and however attention is written.
    """
    operations = activation.softmax_gradient.operations() + c.MULTIPLY + has_dropout * c.MULTIPLY
    return Cost.of_macs(2 * scores * (width + value_width), scores * operations)


def multi_head_attention(
    batch: int,
    length: int,
    keys: int,
    width: int,
    heads: int,
    has_mask: bool = False,
    need_weights: bool = False,
    average_weights: bool = False,
) -> Cost:
    """Return the cost of four projections with their biases, and of attention between them.

    With ``need_weights`` the queries are scaled in place of the scores, and with ``average_weights`` there is a mean
    over the heads.
    """
    scores = batch * heads * length * keys
    rows = batch * 2 * (length + keys)
    attending = attention(scores, width // heads, width // heads, has_mask)
    if need_weights:
        more_scaled = batch * length * width - scores
        attending = attending.plus(Cost(0, more_scaled * c.MULTIPLY + average_weights * scores * c.ADD))
    return Cost.of_macs(rows * width * width, rows * width * c.ADD).plus(attending)


def transformer_encoder_layer(
    batch: int, length: int, width: int, heads: int, hidden: int, use_gelu: bool = False, has_mask: bool = False
) -> Cost:
    """Return the cost of attention, two linear layers with an activation between, two layer norms and two sums."""
    rows = batch * length
    attending = multi_head_attention(batch, length, length, width, heads, has_mask)
    inner = rows * hidden
    linear = Cost.of_macs(2 * inner * width, (inner + rows * width) * c.ADD)
    between = activation.gelu(inner) if use_gelu else activation.relu(inner)
    norms = normalization.normalize(2 * rows * width)
    return attending.plus(linear).plus(between).plus(norms).plus(Cost(0, 2 * rows * width * c.ADD))


def rotate(elements: int) -> Cost:
    """Return the cost of rotary position embeddings: ``x * cos + turned(x) * sin`` (Su and others, RoFormer, 2021)."""
    return Cost(0, elements * (2 * c.MULTIPLY + c.ADD))


def project_queries(elements: int) -> Cost:
    """Return the cost after one product for all three projections: their biases, and the scale of the queries."""
    return Cost(0, elements * c.ADD + elements // 3 * c.MULTIPLY)
