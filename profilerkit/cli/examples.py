"""Examples of each command, shown below its help; a test parses each of them."""

from __future__ import annotations

__all__ = ["COMPLETION", "EXAMPLES", "epilog"]

#: How a shell learns to complete commands, options, metrics, formats and the names of models.
COMPLETION = """\b
Completion in bash; zsh_source and fish_source for the other shells:
  eval "$(_PROFILERKIT_COMPLETE=bash_source profilerkit)"
"""

#: What people type most, by command.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "profile": (
        "profilerkit profile torchvision:resnet18 --input-shape 3,224,224",
        "profilerkit profile net.py:build --input-shape 3,32,32 --static --top 5",
        "profilerkit profile hf:bert-base-uncased --metric macs,params,memory --batch-size 8",
        "profilerkit profile net.py:build --input-shape 3,32,32 --metric layer_times --layers",
    ),
    "compare": (
        "profilerkit compare net.py:teacher net.py:student --input-shape 3,32,32",
        "profilerkit compare old.json net.py:build --input-shape 3,32,32 --name before --name now",
    ),
    "llm": ("profilerkit llm hf:llama --prompt 1024 --device h100,a100-80 --weights bf16,int4 --batch 1,8",),
    "show": ("profilerkit show report.json --format tree --depth 2",),
    "diff": ("profilerkit diff old.json net.py:build --input-shape 3,32,32",),
    "check": ("profilerkit check net.py:build --input-shape 3,32,32 --limit 'macs <= 5 G'",),
    "devices": ("profilerkit devices h100",),
    "calibrate": ("profilerkit calibrate here.toml --seconds 60",),
    "audit": ("profilerkit audit plan.toml --dry-run", "profilerkit audit --store runs.db --diff last~1 last"),
    "history": ("profilerkit history torchvision:resnet18 --metric macs --store runs.db",),
    "regressions": ("profilerkit regressions --store runs.db --since last",),
    "export": ("profilerkit export runs.db --output rows.csv",),
    "dashboard": ("profilerkit dashboard runs.db --output audit.html",),
    "join": ("profilerkit join profile.json.gz --model net.py:build --device h100",),
    "trace-script": ("profilerkit trace-script --output profile_model.py",),
    "list": ("profilerkit list --verbose",),
    "doctor": ("profilerkit doctor",),
}


def epilog(command: str) -> str | None:
    r"""Return the examples of a command as click shows them, each in a line of its own; None where there are none."""
    lines = EXAMPLES.get(command)
    if lines is None:
        return None
    return "\n".join(("\b", f"Example{'s' if len(lines) > 1 else ''}:", *(f"  {line}" for line in lines)))
