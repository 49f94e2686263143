"""The scores of the model: any evaluation function as a metric, with further metrics from the same run."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import Parameter
from typing import Any, ClassVar, NamedTuple

from profilerkit import (
    ArgumentError,
    Comparative,
    ExternalProfilerFunction,
    Failure,
    InputError,
    Measurement,
    Metric,
    StatusKey,
)
from profilerkit.arguments.checks import Check, several, text
from profilerkit.backend import Backend, DeviceLike
from profilerkit.data_splits import DataLoader
from profilerkit.error_text import shown
from profilerkit.piping.function import Need
from profilerkit.piping.intrinsic import find_split
from profilerkit.piping.outcome import qualify

from .evaluation_results import read_entry, read_main
from .kinds import Seconds
from .scoring_notes import notes_of_scoring

__all__ = ["ComputeEvalMetric", "DynamicEvalMetric", "EvalMetric", "InferenceTime"]


def _read_secondary(value: Any) -> tuple[Any, ...]:
    metrics = tuple(several(value))
    if not all(isinstance(getattr(metric, "NAME", None), str) for metric in metrics):
        raise TypeError
    return metrics


_SECONDARY = Check("metrics of further entries: secondary=[DynamicEvalMetric('top-5')]", _read_secondary)
_KEY = text("the name of an entry, such as 'top-5'")


class EvalMetric(Metric):
    """The result of the evaluation function on its data split.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> data, function = {"test": [0, 1]}, ComputeEvalMetric(lambda model, loader: 7)
    >>> profile(nn.Linear(8, 2), input_shape=(8,), data_splits=data, functions=function)["eval_metric"]
    7
    """

    NAME: str = "eval_metric"
    FORMULA: str = "the result of the evaluation function"
    OMISSIONS: str = "data outside of its split"
    SOURCE: str = "the evaluation function"

    def __init__(
        self,
        unit_name: str = "",
        comparative: Comparative | str = Comparative.CHANGE,
        description: str | None = None,
        label: str | None = None,
    ) -> None:
        super().__init__()
        self.UNIT = unit_name
        self.COMPARATIVE = Comparative.parse(comparative)
        self._description = description
        self._label = label

    def description(self) -> str:
        """Return the description it was given."""
        return self._description or super().description()

    def friendly_name(self) -> str:
        """Return the name of the evaluation."""
        return f"Evaluation: {self._label}" if self._label else "Evaluation Metric"


class DynamicEvalMetric(EvalMetric):
    """A further entry of the dict that an evaluation function returned, as a metric of its own.

    For ``better`` and ``comparative`` see `ComputeEvalMetric`.
    """

    def __init__(
        self,
        name: str,
        unit_name: str = "",
        description: str | None = None,
        comparative: Comparative | str | None = None,
        *,
        better: str | None = None,
    ) -> None:
        super().__init__(unit_name, _choose_comparative(comparative, better), description, label=name)
        self.NAME = name


class InferenceTime(Seconds):
    """Seconds the evaluation took over its whole data split: a `Measurement` of one sample, as it runs once.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> data, function = {"test": [0, 1]}, ComputeEvalMetric(lambda model, loader: 7)
    >>> profile(nn.Linear(8, 2), input_shape=(8,), data_splits=data, functions=function)["inference_time"] > 0
    True
    """

    NAME: str = "inference_time"
    FORMULA: str = "seconds from the call of the evaluation function until it returns"
    OMISSIONS: str = "moving the model to the device"
    SOURCE: str = "profilerkit's own definition"


class _Evaluated(NamedTuple):
    """The result of an evaluation function, and the seconds that it took."""

    returned: Any
    seconds: float


class ComputeEvalMetric(ExternalProfilerFunction):
    """Runs an evaluation function over a data split.

    Args:
        func: Any callable whose first two parameters take the model and the loader; the others are provided by name.
            It returns a number, or a dict of numbers.
        key: The entry of a dict that is the main metric, and its name in reports.
        default_split: The split it runs over unless ``split`` is passed.
        unit_name: Unit of the value: ``"%"``.
        comparative: How two values compare. Default: by their difference.
        description: The description of the value.
        secondary: Further metrics from the same dict.
        better: Which values are better, "higher" or "lower", if ``comparative`` is not given. Default: the attribute
            ``better`` of the function, which all evaluation functions of the backends have. Without any of them,
            comparisons show the difference, and do not call it better or worse.
    """

    NEED: ClassVar[Need | None] = Need.RUN

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        default_split: str = "test",
        unit_name: str = "",
        comparative: Comparative | str | None = None,
        description: str | None = None,
        secondary: Iterable[DynamicEvalMetric] = (),
        *,
        better: str | None = None,
    ) -> None:
        super().__init__(func)
        self.key = key
        self.default_split = default_split
        self.metric: EvalMetric = EvalMetric(
            unit_name, _choose_comparative(comparative, better, func), description, label=key
        )
        self.secondary: tuple[DynamicEvalMetric, ...] = _SECONDARY("secondary", secondary)

    def get_bounded_status_keys(self) -> tuple[StatusKey, ...]:
        """Return the main metric, `InferenceTime` and the secondary metrics."""
        return self.metric, InferenceTime(), *self.secondary

    def with_secondary_metric(
        self,
        key: str,
        unit_name: str | None = None,
        description: str | None = None,
        comparative: Comparative | str | None = None,
        better: str | None = None,
    ) -> ComputeEvalMetric:
        """Return the same function with one more secondary metric; its unit is the main one's unless it is given."""
        unit = self.metric.UNIT if unit_name is None else unit_name
        comparison = _choose_comparative(comparative, better, self.func)
        added = DynamicEvalMetric(_KEY("key", key), unit, description, comparison)
        function = copy.copy(self)
        function.secondary = (*self.secondary, added)
        return function

    def parameters(self) -> Mapping[str, Parameter]:
        """Return the parameters of the function, and the parameters for running it: backend, split and device."""
        named = dict(super().parameters())
        named["backend"] = Parameter("backend", Parameter.KEYWORD_ONLY)
        for name in ("split", "device"):  # the function's own default counts, if it has one
            if name not in named or named[name].default is Parameter.empty:
                named[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=None)
        return named

    def __call__(
        self,
        model: Any,
        data_splits: Mapping[str, DataLoader],
        *,
        backend: Backend,
        split: str | None = None,
        device: DeviceLike = None,
        **others: Any,
    ) -> dict[str, Any]:
        """Return the main metric, the seconds it took and the secondary metrics, by name."""
        if not data_splits:
            raise InputError("there is no data to evaluate on; give data_splits={'test': loader}")
        name = split or self.default_split
        loader = find_split(data_splits, name).track(f"Evaluating on {name}")
        arguments = self._select_arguments(model, backend, {"split": name, "device": device, **others})

        def run() -> _Evaluated:
            start = time.perf_counter()
            returned = self.func(model, loader, **arguments)
            return _Evaluated(returned, seconds=time.perf_counter() - start)

        with notes_of_scoring() as notes:
            evaluated = backend.evaluate(model, run, device)
        scores = self._read_scores(evaluated.returned, notes)
        return {InferenceTime.NAME: Measurement((evaluated.seconds,)), **scores}

    def _read_scores(self, returned: Any, notes: Iterable[str]) -> dict[str, Any]:
        """Return the metrics by name from what the function returned; the first that is no failure has the notes."""
        scores = {self.metric.NAME: read_main(returned, self.key)}
        scores |= {metric.NAME: read_entry(returned, metric.NAME) for metric in self.secondary}
        for name, score in scores.items():
            if not isinstance(score, Failure):
                scores[name] = qualify(score, notes=notes)
                break
        return scores

    def _select_arguments(self, model: Any, backend: Backend, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that the function takes; a device that it requires is the device of the model."""
        arguments = {name: value for name, value in {"backend": backend, **offered}.items() if name in self._others}
        requires_device = "device" in arguments and self._others["device"].default is Parameter.empty
        if requires_device and arguments["device"] is None:
            arguments["device"] = backend.resolve_device(model, None)
        return arguments


def _choose_comparative(comparative: Comparative | str | None, better: str | None, func: Any = None) -> Comparative:
    """Return how values compare: as is said, or else by their difference, as the function says which is better."""
    if comparative is None:
        return Comparative.choose_difference(_find_direction(func) if better is None else better)
    if better is not None:
        raise ArgumentError(
            f"better={shown(better)}, comparative={shown(comparative)}: give one of them; a comparative says already "
            "which values are better"
        )
    return Comparative.parse(comparative)


def _find_direction(func: Any) -> str | None:
    """Return the attribute ``better`` of a function, or of the one that it calls with some arguments fixed."""
    while func is not None:
        stated = getattr(func, "better", None)
        if stated in ("higher", "lower"):
            return str(stated)
        func = func.func if isinstance(func, partial) else getattr(func, "__wrapped__", None)
    return None
