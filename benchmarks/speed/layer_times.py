"""A pass with every layer timed, in plain passes; and a model compared with itself."""

from __future__ import annotations

from collections.abc import Sequence

from layer_times import MODELS
from timing import MODELS as SMALL_AND_LARGE
from timing import in_turn

from profilerkit import Measurement, Ratio

from .options import Options
from .processes import ask
from .tables import Table

__all__ = ["measure"]

TRIALS, QUICK_TRIALS = 12, 2


def measure(options: Options) -> dict[str, Table]:
    """Return the table of passes with timed layers, and that of a model beside itself."""
    names = list(MODELS)[:1] if options.quick else list(MODELS)
    times = {name: ask("layer_times.py", name, python=options.peers) for name in names}
    tools = [tool for tool in times[names[0]] if tool != "plain"]
    rows = [(name, *(_write_ratio(times[name]["plain"], times[name][tool]) for tool in tools)) for name in names]
    return {
        "layer times": Table(("model", *tools), tuple(rows), ("profilerkit",)),
        "a model beside itself": _compare_with_itself(options),
    }


def _write_ratio(plain: Sequence[float], watched: Sequence[float] | str) -> str:
    if isinstance(watched, str):
        return "not there"
    return f"{Ratio.of(Measurement(tuple(plain), session=1), Measurement(tuple(watched), session=1)).value:.3f}"


def _compare_with_itself(options: Options) -> Table:
    """Return how far the ratio of a model to itself is from 1, in turn as `profilerkit.compare` measures."""
    rows = []
    for name, (build, _) in SMALL_AND_LARGE.items():
        model, x = build()
        ratios = [in_turn(model, model, x)[0] for _ in range(QUICK_TRIALS if options.quick else TRIALS)]
        errors = sorted(abs(ratio.value - 1) for ratio in ratios)
        hits = sum(ratio.low <= 1 <= ratio.high for ratio in ratios)
        rows.append((name, f"{errors[len(errors) // 2]:.2%}", f"{errors[-1]:.2%}", f"{hits} of {len(ratios)}"))
    return Table(("model", "median error", "largest", "intervals with 1"), tuple(rows))
