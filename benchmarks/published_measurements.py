"""Published measurements of language models beside our lower bounds, by data sheets.

The measurements and the addresses that they were read from are in ``published_measurements.toml``; no figure is from
memory. ``python benchmarks/published_measurements.py`` prints the table of ``docs/published-measurements.rst``. Weights
are not needed: it takes a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

DATA = Path(__file__).with_suffix(".toml")
TITLES = ("devices", "engine", "model", "weights, cache", "batch", "what", "published", "at least", "bound / measured")


@dataclass(frozen=True)
class Measurement:
    """A published number, and what it was measured with; see ``published_measurements.toml``."""

    source: str
    device: str
    model: str
    weights: str
    cache: str
    what: str
    published: str
    devices: int = 1
    batch: int = 1
    prompt: int = 0
    new: int = 1
    lacks: str = ""
    is_cache_taken: bool = False

    @property
    def seconds(self) -> float:
        """The seconds of a published number: of a pass, of a step, or of a whole generation."""
        number, unit, *of_each = self.published.split()
        if unit == "ms":
            return float(number) / 1000
        rate = float(number) * (self.devices if of_each else 1)
        tokens = {"first token": self.prompt, "token": 1, "throughput": self.new}[self.what]
        return self.batch * tokens / rate

    def compute_bound(self) -> float:
        """Return our bound of the same."""
        from profilerkit_predict.language_models.serving import predict_serving

        cost = make_cost(self)
        if self.what == "first token":
            return float(cost(self.batch, self.prompt).seconds)
        if self.what == "throughput":
            serving: Any = predict_serving(cost, self.batch, self.prompt, self.new)
            return float(self.batch * self.new / serving.tokens_per_second)
        cached = range(max(self.prompt, 1), self.prompt + self.new) if self.new > 1 else [1]
        return fmean(cost(self.batch, 1, count).seconds for count in cached)

    def describe(self) -> str:
        """Return what was measured, in words."""
        lengths = f"{self.prompt:,} + {self.new:,}" if self.new > 1 else f"{self.prompt:,}"
        return self.what if self.lacks else f"{self.what}, {lengths}"


def read() -> dict[str, Any]:
    """Return the tables of measurements, the sources and the models."""
    import tomllib

    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def list_measurements() -> Iterator[Measurement]:
    """Yield every measurement."""
    for table in read()["tables"]:
        rows = table.pop("rows")
        yield from (Measurement(**{**table, **row}) for row in rows)


def make_cost(item: Measurement) -> Any:
    """Return the cost of a step with what a measurement was made with."""
    return _make_cost(item.device, item.model, item.weights, item.cache, item.devices)


@cache
def _make_cost(device: str, model: str, weights: str, cache: str, devices: int) -> Any:
    import transformers

    from profilerkit import llm

    sizes = dict(read()["models"][model])
    config = getattr(transformers, sizes.pop("class"))(**sizes)
    stored = None if weights == "fp16" else weights
    report: Any = llm(
        config, prompt=64, new=2, device=device, dtype="fp16", weights=stored, cache_dtype=cache, devices=devices
    )
    return report.cost


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for each measurement."""
    from profilerkit_predict.language_models.formatting import show_seconds

    sources = read()["sources"]
    for item in list_measurements():
        bound = item.compute_bound()
        ratio = f"not tested: lacks {item.lacks}" if item.lacks else f"{bound / item.seconds:.2f}"
        yield (
            f"{item.devices} x {item.device}" if item.devices > 1 else item.device,
            sources[item.source]["engine"],
            item.model,
            f"{item.weights}, {item.cache}{' (taken)' if item.is_cache_taken else ''}",
            str(item.batch),
            item.describe(),
            item.published,
            show_seconds(bound),
            ratio,
        )


def main() -> None:
    """Print the table as a list table of reStructuredText."""
    print(".. list-table::\n   :header-rows: 1\n")
    for row in (TITLES, *rows()):
        for index, cell in enumerate(row):
            print(f"   {'*' if not index else ' '} - {cell}")


if __name__ == "__main__":
    main()
