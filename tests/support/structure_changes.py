"""Changes of a model that a profiler must notice: after one it says what a new profiler says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from profilerkit import Profiler
from profilerkit_metrics import ComputeComplexity

__all__ = ["StructureChanges"]

KEYS = ("macs", "flops", "memory_footprint", "total_params")


@dataclass(frozen=True)
class StructureChanges:
    """Checks of the changes of models of one backend.

    Attributes:
        profiler: The backend's class of profilers.
        other_texts: Returns other values for an attribute that is a text.
        raised: What a profiler may raise for a layer that is in pieces.
        refused: What setting an attribute may raise that cannot be changed.
    """

    profiler: Callable[..., Profiler]
    other_texts: Callable[[str], Iterable[str]]
    raised: tuple[type[Exception], ...] = ()
    refused: tuple[type[Exception], ...] = ()

    def make_profiler(self, model: Any, inputs: Any) -> Profiler:
        profiler = self.profiler(model, inputs=inputs)
        profiler.register_profiler_function(ComputeComplexity())
        return profiler

    def counts(self, profiler: Profiler) -> Any:
        """Return the values; what the model raised, if it did."""
        try:
            profiler.compute(KEYS)
        except self.raised as error:
            return type(error).__name__
        records = [profiler.status_get(key, to_value=False) for key in KEYS]
        return [record.value if record.value is not None else type(record.outcome.error).__name__ for record in records]

    def variants(self, value: Any) -> Iterator[Any]:
        """Yield other values of the same kind."""
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, int):
            yield value + 1
        elif isinstance(value, float):
            yield value / 2
        elif isinstance(value, tuple) and value and all(type(item) is int for item in value):
            yield tuple(item + 1 for item in value)
        elif isinstance(value, str):
            yield from self.other_texts(value)

    def attributes_that_count(self, make: Callable[[], Any], inputs: Any, but: tuple[str, ...] = ()) -> int:
        """Check that a change of each plain attribute of a layer is noticed; return how many change a count."""
        changed = 0
        layer = make()
        for attribute in [var for var in vars(layer) if not var.startswith("_") and var not in but]:
            for value in self.variants(getattr(layer, attribute)):
                other = make()
                profiler = self.make_profiler(other, inputs)
                before = self.counts(profiler)
                try:
                    setattr(other, attribute, value)
                except self.refused:
                    continue
                expected = self.counts(self.make_profiler(other, inputs))
                assert self.counts(profiler) == expected, f"{attribute} = {value!r}"
                changed += expected != before
        return changed

    def assert_noticed(self, model: Any, inputs: Any, change: Callable[[Any], Any]) -> None:
        """Check that a change of a model changes its counts, and is noticed."""
        profiler = self.make_profiler(model, inputs)
        before = self.counts(profiler)
        change(model)
        expected = self.counts(self.make_profiler(model, inputs))
        assert expected != before
        assert self.counts(profiler) == expected

    def assert_remembered(self, model: Any, inputs: Any, use: Callable[[Any], Any]) -> None:
        """Check that the trace is kept after what changes nothing."""
        profiler = self.make_profiler(model, inputs)
        self.counts(profiler)
        trace = profiler.compute_status("trace")
        use(model)
        self.counts(profiler)
        assert profiler.compute_status("trace") is trace
