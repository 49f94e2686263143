"""Budgets in a project's own tests: the pytest fixture ``budget``.

.. code-block:: python

    def test_cost(budget):
        budget(build_model(), torch.randn(1, 3, 224, 224), macs="<= 5 G", model_size="<= 25 MiB")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .results.report import Report

__all__ = ["budget"]


@pytest.fixture
def budget(record_property: Callable[[str, object], None]) -> Callable[..., Report]:
    """Check a model against limits: ``budget(model, x, macs="<= 5 G", layers={"head.*": {"params": "<= 1 M"}})``.

    Arguments named after metrics are limits; a list holds several. ``baseline`` is a model, or a report, that limits
    such as ``"<= 1.10x"`` are relative to; models are timed in turn. The other arguments are those of
    `profilerkit.profile`. The test fails where a limit is not kept, naming the layers responsible; ``strict=True`` also
    where a ratio is not known well enough. Returns the report.
    """

    def check_budget(
        model: Any,
        inputs: Any = None,
        *,
        layers: Mapping[str, Mapping[str, Any]] | None = None,
        baseline: Any = None,
        strict: bool = False,
        **given: Any,
    ) -> Report:
        from .budgets import Budget, Verdict, check
        from .budgets.forms import as_text

        limits = {name: value for name, value in given.items() if _is_limit(name, value)}
        arguments = {name: value for name, value in given.items() if name not in limits}
        asked = Budget.of({**limits, **({"layers": layers} if layers else {})})
        report, reference = _reports(model, baseline, asked.metrics, {"inputs": inputs, **arguments})
        findings = check(report, asked, reference)
        for finding in findings:
            record_property(f"{finding.subject}: {finding.limit}", finding.detail)
        broken = {Verdict.FAILED, Verdict.UNCERTAIN} if strict else {Verdict.FAILED}
        if any(finding.verdict in broken for finding in findings):
            pytest.fail(as_text(findings, report.name), pytrace=False)
        return report

    return check_budget


def _is_limit(name: str, value: Any) -> bool:
    """Say whether an argument is a limit: it is named after a metric, or reads as one."""
    from .plugging.offers import offered_status_keys

    texts = value if isinstance(value, list) else [value]
    written = all(isinstance(text, str) and text.lstrip()[:1] in tuple("<>=") for text in texts) and bool(texts)
    return written or any(name == offer.item.NAME for offer in offered_status_keys())


def _reports(
    model: Any, baseline: Any, metrics: tuple[str, ...], arguments: dict[str, Any]
) -> tuple[Report, Report | None]:
    from .api import compare, profile
    from .results.report import Report

    if isinstance(model, Report):
        return model, baseline
    if baseline is None or isinstance(baseline, Report):
        return profile(model, metrics=metrics, **arguments), baseline
    comparison = compare(baseline, model, metrics=metrics, names=("baseline", "model"), **arguments)
    return comparison.others[0], comparison.reference
