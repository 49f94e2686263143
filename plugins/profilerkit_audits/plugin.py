"""Audits as a plugin: their commands, their engines, and the option of ``profile`` that stores a report."""

from __future__ import annotations

from profilerkit import CommandInfo, hookimpl
from profilerkit.hooks.infos import EngineInfo, OptionInfo, import_later

_COMMANDS = "profilerkit_audits.commands"


@hookimpl
def profilerkit_commands() -> list[CommandInfo]:
    """Return the commands of audits."""
    return [
        CommandInfo(
            "audit",
            import_later(f"{_COMMANDS}.audit:command"),
            "Profile many models and store their reports.",
            ("profilerkit audit plan.toml --dry-run", "profilerkit audit --store runs.db --diff last~1 last"),
        ),
        CommandInfo(
            "history",
            import_later(f"{_COMMANDS}.stores:history"),
            "Show the values of a metric over commits, versions and machines.",
            ("profilerkit history torchvision:resnet18 --metric macs --store runs.db",),
        ),
        CommandInfo(
            "regressions",
            import_later(f"{_COMMANDS}.stores:regressions"),
            "Show which counts and times of an audit changed.",
            ("profilerkit regressions --store runs.db --since last",),
        ),
        CommandInfo(
            "export",
            import_later(f"{_COMMANDS}.stores:export"),
            "Write the reports of an audit to Parquet, JSON lines or CSV.",
            ("profilerkit export runs.db --output rows.csv",),
        ),
        CommandInfo(
            "dashboard",
            import_later(f"{_COMMANDS}.stores:dashboard"),
            "Write one page for all models of an audit.",
            ("profilerkit dashboard runs.db --output audit.html",),
        ),
    ]


@hookimpl
def profilerkit_options() -> list[OptionInfo]:
    """Return the option of ``profile`` that puts the report into a store."""
    stores = f"{_COMMANDS}.stores"
    return [OptionInfo("--store", import_later(f"{stores}:report_option"), import_later(f"{stores}:put_report"))]


@hookimpl
def profilerkit_engines() -> list[EngineInfo]:
    """Return the engines of audits: one machine, and a cluster."""
    return [
        EngineInfo("local", import_later("profilerkit_audits.local_engine:LocalEngine"), "processes of this machine"),
        EngineInfo(
            "ray", import_later("profilerkit_audits.ray_engine:RayEngine"), "a cluster of Ray", "profilerkit[ray]"
        ),
    ]
