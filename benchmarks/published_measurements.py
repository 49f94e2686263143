"""Published measurements of language models on GPUs beside our lower bounds, by data sheets.

The measurements and the addresses that they were read from are in ``published_measurements.toml``; no figure is from
memory. ``python benchmarks/published_measurements.py`` prints the table of ``docs/published-measurements.rst``. Weights
are not needed: it takes some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_suffix(".toml")
TITLES = ("device", "engine", "model", "weights", "what", "published", "measured", "at least", "bound / measured")


def read() -> dict[str, Any]:
    """Return the measurements, the sources and the models."""
    import tomllib

    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def seconds_of(measurement: Mapping[str, Any]) -> float:
    """Return the seconds of a published number: of a prompt, or of each generated token."""
    number, unit = measurement["published"].split()
    if unit == "ms":
        return float(number) / 1000
    return int(measurement.get("prompt", 1)) / float(number)


def bound_of(cost: Any, measurement: Mapping[str, Any]) -> float:
    """Return our bound of the same: one pass over the prompt, or the mean step of generated tokens."""
    if "prompt" in measurement:
        return float(cost(1, measurement["prompt"], 0).seconds)
    steps = range(measurement["new"] - 1)
    return float(sum(cost(1, 1, cached + 1).seconds for cached in steps)) / len(steps)


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for each measurement."""
    from transformers import LlamaConfig

    from profilerkit import llm

    content = read()
    costs: dict[tuple[str, ...], Any] = {}
    for each in content["measurements"]:
        key = each["device"], each["model"], each["weights"]
        if key not in costs:
            config = LlamaConfig(**content["models"][each["model"]])
            weights = None if each["weights"] == "fp16" else each["weights"]
            report: Any = llm(config, prompt=64, new=2, device=each["device"], dtype="fp16", weights=weights)
            costs[key] = report.cost
        measured, bound = seconds_of(each), bound_of(costs[key], each)
        what = f"prompt of {each['prompt']:,}" if "prompt" in each else f"each of {each['new']:,} tokens"
        yield (
            *(each["device"], content["sources"][each["source"]]["engine"], each["model"], each["weights"], what),
            *(each["published"], f"{1000 * measured:.1f} ms", f"{1000 * bound:.1f} ms", f"{bound / measured:.2f}"),
        )


def main() -> None:
    """Print the table as a list table of reStructuredText."""
    print(".. list-table::\n   :header-rows: 1\n")
    for row in (TITLES, *rows()):
        for index, cell in enumerate(row):
            print(f"   {'*' if not index else ' '} - {cell}")


if __name__ == "__main__":
    main()
