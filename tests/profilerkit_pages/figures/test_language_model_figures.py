"""The figures of language models: their lines and bars are the numbers of the reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError
from profilerkit_predict.language_models import LanguageModelComparison, LanguageModelReport, Speculation, StepCost
from profilerkit_predict.language_models.engine.fitting import DeviceMemory
from profilerkit_predict.language_models.engine.layout import Layout
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.facts.model_cache import CacheGrowth, CacheLayer

pytest.importorskip("matplotlib")


def report(device: Any = DEVICE, **changes: Any) -> LanguageModelReport:
    cost = StepCost(toy_facts(**changes), device)
    fits = (DeviceMemory(cost, 64, 0.1).fit(8, 20),) if device else ()
    return LanguageModelReport(cost, 16, 4, (predict_serving(cost, 8, 16, 4),), fits)


def test_memory_is_weights_and_cache_against_the_context() -> None:
    axis = report().plot("cache_memory").axes[0]
    line, roof = axis.lines
    contexts, values = line.get_xdata(), line.get_ydata()
    assert (contexts[0], contexts[-1]) == (1, 4096)
    # 2,600 bytes of weights, and 8 sequences of 4,096 tokens of 8 bytes, in KiB.
    assert values[-1] == pytest.approx((2600 + 8 * 4096 * 8) / 1024)
    assert roof.get_ydata()[0] == pytest.approx(900_000 / 1024)


def test_memory_is_that_of_one_device() -> None:
    """Four replicas have all weights and two of eight sequences each; of three devices one has three of eight heads."""
    cache = CacheGrowth((CacheLayer("layers.0", 8, heads=8),))
    for layout, expected in ((Layout(data=4), 2600 + 2 * 4096 * 8), (Layout(3), 2600 / 3 + 8 * 4096 * 3)):
        cost = StepCost(replace(toy_facts(), cache=cache), DEVICE, layout=layout)
        rows, fits = (predict_serving(cost, 8, 16, 4),), (DeviceMemory(cost, 64, 0.1).fit(8, 20),)
        shared = LanguageModelReport(cost, 16, 4, rows, fits)
        line, roof = shared.plot("cache_memory").axes[0].lines
        assert line.get_ydata()[-1] == pytest.approx(expected / 1024, rel=1e-4)
        assert roof.get_ydata()[0] == pytest.approx(900_000 / 1024)
        assert roof.get_label() == "1 x toy"


def test_a_line_that_lies_on_another_one_is_dotted() -> None:
    """A drawing without this shows one model of two."""
    axis = LanguageModelComparison((report(), report())).plot("cache_memory").axes[0]
    assert [line.get_linestyle() for line in axis.lines[:2]] == ["-", ":"]


def test_tokens_per_second_stay_under_both_roofs() -> None:
    axis = report().plot("tokens_per_second").axes[0]
    rates, _, products, moved = (line.get_ydata() for line in axis.lines)
    steps = [report().cost(2**power, 1, 18) for power in range(10)]
    assert list(moved) == pytest.approx([2**power / (step.bytes / 1e9) for power, step in enumerate(steps)])
    assert list(products) == pytest.approx([2**power / (2 * step.macs / 1e12) for power, step in enumerate(steps)])
    assert list(rates) == pytest.approx(list(map(min, products, moved)))


def test_ticks_are_numbers_without_powers() -> None:
    axis = report().plot("tokens_per_second").axes[0]
    sizes = [text.get_text() for text in axis.get_xticklabels()]
    assert {"1", "4", "16", "64", "256"} <= set(sizes)
    assert axis.yaxis.get_major_formatter()(1_000_000) == "1,000,000"
    assert axis.yaxis.get_major_formatter()(0.1) == "0.1"


def test_lines_have_what_drafts() -> None:
    """A model drafts two tokens, of which half are accepted: 1.75 tokens of a step."""
    cost = StepCost(toy_facts(), DEVICE)
    speculation = Speculation(2, 0.5, StepCost(toy_facts(), DEVICE))
    row = predict_serving(cost, 8, 16, 4, speculation)
    drafted = LanguageModelReport(cost, 16, 4, (row,), speculation=speculation)
    memory = drafted.plot("cache_memory").axes[0].lines[0].get_ydata()
    assert memory[-1] == pytest.approx(2 * (2600 + 8 * 4096 * 8) / 1024)
    rates = drafted.plot("tokens_per_second").axes[0].lines[0].get_ydata()
    checked, draft = cost(4, 3, 18, 3).seconds or 0.0, speculation.draft(4, 18)
    assert draft is not None
    assert rates[2] == pytest.approx(4 * 1.75 / (checked + 2 * (draft.seconds or 0.0)))


def test_a_step_is_stacked_of_its_terms() -> None:
    """A prefill moves 2,000 bytes of matrices, 200 of the head, 400 of the table, and 1,024 of the cache: in µs."""
    first, last = report().plot("step_terms").axes
    for axis, amounts in ((first, [200, 400, 1024, 2000]), (last, [64, 64, 200, 8 * 18 * 8, 2000])):
        assert [text.get_text() for text in axis.get_yticklabels()] == ["compute", "memory"]
        low, high = sorted(axis.get_ylim())
        assert low < 0 < 1 < high, "both bars are seen"
        memory = [bar.get_width() for bar in axis.patches if round(bar.get_y() + bar.get_height() / 2) == 1]
        assert sorted(memory) == pytest.approx([amount / 1000 for amount in amounts])


def test_an_unknown_figure_is_an_error() -> None:
    with pytest.raises(
        ArgumentError, match="no figure 'cache' of language models; there are, nearest first: cache_memory"
    ):
        report().plot("cache")


def test_a_report_without_a_device_has_no_rates() -> None:
    with pytest.raises(ValueError, match="give a device with a peak for the dtype and a bandwidth"):
        report(None).plot("tokens_per_second")
