"""First tokens of prompts that wait for each other, against sums and closed forms by hand."""

from __future__ import annotations

from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError
from profilerkit.devices import DeviceInfo
from profilerkit_predict.language_models import StepCost
from profilerkit_predict.language_models.layout import read_layout
from profilerkit_predict.language_models.queueing import RATE, predict_arrivals, predict_burst
from profilerkit_predict.language_models.report import Request, make_report
from profilerkit_predict.language_models.report_tables import _list_arrival_rows
from profilerkit_predict.language_models.speculation import Speculation
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


def test_a_shared_prefix_is_not_run_again() -> None:
    cost = StepCost(toy_facts(), DEVICE, shared_prefix=6)
    burst: Any = predict_burst(cost, 2, 10, 4)
    assert (burst.passes, burst.first) == (2, cost(1, 4, 6).seconds)


def decode(sequences: int) -> float:
    """A later token of ``b`` sequences takes 10 + b ms."""
    return 0.01 + 0.001 * sequences


@pytest.mark.parametrize(
    ("rate", "load", "wait", "sequences"),
    [
        (2, 0.2, 0.2 * 0.1 / (2 * 0.8), 1),  # 0.8 b = 2 * 20 * (10 + b) ms: b = 0.53
        (6, 0.6, 0.6 * 0.1 / (2 * 0.4), 5),  # 0.4 b = 6 * 20 * (10 + b) ms: b = 4.29
    ],
)
def test_the_mean_wait_is_that_of_a_queue_with_one_time_of_service(
    rate: float, load: float, wait: float, sequences: int
) -> None:
    """A prefill takes 0.1 s, and each request has 20 later tokens; at most 100 sequences fit."""
    arrivals: Any = predict_arrivals(rate, 0.1, 21, decode, 100, 1)
    assert arrivals.load == pytest.approx(load)
    assert arrivals.wait == pytest.approx(wait)
    assert arrivals.first_token == pytest.approx(wait + 0.1)
    assert arrivals.sequences == sequences
    assert arrivals.per_token == pytest.approx(decode(sequences) / (1 - load))
    assert arrivals.most_requests == pytest.approx(1 / (0.1 + 20 * 0.11 / 100))


def test_drafters_read_a_prompt_after_its_first_token() -> None:
    """A prefill takes 0.1 s and drafting 0.05 s: 2 requests in a second take 30 % of the time."""
    arrivals: Any = predict_arrivals(2, 0.1, 21, decode, 100, 1, drafting=0.05)
    wait = 0.3 * 0.15 / (2 * 0.7)
    assert (arrivals.load, arrivals.wait) == (pytest.approx(0.3), pytest.approx(wait))
    assert arrivals.first_token == pytest.approx(wait + 0.1)
    assert arrivals.most_requests == pytest.approx(1 / (0.15 + 20 * 0.11 / 100))
    drafted = make_report(COST, Request(16, 4, 8192, 0.1, 2.0), (1,), Speculation(2, 0.5, COST))
    assert drafted.serving[0].arrivals.load == pytest.approx(2 * 2 * COST(1, 16).seconds)  # type: ignore[union-attr]


@pytest.mark.parametrize("rate", [9, 10, 20])
def test_more_requests_than_can_be_served_wait_without_end(rate: float) -> None:
    """At 9 a second a tenth of the time is left, in which 100 sequences make fewer tokens than are asked for."""
    arrivals: Any = predict_arrivals(rate, 0.1, 21, decode, 100, 1)
    assert (arrivals.wait, arrivals.first_token, arrivals.sequences) == (None, None, None)


def test_prompts_take_no_more_than_all_of_the_time() -> None:
    """At 0.1 s each, 9 prompts in a second take 90 % of it; for 20 there would have to be 2 s."""
    texts = [dict(_list_arrival_rows(predict_arrivals(rate, 0.1, 21, decode, 100, 1))) for rate in (9, 20)]  # type: ignore[arg-type]
    assert [text["prompts"] for text in texts] == ["take 90 % of the time", "need 2 times the time that there is"]
    assert [text["first token"] for text in texts] == ["the queue grows without end"] * 2


def test_replicas_share_the_requests() -> None:
    one: Any = predict_arrivals(2, 0.1, 21, decode, 100, 1)
    two: Any = predict_arrivals(4, 0.1, 21, decode, 100, 2)
    assert (two.load, two.wait, two.sequences) == (one.load, one.wait, 2)
    assert two.most_requests == pytest.approx(2 * one.most_requests)


def test_a_rate_that_nothing_follows_for_is_noted() -> None:
    request = Request(16, 4, 8192, 0.1, 2.0)
    bare = StepCost(toy_facts(), DeviceInfo("bare"))
    assert predict_burst(bare, 2, 10, 8) is None
    report = make_report(bare, request, (1,), None)
    assert "nothing follows for 2 requests/s: give a device (--device)" in report.to_text()
    assert report.serving[0].arrivals is None
    served: Any = make_report(COST, request, (1,), None)
    assert served.serving[0].arrivals is not None
    assert served.serving[0].arrivals.load == pytest.approx(2 * COST(1, 16).seconds)
    assert "2 requests/s that arrive at random" in served.to_text()
    assert "chunks of prompts in steps that decode, may serve more" in " ".join(served.to_text().split())


@pytest.mark.parametrize("rate", [0, -1, True, "2", float("inf")])
def test_a_rate_that_is_none_is_an_error(rate: Any) -> None:
    with pytest.raises(ArgumentError, match="give the requests that arrive in a second, a number above 0"):
        RATE("rate", rate)
