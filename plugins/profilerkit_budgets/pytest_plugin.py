"""Budgets in a project's own tests: the pytest fixture ``budget``.

.. code-block:: python

    def test_cost(budget):
        budget(build_model(), torch.randn(1, 3, 224, 224), macs="<= 5 G", model_size="<= 25 MiB")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from profilerkit.results.report import Report

    from . import Budget

__all__ = ["budget"]

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

    Arguments named after metrics are limits; a list holds several. ``baseline`` is what limits such as ``"<= 1.10x"``
    are relative to: a model, which is timed in turn, a report, or the path of a file from the folder of the test, which
    ``pytest --budget-update`` records. ``retries`` is how often to measure again if only measured values, such as
    times, break their limits. The other arguments are those of `profilerkit.profile`. The test fails if a limit is not
    kept, naming the layers responsible; with ``strict=True`` also if a ratio is not known well enough. Returns the
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
        from profilerkit.errors import ProfilerKitError

        limits = {name: value for name, value in keywords.items() if _is_limit(name, value)}
        arguments = {
            "inputs": inputs,
            **{name: value for name, value in keywords.items() if name not in limits},
        }
        limits |= {"layers": layers} if layers else {}
        try:
            report, message = _check(request, model, limits, arguments, baseline, strict, retries)
        except ProfilerKitError as error:
            raise _of_the_user(error) from error.__cause__
        if message:
            pytest.fail(message, pytrace=False)
        return report

    return check_budget


def _check(
    request: pytest.FixtureRequest,
    model: Any,
    limits: Mapping[str, Any],
    arguments: dict[str, Any],
    baseline: Any,
    strict: bool,
    retries: int,
) -> tuple[Report, str]:
    """Return the report, and a message if the budget is broken; a baseline in a file is recorded if requested."""
    from profilerkit.arguments.checks import at_least

    from . import Budget
    from .baselines import read_baseline, record_baseline
    from .forms import as_text
    from .retrying import check_with_retries, select_broken

    retries = at_least(0, "how often to measure again, zero or more times, such as 2")("retries", retries)
    asked = Budget.of(limits)
    in_file = request.path.parent / baseline if isinstance(baseline, (str, PathLike)) else None
    if in_file is not None and request.config.getoption("budget_update"):
        report, _ = _reports(model, None, asked.metrics, arguments)
        line = record_baseline(report, in_file)
        request.config.stash.setdefault(_RECORDED, []).append(line)
        request.node.user_properties.append(("budget baseline", line))
        asked, baseline = _absolute(asked), None
        if asked.limits:
            report, findings = check_with_retries(lambda: (report, None), asked)
            return report, as_text(findings, report.name) if select_broken(findings, strict) else ""
        return report, ""
    if in_file is not None:
        baseline = read_baseline(in_file, _HOW)
    report, findings = check_with_retries(
        lambda: _reports(model, baseline, asked.metrics, arguments), asked, retries, strict
    )
    # What record_property does; that fixture also warns beside --junitxml, which is an error under -W error.
    request.node.user_properties.extend((f"{one.subject}: {one.limit}", one.detail) for one in findings)
    return report, as_text(findings, report.name) if select_broken(findings, strict) else ""


def _absolute(asked: Budget) -> Budget:
    from . import Budget

    return Budget(tuple(limit for limit in asked.limits if not limit.relative))


def _is_limit(name: str, value: Any) -> bool:
    """Say whether an argument is a limit: it is named after a metric, or reads as one."""
    from profilerkit.plugging.offers import list_status_keys

    texts = value if isinstance(value, list) else [value]
    written = all(isinstance(text, str) and text.lstrip()[:1] in tuple("<>=") for text in texts) and bool(texts)
    return written or any(name == offer.item.NAME for offer in list_status_keys())


def _reports(
    model: Any, baseline: Any, metrics: tuple[str, ...], arguments: dict[str, Any]
) -> tuple[Report, Report | None]:
    from profilerkit.api import compare, profile
    from profilerkit.results.report import Report

    if isinstance(model, Report):
        return model, baseline
    if baseline is None or isinstance(baseline, Report):
        return profile(model, metrics=metrics, **arguments), baseline
    comparison = compare(baseline, model, metrics=metrics, names=("baseline", "model"), **arguments)
    return comparison.others[0], comparison.reference


def _of_the_user(error: BaseException) -> BaseException:
    """Return an error, and those that caused it, without the frames of profilerkit in their tracebacks."""
    from profilerkit.error_text import list_causes

    for cause in list_causes(error):
        cause.__traceback__ = _outside(cause.__traceback__)
    return error


def _outside(traceback: TracebackType | None) -> TracebackType | None:
    if traceback is None:
        return None
    rest = _outside(traceback.tb_next)
    if str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0] == __name__.partition(".")[0]:
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
