"""First tokens of prompts that wait for each other, against sums by hand."""

from __future__ import annotations

from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit_predict.language_models import StepCost
from profilerkit_predict.language_models.bursts import predict_burst
from profilerkit_predict.language_models.layout import read_layout
from profilerkit_predict.language_models.steps import Piece

COST: Any = StepCost(toy_facts(), DEVICE)


def test_whole_prompts_go_in_groups() -> None:
    """Six prompts of 10 tokens, 20 tokens in a pass: three equal passes, of which two prompts end in each."""
    burst: Any = predict_burst(COST, 6, 10, 20)
    one = COST(2, 10).seconds
    assert (burst.batch, burst.passes) == (6, 3)
    assert (burst.first, burst.mean, burst.last) == pytest.approx((one, 2 * one, 3 * one))
    single: Any = predict_burst(COST, 4, 10, 8192)  # one pass is the prefill
    assert (single.passes, single.first, single.last) == (1, COST(4, 10).seconds, COST(4, 10).seconds)


def test_a_prompt_goes_in_chunks_with_the_start_of_the_next() -> None:
    """Two prompts of 10 tokens, 8 in a pass: 8 of the first; its last 2 and 6 of the second; the last 4 of that."""
    burst: Any = predict_burst(COST, 2, 10, 8)
    second = COST.run_together([Piece(1, 2, 8), Piece(1, 6, 0)])
    assert second.macs == 8 * 1000 + 2 * 100 + 6 * (9 + 10) + 6 * 21
    assert second.weight_bytes == 2000 + 200 + 8 * 8, "matrices once"
    assert (second.cache_read_bytes, second.cache_write_bytes) == (8 * 8, 8 * 8)
    seconds = [COST(1, 8).seconds, second.seconds, COST(1, 4, 6).seconds]
    assert burst.passes == 3
    assert (burst.first, burst.last) == pytest.approx((sum(seconds[:2]), sum(seconds)))
    assert burst.mean == pytest.approx((burst.first + burst.last) / 2)


def test_replicas_have_prompts_of_their_own() -> None:
    """Two replicas with three prompts each, and the tokens of a pass shared: one prompt of each in a pass."""
    cost = StepCost(toy_facts(), DEVICE, layout=read_layout(1, "dp2"))
    burst: Any = predict_burst(cost, 6, 10, 20)
    assert (burst.passes, burst.first) == (3, COST(1, 10).seconds)


@pytest.mark.parametrize("batch", [1, 3, 5])
def test_replicas_with_unequal_prompts_have_times_of_their_own(batch: int) -> None:
    """Two replicas, 5 tokens of each in a pass, prompts of 10: two passes for a prompt, one behind the other.

    One has (n + 1) / 2 prompts, the other one fewer; the k-th prompt of both ends after k times the two passes.
    """
    cost = StepCost(toy_facts(), DEVICE, layout=read_layout(1, "dp2"))
    burst: Any = predict_burst(cost, batch, 10, 10)
    one: Any = COST(1, 5).seconds + COST(1, 5, 5).seconds
    ends = [one * k for size in ((batch + 1) // 2, batch // 2) for k in range(1, size + 1)]
    assert len(ends) == batch
    assert burst.passes == batch + 1
    assert (burst.first, burst.mean, burst.last) == pytest.approx((one, sum(ends) / batch, max(ends)))


def test_the_first_prompt_is_that_of_the_replica_with_less_to_do() -> None:
    """Three prompts on two replicas, all in one pass: the replica with one prompt is ready before that with two."""
    cost = StepCost(toy_facts(), DEVICE, layout=read_layout(1, "dp2"))
    burst: Any = predict_burst(cost, 3, 10, 40)
    one, two = COST(1, 10).seconds, COST(2, 10).seconds
    assert one is not None and two is not None and one < two
    assert burst.passes == 1
    assert (burst.first, burst.mean, burst.last) == pytest.approx((one, (one + 2 * two) / 3, two))


def test_a_shared_prefix_is_not_run_again() -> None:
    cost = StepCost(toy_facts(), DEVICE, shared_prefix=6)
    burst: Any = predict_burst(cost, 2, 10, 4)
    assert (burst.passes, burst.first) == (2, cost(1, 4, 6).seconds)
