"""One static profile (params, size, MACs, FLOPs, memory, layers) in forward passes, beside other tools in theirs.

Each tool runs in a process of its own, and takes turns with a forward pass there.
"""

from __future__ import annotations

from trace_tools import MODELS, TOOLS

from profilerkit import Measurement, ModelInputs, Ratio
from profilerkit_torch import TorchBackend

from .options import Options
from .processes import ask
from .tables import Table

__all__ = ["measure"]

OURS = "profilerkit.profile"
#: Rounds for each model at the least.
SAMPLES, QUICK_SAMPLES = 5, 3
QUICK_MODELS = ("ResNet-18", "200 tiny pairs")


def measure(options: Options) -> dict[str, Table]:
    """Return the table of our profiles, and that of the other tools."""
    names = QUICK_MODELS if options.quick else tuple(MODELS)
    ours = [_describe_profile(name, options) for name in names]
    peers = tuple(tool for tool in TOOLS if tool != OURS)
    others = [(name, *(_write_ratio(tool, name, options.peers, options) for tool in peers)) for name in names]
    columns = ("model", "operators", "forward pass", "cold", "warm", "an operator", "in passes")
    return {
        "static profiles": Table(columns, tuple(ours), ("in passes",)),
        "other tools": Table(("model", *peers), tuple(others)),
    }


def _describe_profile(name: str, options: Options) -> tuple[str, ...]:
    answer = ask("trace_tools.py", OURS, _rounds(options), name)
    if "error" in answer:
        raise SystemExit(f"{name}: {answer['error']}")
    model, x = MODELS[name]()
    count = len(TorchBackend().trace(model.eval(), ModelInputs(x)).operators)
    forward, warm = (Measurement(answer[which], session=1) for which in ("forward", "tool"))
    return (
        name,
        str(count),
        f"{1e3 * float(forward):,.3g} ms",
        f"{1e3 * answer['cold']:,.0f} ms",
        f"{1e3 * float(warm):.3g} ms",
        f"{1e6 * float(warm) / count:,.0f} us",
        f"{Ratio.of(forward, warm).value:.2g}",
    )


def _write_ratio(tool: str, name: str, peers: str, options: Options) -> str:
    answer = ask("trace_tools.py", tool, _rounds(options), name, python=peers)
    if "error" in answer:
        missing = "No module named" in answer["error"]
        return "not there" if missing else "error"
    forward, warm = (Measurement(answer[which], session=1) for which in ("forward", "tool"))
    return f"{Ratio.of(forward, warm).value:.2g}"


def _rounds(options: Options) -> str:
    return str(QUICK_SAMPLES if options.quick else SAMPLES)
