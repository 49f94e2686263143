"""Budgets in a project's own tests: the pytest fixture ``budget``.

.. code-block:: python

    def test_cost(budget):
        budget(build_model(), torch.randn(1, 3, 224, 224), macs="<= 5 G", model_size="<= 25 MiB")

pytest loads this file at every start, also for projects without budgets: code for checks is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from profilerkit.cli.configuration import Configuration
    from profilerkit.results.report import Report

    from . import Budget, Finding

_RECORDED = pytest.StashKey[list[str]]()
_HOW = "pytest --budget-update"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--budget-update``."""
    parser.getgroup("profilerkit").addoption(
        "--budget-update",
        action="store_true",
        help="Record the baselines of the fixture budget in their files, with the machine and the versions.",
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which baselines were recorded."""
    for line in config.stash.get(_RECORDED, []):
        terminalreporter.write_line(f"budget: {line}")


@pytest.fixture
def budget(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """Check a model against limits: ``budget(model, x, macs="<= 5 G", layers={"head.*": {"params": "<= 1 M"}})``.

    Arguments named after metrics are limits; a list holds several. Limits such as ``"<= 1.10x"`` are relative to
    ``baseline``: a model, which is timed in turn, a report, or the path of a file from the folder of the test, which
    ``pytest --budget-update`` records. ``retries`` is the number of repeated measurements if only measured values, such
    as times, break their limits. All other arguments are passed to `profilerkit.profile`. The test fails if a limit is
    not kept, naming the layers responsible; with ``strict=True`` also if a ratio is not known well enough. Returns the
    report.
    """

    def check_budget(
        model: Any,
        inputs: Any = None,
        *,
        layers: Mapping[str, Mapping[str, Any]] | None = None,
        baseline: Any = None,
        strict: bool = False,
        retries: int = 0,
        **keywords: Any,
    ) -> Report:
        __tracebackhide__ = True
        from profilerkit.arguments.checks import at_least
        from profilerkit.cli.configuration import read_configuration

        from . import Budget

        configuration = read_configuration(request.config.rootpath)
        limits = {name: value for name, value in keywords.items() if _is_limit(name, value)}
        others = {name: value for name, value in keywords.items() if name not in limits}
        if layers:
            limits["layers"] = layers
        limiting = Budget.of(limits) if limits else _read_configured(configuration)
        retries = at_least(0, "how often to measure again, zero or more times, such as 2")("retries", retries)
        arguments = {"inputs": inputs, **configuration.profile_arguments, **others}
        return _BudgetCheck(request, model, arguments, limiting, strict, retries).run(baseline)

    return check_budget


def _read_configured(configuration: Configuration) -> Budget:
    """Return the limits that ``[tool.profilerkit.check]`` of ``pyproject.toml`` has; raises `BudgetError` for none."""
    from profilerkit.cli.configuration import choose_values
    from profilerkit.errors import BudgetError

    from .check_command import command
    from .limits import read_budget

    values = choose_values(configuration, command)
    budget = read_budget(values.get("path"), values.get("limit", ()))
    if not budget.limits:
        raise BudgetError(
            "the budget has no limits: give some to budget(model, x, macs='<= 5 G'), or to all tests and 'check', by "
            "budget = 'budget.toml' or limit = ['macs <= 5 G'] in [tool.profilerkit.check] of pyproject.toml"
        )
    return budget


@dataclass(frozen=True)
class _BudgetCheck:
    """One call of the fixture.

    Args:
        request: The test that calls it.
        model: The model, or its report.
        arguments: The arguments of `profilerkit.profile`.
        budget: The limits.
        strict: Whether a ratio that is not known well enough fails the test too.
        retries: How often to measure again.
    """

    request: pytest.FixtureRequest
    model: Any
    arguments: Mapping[str, Any]
    budget: Budget
    strict: bool
    retries: int

    def run(self, baseline: Any) -> Report:
        """Return the report of the model; the test fails if a limit is not kept.

        A baseline in a file is recorded instead, if that was requested: then only the limits count that need none.
        """
        from .baselines import read_baseline
        from .checking import check_with_retries

        if isinstance(baseline, (str, PathLike)):
            path = self.request.path.parent / baseline
            if self.request.config.getoption("budget_update"):
                return self._record(path)
            baseline = read_baseline(path, _HOW)
        report, findings = check_with_retries(lambda: self._measure(baseline), self.budget, self.retries, self.strict)
        self._require_kept(report, findings)
        return report

    def _record(self, path: Path) -> Report:
        """Record the model as the baseline in a file, and say so at the end of the session; check absolute limits."""
        from . import Budget
        from .baselines import record_baseline
        from .checking import check

        report = self._profile()
        line = record_baseline(report, path)
        self.request.config.stash.setdefault(_RECORDED, []).append(line)
        self.request.node.user_properties.append(("budget baseline", line))
        absolute = Budget(tuple(limit for limit in self.budget.limits if not limit.relative))
        self._require_kept(report, check(report, absolute))
        return report

    def _require_kept(self, report: Report, findings: Sequence[Finding]) -> None:
        """Fail the test if a limit is broken."""
        from .checking import select_broken
        from .forms import format_text

        # Like record_property, but this fixture also warns beside --junitxml, which is an error under -W error.
        properties = [(f"{finding.subject}: {finding.limit}", finding.detail) for finding in findings]
        self.request.node.user_properties.extend(properties)
        if select_broken(findings, self.strict):
            pytest.fail(format_text(findings, report.name), pytrace=False)

    def _measure(self, baseline: Any) -> tuple[Report, Report | None]:
        """Return the report of the model, and the report of the baseline; two models are measured in turn."""
        from profilerkit.api import compare
        from profilerkit.results.report import Report

        if baseline is None or isinstance(baseline, Report) or isinstance(self.model, Report):
            return self._profile(), baseline  # the check says that a report has no ratio to a model
        names = ("baseline", "model")
        comparison = compare(baseline, self.model, metrics=self.budget.metrics, names=names, **self.arguments)
        return comparison.others[0], comparison.reference

    def _profile(self) -> Report:
        from profilerkit.api import profile
        from profilerkit.results.report import Report

        if isinstance(self.model, Report):
            return self.model
        return profile(self.model, metrics=self.budget.metrics, **self.arguments)


def _is_limit(name: str, value: Any) -> bool:
    """Return whether an argument is a limit: it is named after a metric, or reads as one."""
    from profilerkit.hooks.offers import list_status_keys

    texts = value if isinstance(value, list) else [value]
    is_written = [isinstance(text, str) and text.lstrip().startswith(("<", ">", "=")) for text in texts]
    return (bool(is_written) and all(is_written)) or any(name == offer.item.NAME for offer in list_status_keys())
