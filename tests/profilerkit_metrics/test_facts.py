"""Each metric says how it is computed, what it leaves out, where that is from, and has an example that runs."""

from __future__ import annotations

import doctest
import inspect

import pytest

from profilerkit import StatusKey, metric
from profilerkit_metrics import discovery


@pytest.mark.parametrize("key", discovery.status_keys(), ids=lambda key: str(key.NAME))
def test_each_metric_carries_its_facts_and_an_example(key: type[StatusKey]) -> None:
    for fact in (key.FORMULA, key.OMISSIONS, key.SOURCE):
        assert len(fact) > 15, "the documentation has no more of it than this"
        assert not fact.endswith("."), "the documentation puts a full stop behind it"
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(key) or "")
    assert examples, "they are run with the tests"
    assert examples[-1].want, "an example shows a value"
    assert any(key.NAME in example.source for example in examples)


def test_a_plain_metric_may_carry_them_too() -> None:
    @metric("ratio", formula="macs / total_params", omissions="nothing", source="own")
    def ratio(macs: int, total_params: int) -> float:
        return macs / total_params

    assert (ratio.key.FORMULA, ratio.key.OMISSIONS, ratio.key.SOURCE) == ("macs / total_params", "nothing", "own")
