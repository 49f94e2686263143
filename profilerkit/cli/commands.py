"""The commands that come with profilerkit: one module each, imported when the command is used."""

from __future__ import annotations

from importlib import import_module

import click

from ..plugging.extension import CommandInfo

__all__ = ["COMMANDS"]


def _command(name: str, description: str, *examples: str) -> CommandInfo:
    """Describe a command whose module is NAME_command."""

    def load() -> click.Command:
        command: click.Command = import_module(f".{name.replace('-', '_')}_command", __package__).command
        return command

    return CommandInfo(name, load, description, examples)


COMMANDS = [
    _command(
        "profile",
        "Profile a model and print its report.",
        "profilerkit profile torchvision:resnet18 --input-shape 3,224,224",
        "profilerkit profile net.py:build --input-shape 3,32,32 --static --top 5",
        "profilerkit profile hf:bert-base-uncased --metric macs,params,memory --batch-size 8",
        "profilerkit profile net.py:build --input-shape 3,32,32 --metric layer_times --layers",
    ),
    _command(
        "compare",
        "Compare models side by side; the first is the reference.",
        "profilerkit compare net.py:teacher net.py:student --input-shape 3,32,32",
        "profilerkit compare old.json net.py:build --input-shape 3,32,32 --name before --name now",
    ),
    _command(
        "llm",
        "Predict the memory and time that serving a language model needs.",
        "profilerkit llm hf:llama --prompt 1024 --device h100,a100-80 --weights bf16,int4 --batch 1,8",
    ),
    _command(
        "show",
        "Print a saved report or comparison, in any format.",
        "profilerkit show report.json --format tree --depth 2",
    ),
    _command(
        "diff",
        "Show what changed between two reports or models, layer by layer.",
        "profilerkit diff old.json net.py:build --input-shape 3,32,32",
    ),
    _command(
        "check",
        "Check a model against a budget; exit with 1 if it is exceeded.",
        "profilerkit check net.py:build --input-shape 3,32,32 --limit 'macs <= 5 G'",
    ),
    _command(
        "devices",
        "List the devices that times can be predicted for, or show one.",
        "profilerkit devices h100",
    ),
    _command(
        "calibrate",
        "Measure this machine, to predict times on it.",
        "profilerkit calibrate here.toml --seconds 60",
    ),
    _command(
        "join",
        "Match a profile from any machine with a model's layers.",
        "profilerkit join profile.json.gz --model net.py:build --device h100",
    ),
    _command(
        "trace-script",
        "Print a script that records such a profile with torch alone.",
        "profilerkit trace-script --output profile_model.py",
    ),
    _command(
        "audit",
        "Profile many models and store their reports.",
        "profilerkit audit plan.toml --dry-run",
        "profilerkit audit --store runs.db --diff last~1 last",
    ),
    _command(
        "history",
        "Show the values of a metric over commits, versions and machines.",
        "profilerkit history torchvision:resnet18 --metric macs --store runs.db",
    ),
    _command(
        "regressions",
        "Show which counts and times of an audit changed.",
        "profilerkit regressions --store runs.db --since last",
    ),
    _command(
        "export",
        "Write the reports of an audit to Parquet, JSON lines or CSV.",
        "profilerkit export runs.db --output rows.csv",
    ),
    _command(
        "dashboard",
        "Write one page for all models of an audit.",
        "profilerkit dashboard runs.db --output audit.html",
    ),
    _command(
        "list",
        "List what plugins offer, and the package each comes from.",
        "profilerkit list --verbose",
    ),
    _command(
        "doctor",
        "Show what is installed, and what each backend can do here.",
        "profilerkit doctor",
    ),
]
