"""Prompts that wait for each other, against closed forms by hand."""

from __future__ import annotations

from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError
from profilerkit.devices import DeviceInfo
from profilerkit_predict.language_models import Arrivals, LanguageModelReport, Speculation, StepCost
from profilerkit_predict.language_models.engine.layout import read_layout
from profilerkit_predict.language_models.engine.queueing import (
    RATE,
    predict_arrivals,
    predict_burst,
    predict_requests,
)
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.engine.speculation import NOTHING_DRAFTED

COST: Any = StepCost(toy_facts(), DEVICE)
BARE = StepCost(toy_facts(), DeviceInfo("bare"))


def test_prompts_that_arrive_at_once_wait_for_those_before_them() -> None:
    """The n-th of three prompts of 200 tokens is ready when n of them can be.

    Matrices, head and table are 2,600 bytes, and the cache of a prompt 200 * 8, at a giga of bytes a second.
    """
    one, two, three = (COST(size, 200).seconds for size in (1, 2, 3))
    burst: Any = predict_burst(COST, 3, 200)
    assert (burst.first, burst.last) == (one, three)
    assert burst.mean == pytest.approx((one + two + three) / 3)
    assert (one, two, three) == pytest.approx([(2600 + size * 1600) / 1e9 for size in (1, 2, 3)])
    assert predict_burst(BARE, 2, 10) is None
    shared: Any = predict_burst(StepCost(toy_facts(), DEVICE, shared_prefix=6), 2, 10)
    assert shared.first == StepCost(toy_facts(), DEVICE, shared_prefix=6)(1, 4, 6).seconds


def test_a_million_prompts_are_looked_at_in_part() -> None:
    """As above, a million times: the mean is no greater than that of all, and nearly as great."""
    burst: Any = predict_burst(COST, 10**6, 200)
    of_all = (2600 + 1600 * (10**6 + 1) / 2) / 1e9
    assert 0.99 * of_all < burst.mean <= of_all


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_no_cut_into_passes_is_faster(chunk: int) -> None:
    """Two prompts of 21 tokens, in passes of so many tokens one after the other: weights are read in each."""
    passes = sum(COST(1, chunk, cached).seconds for cached in range(0, 21, chunk))
    burst: Any = predict_burst(COST, 2, 21)
    assert burst.first <= passes
    assert burst.last <= 2 * passes


@pytest.mark.parametrize(("rate", "load", "wait"), [(2, 0.2, 0.2 * 0.1 / (2 * 0.8)), (6, 0.6, 0.6 * 0.1 / (2 * 0.4))])
def test_the_mean_wait_is_that_of_a_queue_with_one_time_of_service(rate: float, load: float, wait: float) -> None:
    """A prefill takes 0.1 s."""
    arrivals = predict_arrivals(rate, 0.1)
    assert (arrivals.load, arrivals.wait) == pytest.approx((load, wait))
    assert arrivals.first_token == pytest.approx(wait + 0.1)
    assert predict_arrivals(2 * rate, 0.1, replicas=2).wait == arrivals.wait, "replicas share the requests"


def test_drafters_read_a_prompt_after_its_first_token() -> None:
    """A prefill takes 0.1 s and drafting 0.05 s: 2 requests in a second take 30 % of the time."""
    arrivals = predict_arrivals(2, 0.1, 0.05)
    wait = 0.3 * 0.15 / (2 * 0.7)
    assert (arrivals.load, arrivals.wait) == pytest.approx((0.3, wait))
    assert arrivals.first_token == pytest.approx(wait + 0.1)
    drafted: Any = predict_requests(COST, 2.0, 16, 4, Speculation(2, 0.5, COST))
    assert drafted.load == pytest.approx(2 * 2 * COST(1, 16).seconds)


@pytest.mark.parametrize("rate", [10, 20])
def test_more_requests_than_can_be_served_wait_without_end(rate: float) -> None:
    assert predict_arrivals(rate, 0.1) == Arrivals(rate, rate * 0.1, None, None)


def test_a_report_shows_what_waits() -> None:
    rows = (predict_serving(COST, 4, 16, 4),)
    arrivals = predict_requests(COST, 2.0, 16, 4, NOTHING_DRAFTED)
    served = LanguageModelReport(COST, 16, 4, rows, rate=2.0, arrivals=arrivals)
    text = " ".join(served.to_text().split())
    assert "Prompts that arrive at once, run in order: seconds until the first token" in text
    assert "2 requests/s that arrive at random" in text
    assert "chunks of prompts in steps that decode, may serve more" in text
    assert served.to_dict()["engine"]["arrivals"]["load"] == pytest.approx(2 * COST(1, 16).seconds)
    full = LanguageModelReport(COST, 16, 4, rows, rate=20.0, arrivals=predict_arrivals(20, 0.1)).to_text()
    assert "need 2 times the time that there is" in full and "the queue grows without end" in full
    assert predict_requests(BARE, 2.0, 16, 4, NOTHING_DRAFTED) is None
    unserved = LanguageModelReport(BARE, 16, 4, (predict_serving(BARE, 1, 16, 4),), rate=2.0).to_text()
    assert "nothing follows for 2 requests/s: give a device (--device)" in unserved


def test_replicas_have_prompts_of_their_own() -> None:
    """Two replicas: the second of two prompts is ready when the first is."""
    cost = StepCost(toy_facts(), DEVICE, layout=read_layout(1, "dp2"))
    burst: Any = predict_burst(cost, 2, 10)
    assert burst.first == burst.last == COST(1, 10).seconds


@pytest.mark.parametrize("rate", [0, -1, True, "2", float("inf")])
def test_a_rate_that_is_none_is_an_error(rate: Any) -> None:
    with pytest.raises(ArgumentError, match="give the requests that arrive in a second, a number above 0"):
        RATE("rate", rate)
