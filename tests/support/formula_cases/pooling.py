"""Formulas of pooling and resampling, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import Cost, convention, pooling

from .case import Case, case


def cases() -> Iterator[Case]:
    yield case(lambda: pooling.pool(5, 4, average=True), ADD=20)
    yield case(lambda: pooling.pool(5, 4, average=False), COMPARE=20)
    # 5 to 3: windows 0-2, 1-4, 3-5 of 2, 3 and 2; 4 to 2: 2 and 2
    yield case(lambda: pooling.pool(pooling.adaptive_windows([(5, 3), (4, 2)]), 1, True), ADD=7 * 4)
    yield case(lambda: pooling.pool_gradient(7), ADD=7)
    yield case(lambda: pooling.resample(3, 4), MULTIPLY=12, ADD=9)
    yield case(lambda: pooling.resample(3, 2), MULTIPLY=6, ADD=3)
    yield case(lambda: pooling.resample(3, 1))
    # 2 to 3: the middle of three lies under both. 4 to 2: two under each
    yield case(lambda: pooling.resample_areas(5, (2, 3), (4, 2)), MULTIPLY=5 * (2 * 4 + 4 * 2), ADD=5 * (2 * 3 + 4))
    yield case(lambda: pooling.resample_areas(5, (2, 4), (3, 3)))
    yield case(lambda: pooling.resample_gradient(3, 4), MULTIPLY=12, ADD=12)
    yield case(lambda: pooling.resample_gradient(3, 2), MULTIPLY=6, ADD=6)
    yield case(lambda: pooling.resample_gradient(3, 1), ADD=3)
    yield case(lambda: Cost(0, pooling.smooth_reach(2, 10, 4) * convention.ADD), ADD=5)  # 2 * 2.5
    yield case(lambda: Cost(0, pooling.smooth_reach(2, 10, 3) * convention.ADD), ADD=7)  # 2 * 3.33, rounded up
    yield case(lambda: Cost(0, pooling.smooth_reach(2, 4, 10) * convention.ADD), ADD=2)
    yield case(lambda: Cost(0, pooling.smooth_reach(4, 3, 10) * convention.ADD), ADD=3)  # there are no more than 3
    yield case(lambda: Cost(0, pooling.smooth_reach(6, 8, 4) * convention.ADD), ADD=8)  # nor 12 of 8
    yield case(lambda: pooling.smooth_resample(5, 3, 7, 2), MULTIPLY=5 * 3 + 7 * 2, ADD=5 * 2 + 7)
    yield case(lambda: pooling.smooth_resample_gradient(7, 2, 5, 3), MULTIPLY=14 + 15, ADD=14 + 15)
    yield case(lambda: pooling.grid_sample_gradient(3, 1, 2, True, True), ADD=3)
    yield case(lambda: pooling.grid_sample_gradient(3, 1, 2, False, True))
    yield case(lambda: pooling.grid_sample_gradient(3, 4, 2, True, False), MULTIPLY=12, ADD=12)
    yield case(lambda: pooling.grid_sample_gradient(3, 4, 2, False, True), MULTIPLY=12 * 4, ADD=12 * 2)
    yield case(lambda: pooling.grid_sample_gradient(3, 8, 3, True, True), MULTIPLY=24 * 7, ADD=24 * 4)
    yield case(lambda: pooling.affine_grid(6, 3), 18)
    yield case(lambda: pooling.projective_transform(2), MULTIPLY=12, ADD=12, DIVIDE=4)
    yield case(lambda: pooling.embedding_bag(6), ADD=6)
    yield case(lambda: pooling.embedding_bag(6, weighted=True), ADD=6, MULTIPLY=6)
    yield case(lambda: pooling.embedding_bag(6, maximum=True), COMPARE=6)
    yield case(lambda: pooling.embedding_gradient(6), ADD=6)
    yield case(lambda: pooling.embedding_gradient(6, scaled=True), ADD=6, DIVIDE=6)
    yield case(lambda: pooling.embedding_gradient(6, weighted=True), ADD=6, MULTIPLY=6)
    yield case(lambda: pooling.bag_weights_gradient(6), MULTIPLY=6, ADD=6)
