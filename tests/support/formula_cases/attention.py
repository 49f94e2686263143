"""Formulas of attention, and what each of them takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from profilerkit.costs import attention

from .case import Case, case


def cases() -> Iterator[Case]:
    def scores(count: int) -> dict[str, int]:
        return {"COMPARE": count, "SUBTRACT": count, "EXP": count, "DIVIDE": count}

    yield case(lambda: attention.attention(6, 8, 5), 78, MULTIPLY=6, ADD=6, **scores(6))
    yield case(lambda: attention.attention(6, 8, 5, has_mask=True), 78, MULTIPLY=6, ADD=12, **scores(6))
    # softmax's gradient: two products, an addition, a difference; the scale
    yield case(lambda: attention.attention_gradient(6, 8, 5), 156, MULTIPLY=18, ADD=6, SUBTRACT=6)
    # what dropout left out, and the scale of what stays: a product
    yield case(lambda: attention.attention_gradient(6, 8, 5, has_dropout=True), 156, MULTIPLY=24, ADD=6, SUBTRACT=6)
    # 2 samples, 3 queries, 5 keys, 4 wide, 2 heads: rows 2 * 2 * (3 + 5) = 32, scores 2 * 2 * 3 * 5 = 60,
    # macs 32 * 4 * 4 + 60 * (2 + 2)
    macs = 32 * 16 + 60 * 4
    yield case(lambda: attention.multi_head_attention(2, 3, 5, 4, 2), macs, MULTIPLY=60, ADD=60 + 32 * 4, **scores(60))
    # 3 samples: rows 3 * 2 * (3 + 5) = 48, scores 3 * 2 * 3 * 5 = 90
    yield case(
        lambda: attention.multi_head_attention(3, 3, 5, 4, 2),
        48 * 16 + 90 * 4,
        MULTIPLY=90,
        ADD=90 + 48 * 4,
        **scores(90),
    )
    yield case(
        lambda: attention.multi_head_attention(2, 3, 5, 4, 2, has_mask=True),
        macs,
        MULTIPLY=60,
        ADD=60 + 60 + 32 * 4,
        **scores(60),
    )
    yield case(  # the queries' 2 * 3 * 4 elements are scaled in place of the scores
        lambda: attention.multi_head_attention(2, 3, 5, 4, 2, need_weights=True),
        macs,
        MULTIPLY=24,
        ADD=60 + 32 * 4,
        **scores(60),
    )
    yield case(
        lambda: attention.multi_head_attention(2, 3, 5, 4, 2, need_weights=True, average_weights=True),
        macs,
        MULTIPLY=24,
        ADD=60 + 60 + 32 * 4,
        **scores(60),
    )
    # a layer of 6 wide (2 samples of 3, 4 wide, 2 heads, 10 hidden): rows 2 * 2 * 6 = 24, scores 2 * 2 * 3 * 3 = 36,
    # inner 6 * 10 = 60, x has 24 elements; two norms of 24 elements: of 3 additions, a difference, a power, 2 products
    macs = 24 * 16 + 36 * 4 + 2 * 60 * 4
    additions = 36 + 24 * 4 + 60 + 24 + 48 * 3 + 48
    for use_gelu, further in ((False, {"COMPARE": 60}), (True, {"MULTIPLY": 120, "ADD": 60, "ERF": 60, "DIVIDE": 60})):
        takes = Counter({"MULTIPLY": 36 + 48 * 2, "ADD": additions, "SUBTRACT": 48, "POWER": 48})
        takes.update(scores(36))
        takes.update(further)
        yield case(
            lambda gelu=use_gelu: attention.transformer_encoder_layer(2, 3, 4, 2, 10, use_gelu=gelu),  # type: ignore[misc]
            macs,
            **takes,
        )
    masked = Counter({"MULTIPLY": 36 + 48 * 2, "ADD": additions + 36, "SUBTRACT": 48, "POWER": 48, "COMPARE": 60})
    masked.update(scores(36))
    yield case(lambda: attention.transformer_encoder_layer(2, 3, 4, 2, 10, has_mask=True), macs, **masked)
    yield case(lambda: attention.project_queries(12), ADD=12, MULTIPLY=4)
    yield case(lambda: attention.rotate(6), ADD=6, MULTIPLY=12)
