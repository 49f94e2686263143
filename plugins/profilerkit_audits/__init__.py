"""Audits: many models from a plan, each in a separate process, with rows in a store that survive crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from profilerkit.errors import FailureCode
    from profilerkit.hooks.infos import EngineInfo

    from .changes import Change
    from .engine import Engine
    from .exporting import export, read_export
    from .histories import History, Point, history
    from .plan import ModelEntry, Plan
    from .regression_search import Regressions, regressions
    from .rows import Row, RowStatus, Value
    from .run_budgets import RunCheck, check_run
    from .run_diffs import RunDiff, diff_runs
    from .running import Audit, audit
    from .single_reports import add_report
    from .step_search import Step
    from .store import Run, Store

__all__ = [
    "Audit",
    "Change",
    "Engine",
    "EngineInfo",
    "FailureCode",
    "History",
    "ModelEntry",
    "Plan",
    "Point",
    "Regressions",
    "Row",
    "RowStatus",
    "Run",
    "RunCheck",
    "RunDiff",
    "Step",
    "Store",
    "Value",
    "add_report",
    "audit",
    "check_run",
    "diff_runs",
    "export",
    "history",
    "read_export",
    "regressions",
]

_MODULES = module_of_each(
    {
        "profilerkit.errors": "FailureCode",
        "profilerkit.hooks.infos": "EngineInfo",
        ".changes": "Change",
        ".engine": "Engine",
        ".exporting": "export read_export",
        ".histories": "History Point history",
        ".plan": "ModelEntry Plan",
        ".regression_search": "Regressions regressions",
        ".rows": "Row RowStatus Value",
        ".run_budgets": "RunCheck check_run",
        ".run_diffs": "RunDiff diff_runs",
        ".running": "Audit audit",
        ".step_search": "Step",
        ".single_reports": "add_report",
        ".store": "Run Store",
    }
)

install_lazy_names(__name__, _MODULES, "profilerkit[audit]")
