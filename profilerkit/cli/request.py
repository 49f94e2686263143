"""How models are to be measured, as the options of a command say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..errors import UnknownStatusError
from ..piping.requests import Preference
from .configuration import list_configured
from .option_values import parse_shapes

if TYPE_CHECKING:
    from ..isolation.job import Job
    from ..profiler import Profiler
    from ..results.report import Report

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """How models are to be measured, as the options say."""

    input_shape: tuple[str, ...] = ()
    batch_size: Any = None
    device: str | None = None
    metric: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    static: bool = False
    optimizer: str | None = None
    fit_in: str | None = None
    leave_out: tuple[str, ...] = ()
    max_seconds: float | None = None
    num_threads: int | None = None
    strict: bool = False
    quiet: bool = False
    trust: bool = False
    isolate: bool = False
    timeout: float | None = None
    memory: int | None = None
    on: str | None = None
    #: Arguments that options of plugins are.
    further: Mapping[str, Any] = field(default_factory=dict)
    #: The options that no one has typed: they come from the configuration, and hold for whatever takes them.
    preferred: frozenset[str] = field(default_factory=list_configured)

    @property
    def is_isolated(self) -> bool:
        """Whether each model gets a process of its own."""
        return self.isolate or self.timeout is not None or self.memory is not None

    def require_known_names(self) -> None:
        """Raise an error for a shape or a metric that no model has: before one, and its framework, is loaded."""
        from ..hooks.offers import list_known_names

        parse_shapes(self.input_shape)
        if not (self.metric or self.leave_out):
            return
        all_names = list_known_names()
        if all_names is None:  # only a profiler knows them
            return
        for owner, names in (("this profiler", self.metric), ("leave_out", self.leave_out)):
            for name in names:
                if name not in all_names:
                    raise UnknownStatusError(name, all_names, owner=owner)

    def make_job(self, spec: str) -> Job:
        """Return what the process of a model is to do."""
        from ..isolation.job import Job

        return Job(
            spec,
            input_shape=parse_shapes(self.input_shape),
            metrics=self.metric or None,
            leave_out=self.leave_out,
            strict=self.strict,
            static=self.static,
            arguments=self.arguments,
            trust=self.trust,
        )

    def profile_isolated(self, specs: Sequence[str]) -> list[Report]:
        """Return the reports of models, each of which gets a process of its own; they take turns."""
        from ..isolation.api import run_jobs
        from ..isolation.job import NoModelError
        from ..isolation.limits import Limits

        try:
            return run_jobs([self.make_job(spec) for spec in specs], Limits.read(self.timeout, self.memory))
        except NoModelError as error:
            raise click.BadParameter(str(error), param_hint="MODEL") from error

    def make_profiler(self, model: Any, name: str | None = None, **made_with: Any) -> Profiler:
        """Return the profiler of a loaded model, with the requested inputs, or those of its loader."""
        from ..hooks.extension import LoadedModel
        from ..profiler import make_profiler

        loaded = model if isinstance(model, LoadedModel) else LoadedModel(model)
        data = {"inputs": loaded.inputs, "input_shape": loaded.input_shape}
        shapes = parse_shapes(self.input_shape)
        if shapes is not None:
            data = {"input_shape": shapes}
        name = name or loaded.name
        return make_profiler(loaded.model, name=name, leave_out=self.leave_out, once=True, **made_with, **data)

    def make_report(self, profiler: Profiler) -> Report:
        """Return the report of a profiler."""
        from ..profiler import compute_report

        metrics = self.metric or None
        return compute_report(profiler, metrics, self.arguments, strict=self.strict, static=self.static)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the functions are given."""
        names = ("batch_size", "device", "max_seconds", "num_threads", "on", "optimizer", "fit_in")
        values = {name: getattr(self, name) for name in names}
        arguments = {
            name: Preference(value) if name in self.preferred else value
            for name, value in values.items()
            if value is not None
        }
        return {**arguments, **self.further}
