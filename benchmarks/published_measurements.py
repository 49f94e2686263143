"""Published measurements of language models beside our lower bounds, by data sheets.

The measurements and the addresses that they were read from are in ``published_measurements.toml``; no figure is from
memory. ``python benchmarks/published_measurements.py`` prints the table of ``docs/published-measurements.rst``. Weights
are not needed: it takes a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    parallel: str = ""
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
        rate = float(number) * (self.layout.devices if of_each else 1)
        tokens = {"first token": self.prompt, "token": 1}.get(self.what, self.new)
        return self.batch * tokens / rate

    @property
    def layout(self) -> Any:
        """How the devices share the model: by tensor parallelism where the row has no layout."""
        from profilerkit_predict.language_models.engine.layout import read_layout

        return read_layout(self.devices, self.parallel or None)

    def compute_bound(self) -> float:
        """Return our bound of the same."""
        from profilerkit_predict.language_models.engine.serving import predict_serving

        cost = make_cost(self)
        if self.what == "first token":
            return float(cost(self.batch, self.prompt).seconds)
        if self.what == "throughput":
            serving: Any = predict_serving(cost, self.batch, self.prompt, self.new)
            return float(self.batch * self.new / serving.tokens_per_second)
        if self.what == "in flight":
            return bound_requests_in_flight(cost, self.batch, self.prompt, self.new)
        cached = range(max(self.prompt, 1), self.prompt + self.new) if self.new > 1 else [1]
        return fmean(cost(self.batch, 1, count).seconds for count in cached)

    def describe(self) -> str:
        """Return what was measured, in words."""
        lengths = f"{self.prompt:,} + {self.new:,}" if self.new > 1 else f"{self.prompt:,}"
        return self.what if self.lacks else f"{self.what}, {lengths}"


def bound_requests_in_flight(cost: Any, requests: int, prompt: int, new: int) -> float:
    """Return the least seconds of requests that start and end at any time, as with continuous batching.

    Prompts then run beside the tokens of other requests. So the bound is not that of one phase after the other, but the
    greatest of what all of it takes of each resource: products, memory and link. Weights are read for each new token of
    a request, and not again for prompts, which can share those steps; as if all requests were in one batch.
    """
    seconds = dict.fromkeys(("compute", "memory", "link"), 0.0)
    for term in cost(requests, prompt).terms:
        if term.resource != "memory" or term.name.startswith("cache"):
            seconds[term.resource] += term.seconds or 0.0
    for index in range(new - 1):
        step = cost(requests, 1, prompt + index)
        seconds["compute"] += step.compute_seconds
        seconds["memory"] += step.memory_seconds
        seconds["link"] += step.link_seconds
    return max(seconds.values())


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
    return _make_cost(item.device, item.model, item.weights, item.cache, item.devices, item.parallel or None)


@cache
def _make_cost(device: str, model: str, weights: str, cache: str, devices: int, parallel: str | None) -> Any:
    from profilerkit import llm

    stored = None if weights == "fp16" else weights
    report: Any = llm(
        make_configuration(model),
        prompt=64,
        new=2,
        device=device,
        dtype="fp16",
        weights=stored,
        cache_dtype=cache,
        devices=devices,
        parallel=parallel,
    )
    return report.cost


def make_configuration(model: str) -> Any:
    """Return the configuration of a model, with the sizes that the file has."""
    import transformers

    sizes = dict(read()["models"][model])
    return getattr(transformers, sizes.pop("class"))(**sizes)


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for each measurement."""
    from profilerkit_predict.language_models.report.text_table import show_seconds

    sources = read()["sources"]
    for item in list_measurements():
        bound = item.compute_bound() if item.batch else None
        ratio = f"not tested: lacks {item.lacks}" if item.lacks or bound is None else f"{bound / item.seconds:.2f}"
        yield (
            show_devices(item),
            sources[item.source]["engine"],
            item.model,
            f"{item.weights}, {item.cache}{' (taken)' if item.is_cache_taken else ''}",
            str(item.batch or "-"),
            item.describe(),
            item.published,
            show_seconds(bound),
            ratio,
        )


def show_devices(item: Measurement) -> str:
    """Return how many of which devices there were, and how they shared the model where it was not by tensors alone."""
    layout = item.layout
    count = f"{layout.devices} x {item.device}" if layout.devices > 1 else item.device
    return f"{count}, {layout}" if layout.tensor != layout.devices else count


def main() -> None:
    """Print the table."""
    print_table(TITLES, rows())


def print_table(titles: Sequence[str], body: Iterable[Sequence[str]]) -> None:
    """Print a list table of reStructuredText."""
    print(".. list-table::\n   :header-rows: 1\n")
    for row in (titles, *body):
        for index, cell in enumerate(row):
            print(f"   {'*' if not index else ' '} - {cell}")


if __name__ == "__main__":
    main()
