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


def read_seconds(measurement: Mapping[str, Any]) -> float:
    """Return the seconds of a published number: of a prompt, or of each generated token."""
    number, unit = measurement["published"].split()
    if unit == "ms":
        return float(number) / 1000
    return int(measurement.get("prompt", 1)) / float(number)


def compute_bound(cost: Any, measurement: Mapping[str, Any]) -> float:
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
    for item in content["measurements"]:
        key = item["device"], item["model"], item["weights"]
        if key not in costs:
            config = LlamaConfig(**content["models"][item["model"]])
            weights = None if item["weights"] == "fp16" else item["weights"]
            report: Any = llm(config, prompt=64, new=2, device=item["device"], dtype="fp16", weights=weights)
            costs[key] = report.cost
        measured, bound = read_seconds(item), compute_bound(costs[key], item)
        what = f"prompt of {item['prompt']:,}" if "prompt" in item else f"each of {item['new']:,} tokens"
        yield (
            *(item["device"], content["sources"][item["source"]]["engine"], item["model"], item["weights"], what),
            *(item["published"], f"{1000 * measured:.1f} ms", f"{1000 * bound:.1f} ms", f"{bound / measured:.2f}"),
        )


def main() -> None:
    """Print the table as a list table of reStructuredText."""
    print(".. list-table::\n   :header-rows: 1\n")
    for row in (TITLES, *rows()):
        for index, cell in enumerate(row):
            print(f"   {'*' if not index else ' '} - {cell}")


if __name__ == "__main__":
    main()
