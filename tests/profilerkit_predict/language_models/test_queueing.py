"""Requests that arrive at a rate, against closed forms by hand, and all numbers of sequences that fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError
from profilerkit.devices import DeviceInfo
from profilerkit_predict.language_models import StepCost, making
from profilerkit_predict.language_models.bursts import predict_burst
from profilerkit_predict.language_models.layout import read_layout
from profilerkit_predict.language_models.making import Request, make_report
from profilerkit_predict.language_models.queueing import RATE, Replica, predict_arrivals
from profilerkit_predict.language_models.report_tables import _list_arrival_rows
from profilerkit_predict.language_models.speculation import Speculation

COST: Any = StepCost(toy_facts(), DEVICE)


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
    arrivals = predict_arrivals(rate, Replica(0.1, 20, decode, 100))
    assert arrivals.load == pytest.approx(load)
    assert arrivals.wait == pytest.approx(wait)
    assert arrivals.first_token == pytest.approx(wait + 0.1)
    assert arrivals.sequences == sequences
    assert arrivals.per_token == pytest.approx(decode(sequences) / (1 - load))
    assert arrivals.most_requests == pytest.approx(1 / (0.1 + 20 * 0.11 / 100))


def test_drafters_read_a_prompt_after_its_first_token() -> None:
    """A prefill takes 0.1 s and drafting 0.05 s: 2 requests in a second take 30 % of the time."""
    arrivals = predict_arrivals(2, Replica(0.1, 20, decode, 100, drafting=0.05))
    wait = 0.3 * 0.15 / (2 * 0.7)
    assert arrivals.load == pytest.approx(0.3)
    assert arrivals.wait == pytest.approx(wait)
    assert arrivals.first_token == pytest.approx(wait + 0.1)
    assert arrivals.most_requests == pytest.approx(1 / (0.15 + 20 * 0.11 / 100))
    drafted = make_report(COST, Request(16, 4, 8192, 0.1, 2.0), (1,), Speculation(2, 0.5, COST))
    assert drafted.serving[0].arrivals.load == pytest.approx(2 * 2 * COST(1, 16).seconds)  # type: ignore[union-attr]


@pytest.mark.parametrize("rate", [0.3, 0.77, 1.0, 1.17, 1.18])
@pytest.mark.parametrize("most", range(1, 14))
@pytest.mark.parametrize("step", [lambda group: 0.1 * group, lambda group: 0.05 + 0.02 * group])
def test_stages_of_a_pipeline_run_in_groups(step: Callable[[int], float], most: int, rate: float) -> None:
    """A step of four stages takes as long for five sequences as for eight: each number that fits is tried by hand."""

    def decode(sequences: int) -> float:
        return step(math.ceil(sequences / 4))

    arrivals = predict_arrivals(rate, Replica(0.1, 30, decode, most, stages=4))
    served = {sequences: 1 / (0.1 + 30 * decode(sequences) / sequences) for sequences in range(1, most + 1)}
    assert arrivals.sequences == next((sequences for sequences in served if served[sequences] >= rate), None)
    assert arrivals.most_requests == pytest.approx(max(served.values()))


def test_the_stages_of_a_layout_are_those_of_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(making, "predict_arrivals", lambda *given: asked.append(given))
    for layout in ("pp2", "dp2"):
        cost = StepCost(toy_facts(), DEVICE, layout=read_layout(1, layout))
        make_report(cost, Request(16, 4, 8192, 0.1, 2.0), (1,), None)
    assert [(rate, replica.stages, replicas) for rate, replica, replicas in asked] == [(2.0, 2, 1), (2.0, 1, 2)]


@pytest.mark.parametrize("rate", [9, 10, 20])
def test_more_requests_than_can_be_served_wait_without_end(rate: float) -> None:
    """At 9 a second a tenth of the time is left, in which 100 sequences make fewer tokens than are asked for."""
    arrivals = predict_arrivals(rate, Replica(0.1, 20, decode, 100))
    assert (arrivals.wait, arrivals.first_token, arrivals.sequences) == (None, None, None)


def test_prompts_take_no_more_than_all_of_the_time() -> None:
    """At 0.1 s each, 9 prompts in a second take 90 % of it; for 20 there would have to be 2 s."""
    texts = [dict(_list_arrival_rows(predict_arrivals(rate, Replica(0.1, 20, decode, 100)))) for rate in (9, 20)]
    assert [text["prompts"] for text in texts] == ["take 90 % of the time", "need 2 times the time that there is"]
    assert [text["first token"] for text in texts] == ["the queue grows without end"] * 2


def test_replicas_share_the_requests() -> None:
    one = predict_arrivals(2, Replica(0.1, 20, decode, 100))
    two = predict_arrivals(4, Replica(0.1, 20, decode, 100), 2)
    assert (two.load, two.wait, two.sequences) == (one.load, one.wait, 2)
    assert two.most_requests == pytest.approx(2 * one.most_requests)


def test_a_rate_that_nothing_follows_for_is_noted() -> None:
    request = Request(16, 4, 8192, 0.1, 2.0)
    bare = StepCost(toy_facts(), DeviceInfo("bare"))
    assert predict_burst(bare, 2, 10, 8) is None
    unserved = make_report(bare, request, (1,), None)
    assert "nothing follows for 2 requests/s: give a device (--device)" in unserved.to_text()
    assert unserved.serving[0].arrivals is None
    served: Any = make_report(COST, request, (1,), None)
    assert served.serving[0].arrivals is not None
    assert served.serving[0].arrivals.load == pytest.approx(2 * COST(1, 16).seconds)
    assert "2 requests/s that arrive at random" in served.to_text()
    assert "chunks of prompts in steps that decode, may serve more" in " ".join(served.to_text().split())


@pytest.mark.parametrize("rate", [0, -1, True, "2", float("inf")])
def test_a_rate_that_is_none_is_an_error(rate: Any) -> None:
    with pytest.raises(ArgumentError, match="give the requests that arrive in a second, a number above 0"):
        RATE("rate", rate)
