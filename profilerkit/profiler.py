"""`Profiler`: a model, its data, and the functions that compute its status keys."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from .arguments.checks import FLAG, LEVEL, MODEL_NAME, instance, mapping
from .arguments.names import status_names
from .backend import Backend
from .backend_kit.failures import require_answer
from .data_splits import DataLoader, ForwardPass, wrap_splits
from .errors import ArgumentError, NotOfferedError
from .hooks import offers
from .hooks.manager import announce
from .inputs import NoInputs
from .models.opening import OpenedModel, open_model
from .piping.cache import Cache, Remembered
from .piping.calls import Calls
from .piping.comparative import Comparative
from .piping.computation import Computation
from .piping.function import ProfilerFunction, describe
from .piping.input_source import InputSource
from .piping.intrinsic import INTRINSIC, Inputs
from .piping.joint_measurements import measure_jointly
from .piping.outcome import Outcome
from .piping.registry import Binding, Registry
from .piping.requests import KeyRequest, read_arguments, read_request, select_keys
from .piping.status import Metric, StatusKey
from .process.progress import track
from .process.restoring import whole_call
from .protocols import Watches, WatchesLayers, require_capability, suspend_modes
from .render import log_result
from .results.building import build_report
from .results.comparison import Comparison, distinct_names
from .results.report import Report
from .times.layer_times import LayerTimer
from .times.steps import StepRecorder, WatchedSteps
from .times.watching import Watch

__all__ = ["Profiler", "compare_profilers"]

#: The functions that every profiler has, computed only if another function needs them.
_ON_DEMAND = Registry()
_ON_DEMAND.bind_on_demand(*INTRINSIC)
P = TypeVar("P", bound="Profiler")
T = TypeVar("T")


class Profiler:
    """Computes the status keys of one model with the functions that are registered for them.

    Args:
        model: A model of any framework that has a backend. It is not changed.
        data_splits: Data loaders by name: ``{"train": ..., "test": ...}``.
        name: The name of the model in reports. Default: the name of its class.
        inputs: Example inputs: a tensor, a tuple of positional inputs, a mapping of keyword inputs, or `ModelInputs`;
            or a function that creates them for a batch size. They take precedence over the data splits.
        input_shape: The shape of one sample, instead of inputs: ``(3, 224, 224)``; several as a list or a dict.
        backend: A `Backend` or its name. Default: the backend of the model's framework.
    """

    #: The backend of a subclass for one framework; the base class finds it from the model.
    backend_class: ClassVar[type[Backend] | None] = None

    def __init__(
        self,
        model: Any,
        data_splits: Mapping[str, Any] | None = None,
        name: str | None = None,
        *,
        inputs: Any = None,
        input_shape: Any = None,
        backend: Backend | str | None = None,
    ) -> None:
        self._opened = open_model(model, backend, self.backend_class)
        self.model: Any = self._opened.model
        self.backend: Backend = self._opened.backend
        self.name = MODEL_NAME("name", name) or require_answer(
            self.backend.name, "model_name", self.backend.model_name(self.model), str
        )
        self.data_splits: dict[str, DataLoader] = {} if data_splits is None else self._wrap(data_splits)
        self._registry = _ON_DEMAND.copy()
        self._memory: dict[str, Remembered] = {}
        #: The arguments that replaced the model by another one, for reports.
        self._placing: Mapping[str, Any] = {}
        self._calls = Calls()
        #: Whether the first request is the only one: then it is not noted how values were computed.
        self._once = False
        self._input_source = InputSource.of(inputs, input_shape)

    @classmethod
    def enable_forward_pass_data_splits(
        cls, data_splits: Mapping[str, Any], forward_pass: ForwardPass | Mapping[str, ForwardPass] | None = None
    ) -> dict[str, DataLoader]:
        """Wrap data loaders of a framework, so that inputs can be read from them.

        ``forward_pass`` tells which parts of a batch are inputs, for all splits or by split: (inputs, targets).
        """
        backend = cls.backend_class or Backend
        return wrap_splits(data_splits, forward_pass, backend.data_loader, backend.forward_pass)

    def _wrap(self, data_splits: Mapping[str, Any]) -> dict[str, DataLoader]:
        return wrap_splits(data_splits, None, self.backend.data_loader, self.backend.forward_pass)

    # Registration -----------------------------------------------------------------------------------------------

    def register_profiler_function(self, function: ProfilerFunction, override: bool = False) -> ProfilerFunction:
        """Register a function for its status keys and return it.

        If another function has one of the keys, this one replaces it, with a warning. ``override=True`` wins over every
        registration without it, earlier or later. Two functions with it for one key raise `RegistrationConflictError`.
        A function whose arguments cannot be passed by name raises `TypeError`.
        """
        self._registry.register(function, override=FLAG("override", override))
        return function

    def register_defaults(self: P, *, leave_out: str | Iterable[str] = ()) -> P:
        """Register the functions that all installed plugins offer for this backend, and return self.

        Keys that have a function already, and keys that are left out, do not change. Two plugins that offer the same
        other key raise `RegistrationConflictError`. An unknown name to leave out raises `UnknownStatusError`.
        """
        unwanted = [offers.name_of_metric(name) for name in status_names("leave_out", leave_out) or []]
        computed_already = self._registry.names()
        defaults = offers.default_functions(self.backend, unwanted, computed_already)
        self._registry.add(defaults, leave_out={*unwanted, *computed_already})
        return self

    def add_secondary_eval_metric(
        self,
        key: str,
        unit_name: str | None = None,
        description: str | None = None,
        comparative: Comparative | str | None = None,
        better: str | None = None,
    ) -> None:
        """Make another entry of the dict that the evaluation function returns a metric of its own.

        ``better`` is "higher" or "lower"; without it and ``comparative``, comparisons do not call any value better.
        """
        for function in self._registry.functions():
            extend = getattr(function, "with_secondary_metric", None)
            if extend is not None:
                self._registry.replace_function(function, extend(key, unit_name, description, comparative, better))
                return
        raise ValueError(
            f"cannot add the secondary metric {key!r}: no evaluation function is registered; register "
            "ComputeEvalMetric(function, ...) first"
        )

    # Computing ---------------------------------------------------------------------------------------------------

    def compute_status(self, name: str | type[StatusKey], recompute: bool = False, **arguments: Any) -> Any:
        """Return the value of a status key, computed from ``arguments`` or remembered from the same ones.

        Raises `UnknownStatusError` for a name that no function is registered for, `MissingArgumentError` if an argument
        is missing, and whatever the function raises. An unavailable value is None; ``status_get(name, to_value=False)``
        says why.
        """
        name = self._registry[name].key.NAME  # an unknown name is said before a misspelt argument
        recompute = FLAG("recompute", recompute)
        arguments = read_arguments(KeyRequest([name], arguments), [self._registry])
        status = self._work(lambda: self._computation(arguments, recompute).status(name))
        if status.outcome.error is not None:
            raise status.outcome.error
        return status.value

    def compute(self, names: Iterable[str], *, recompute: bool = False, strict: bool = False, **arguments: Any) -> None:
        """Compute the named status keys, keeping failures on them unless ``strict``; arguments as in `profile`."""
        requested, arguments = self._request(names, arguments, FLAG("strict", strict))
        self._compute_all(requested, arguments, FLAG("recompute", recompute), strict)

    def compute_each(
        self, names: Iterable[str], *, recompute: bool = False, strict: bool = False, **arguments: Any
    ) -> Iterator[str]:
        """Compute as `compute` does, one key after the other as the iteration goes on; yield each that is done.

        Between two keys, while the caller's code runs, the process is as the caller has it.
        """
        requested, arguments = self._request(names, arguments, FLAG("strict", strict))
        steps = self._steps(requested, arguments, FLAG("recompute", recompute), strict)
        return iter(lambda: self._work(lambda: next(steps, None)), None)

    def compute_network_status(
        self,
        print_mode: str | None = None,
        recompute: bool = False,
        short_print: bool = True,
        *,
        strict: bool = False,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Compute every registered status key and return their values by name.

        If a function raises, only its own keys have no value, and they keep the error. With ``strict=True`` the error
        is raised, and a partial or unavailable value raises `IncompleteStatusError`. With a ``print_mode`` ("debug",
        "info", ...) the result is logged by the logger ``profilerkit`` at that level.
        """
        LEVEL.or_none()("print_mode", print_mode)
        FLAG("short_print", short_print)
        self.compute(self.status_keys(), recompute=recompute, strict=strict, **arguments)
        if print_mode:
            self.display_status(print_mode=print_mode, short_print=short_print)
        return self.status_to_dict()

    def _request(
        self, names: Iterable[str], arguments: Mapping[str, Any], strict: bool
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the status keys that are requested, and the arguments that reach the functions of these."""
        request = KeyRequest(status_names("names", names), arguments, strict)
        (requested,), read = read_request(request, [self._registry])
        return requested, read

    @whole_call
    def _work(self, work: Callable[[], T]) -> T:
        """Do a part of a request: modes of the framework that the caller is in are suspended, and then as before."""
        with suspend_modes(self.backend):
            return work()

    @whole_call
    def _compute_all(
        self,
        names: Iterable[str],
        arguments: dict[str, Any],
        recompute: bool = False,
        strict: bool = False,
        begun: Computation | None = None,
    ) -> None:
        """Compute keys; ``begun`` is the computation of the same request in which some keys were measured already.

        These keys are kept even if each run of the model changes a value that its code reads, such as a global counter.
        """
        try:
            with suspend_modes(self.backend):
                for _ in self._steps(names, arguments, recompute, strict, begun):
                    pass
        finally:
            self._once = False  # a function may have kept this profiler, and ask again when the model has changed

    def _steps(
        self,
        names: Iterable[str],
        arguments: dict[str, Any],
        recompute: bool,
        strict: bool,
        begun: Computation | None = None,
    ) -> Iterator[str]:
        bindings = [self._registry[name] for name in names]  # unknown names raise before anything is computed
        computation = self._computation(arguments, recompute) if begun is None else begun
        steps = track(bindings, f"Profiling {self.name}", lambda binding: binding.key.NAME)
        return computation.run(steps, self.name, strict)

    def _take_model(self, opened: OpenedModel) -> None:
        """Profile another model from now on; a name that came from the model changes with it."""
        if self.name == self.backend.model_name(self.model):
            self.name = opened.backend.model_name(opened.model)
        self._opened, self.model, self.backend = opened, opened.model, opened.backend

    def _renew_model(self) -> None:
        """Read the model again if its file has changed, except within a request that is under way."""
        if self._calls.are_under_way or self.model is not self._opened.model:
            return  # the last is a model that the user has assigned
        renewed = self._opened.renew()
        if renewed is not self._opened:
            self._take_model(renewed)

    def _computation(self, arguments: Mapping[str, Any], recompute: bool = False) -> Computation:
        """Begin a request; raise `DeviceNotAvailableError` for a device that does not exist, whoever runs on it."""
        if self._opened.path is not None:
            self._renew_model()
        if arguments.get("device") is not None:
            self.backend.resolve_device(self.model, arguments["device"])
        provided = {
            "model": self.model,
            "data_splits": self.data_splits,
            "backend": self.backend,
            "profiler": self,
            "input_source": self._input_source,
        }
        cache = Cache(self._registry, provided, self._memory, arguments, recompute=recompute, once=self._once)
        return Computation(cache, self._calls)

    # Comparing and showing --------------------------------------------------------------------------------------

    def compare(
        self,
        other: Profiler,
        print_mode: str | None = "info",
        recompute: bool = False,
        short_print: bool = True,
        *,
        strict: bool = False,
        **arguments: Any,
    ) -> Comparison:
        """Compute this profiler and ``other``, which is the reference, and print how much better this one is.

        The models take turns while they are timed. A metric that only one of them has is printed too.
        """
        level, short_print = LEVEL.or_none()("print_mode", print_mode), FLAG("short_print", short_print)
        pair = [_OTHER("other", other), self]
        comparison = compare_profilers(
            pair, KeyRequest(None, arguments, strict), recompute=FLAG("recompute", recompute)
        )
        if level is not None:
            log_result(comparison, level, short_print)
        return comparison

    def display_status(self, other: Profiler | None = None, print_mode: str = "info", short_print: bool = True) -> None:
        """Print the computed values, beside those of the profiler ``other``; ``short_print=False`` adds layers."""
        level = LEVEL("print_mode", print_mode)
        reference = None if other is None else _OTHER("other", other)._report()
        result = self._report() if reference is None else Comparison(reference, (self._report(),))
        log_result(result, level, FLAG("short_print", short_print))

    def layer_times(self, model: Any = None) -> LayerTimer:
        """Return a context manager that times the layers of the model, or of another model, while its block runs.

        The block calls the model: ``with profiler.layer_times() as timer: model(x).sum().backward()``. Afterwards
        ``timer.table`` contains the times. It raises `NotOfferedError` if the backend does not support it.
        """
        return require_capability(self.backend, WatchesLayers).time_layers(self.model if model is None else model)

    def watch(self, at_step: int | Iterable[int] | None = 5, *, model: Any = None, optimizer: Any = None) -> Watch:
        """Return a `Watch`, which measures steps of a training loop. Some backends raise `NotOfferedError`."""
        recorder = require_capability(self.backend, Watches).record_steps(
            self.model if model is None else model, optimizer
        )
        return Watch(self._report_steps, recorder, at_step)

    def _report_steps(
        self, steps: WatchedSteps, recorder: StepRecorder, metrics: Iterable[str] | None, arguments: Mapping[str, Any]
    ) -> Report:
        """Return the report of watched steps, with the counts for the inputs of the model; see `Watch.report`."""
        twin = self.clone().register_defaults()
        names = status_names("metrics", metrics)
        if names is None:
            functions = twin._registry.functions()
            names = list(dict.fromkeys(name for function in functions for name in function.REPORTED_OF_WATCHED_STEPS))
        arguments = {**read_arguments(KeyRequest(names, arguments), [twin._registry]), "watched": steps}
        if recorder.optimizer is not None:
            arguments["optimizer"] = recorder.optimizer
        if recorder.inputs is not None:
            twin._input_source = InputSource.of(recorder.inputs, None)
        elif steps.without_calls and isinstance(twin.compute_status(Inputs.NAME), NoInputs):
            arguments["inputs"] = NoInputs(NotOfferedError(steps.without_calls))
        twin._compute_all(select_keys(twin._registry, names, arguments), arguments)
        return twin.report(names)

    def report(self, names: Iterable[str] | None = None) -> Report:
        """Return the values computed so far, or those of the named metrics, as a `Report`; plugins get it too.

        Raises `UnknownStatusError` for a name that no function is registered for.
        """
        requested = status_names("names", names)
        shown = None if requested is None else [self._registry[name].key.NAME for name in requested]
        for name in self.status_keys() if shown is None else shown:
            self.status_get(name)  # a function that asks for a report depends on its values
        report = self._report(shown)
        announce(report)
        return report

    @whole_call  # the size of the batch may take a trace of its own
    def _report(self, names: Sequence[str] | None = None) -> Report:
        bindings = [binding for binding in self._registry if binding.key.NAME in self._memory]
        computed = {binding.key.NAME: self._find_status(binding) for binding in bindings}
        arguments = dict(self._placing)
        for name, remembered in self._memory.items():
            if isinstance(remembered.status, Metric) if names is None else name in names:
                arguments |= remembered.request
        return build_report(self.name, self.backend, self.model, computed, names, arguments)

    # The computed statuses --------------------------------------------------------------------------------------

    def clone(
        self: P, model: Any = None, data_splits: Mapping[str, Any] | None = None, retain_status: bool = False
    ) -> P:
        """Return a profiler with the same functions for another model or other data. Model and data are not copied.

        The new profiler has no values unless ``retain_status`` is True. Values belong to this model and its data, so
        ``retain_status`` together with another model or other data raises `ArgumentError`.
        """
        twin = copy.copy(self)
        twin._calls, twin._registry, twin._once = Calls(), self._registry.copy(), False
        if model is not None:
            bound = self.backend_class is not None or self.backend.accepts(model)
            twin._take_model(open_model(model, self.backend if bound else None, self.backend_class))
        if data_splits is not None and data_splits is not self.data_splits:
            twin.data_splits = twin._wrap(data_splits)
        is_other = twin.model is not self.model or twin.data_splits is not self.data_splits
        if FLAG("retain_status", retain_status) and is_other:
            raise ArgumentError(
                "retain_status=True keeps the values of this model and its data, and others were given; leave out one "
                "of both"
            )
        twin._memory = dict(self._memory) if retain_status else {}
        return twin

    def status_get(self, name: str, to_value: bool = True) -> Any:
        """Return the value of a status key, or None if it is not computed. ``to_value=False`` returns its instance."""
        status = self._calls.note_request(self._find_status(self._registry[name]))
        return status.value if to_value else status

    def _find_status(self, binding: Binding) -> StatusKey:
        entry = self._memory.get(binding.key.NAME)
        return entry.status if entry and entry.function is binding.function else binding.key

    def status_contains(self, name: str) -> bool:
        """Return whether a function is registered for a status key."""
        return name in self._registry

    def status_keys(self) -> Iterator[str]:
        """Iterate over the names of all registered status keys."""
        return iter(self._registry.names())

    def status_values(self, to_value: bool = True) -> Iterator[Any]:
        """Iterate over the values, in the order of `status_keys`."""
        return iter([self.status_get(name, to_value) for name in self.status_keys()])

    def status_items(self, to_value: bool = True) -> Iterator[tuple[str, Any]]:
        """Iterate over names and values."""
        return zip(self.status_keys(), self.status_values(to_value), strict=True)

    def status_to_dict(self, to_value: bool = True) -> dict[str, Any]:
        """Return the values by name."""
        return dict(self.status_items(to_value))

    def load_from_dict(self, status_dict: Mapping[str, Any], to_value: bool = True) -> None:
        """Set values (or, with ``to_value=False``, status instances) from a dict instead of computing them.

        All other values are removed. None means that a value is not computed. An unknown name raises
        `UnknownStatusError`, and nothing changes.
        """
        loaded: dict[str, Remembered] = {}
        names: dict[str, str] = {}
        for name, value in mapping("values by name: {'macs': 100}")("status_dict", status_dict).items():
            binding = self._registry[name]
            key = binding.key.NAME
            if key in names:
                raise ArgumentError(f"status_dict: {names[key]!r} and {name!r} are one metric; give one")
            names[key] = name
            status = _make_status(binding.key, value) if to_value else _require_status(name, value, key)
            if status.is_computed:
                loaded[key] = Remembered(status, binding.function, None)
        self._memory = loaded

    def reset_status(self) -> None:
        """Remove all computed values."""
        self._memory = {}

    def __repr__(self) -> str:
        of_every_profiler = tuple(map(type, INTRINSIC))
        named = [function for function in self._registry.functions() if not isinstance(function, of_every_profiler)]
        functions = ", ".join(map(describe, named))
        return f"{type(self).__name__}({self.name!r}, backend={self.backend.name!r}, functions=[{functions}])"


def _make_status(template: StatusKey, value: Any) -> StatusKey:
    """Return the status of a key with a value; the template for None."""
    return template if value is None else template.with_outcome(Outcome.of(value))


def _require_status(name: str, value: Any, key: str) -> StatusKey:
    """Return a value that is a status of a key; raises an error for any other."""
    if not isinstance(value, StatusKey):
        raise TypeError(f"{name!r} holds {value!r}, no status instance; pass to_value=True to load values")
    if key != value.NAME:
        raise ArgumentError(f"status_dict: {name!r} holds a status of {value.NAME!r}; give it under that name")
    return value


_OTHER = instance(Profiler, "another Profiler to compare with")


# Several profilers side by side ---------------------------------------------------------------------------------------


def compare_profilers(
    profilers: Sequence[Profiler], request: KeyRequest, *, names: Iterable[str] | None = None, recompute: bool = False
) -> Comparison:
    """Compute the metrics of all profilers and return their comparison; the models take turns while they are timed.

    Args:
        profilers: The profilers, the reference first.
        request: The status keys to compute, and the arguments of their functions.
        names: The names of the models in the comparison, the reference first; None for the names of their profilers.
        recompute: Forget earlier values.
    """
    keys_of_models, arguments = read_request(request, [profiler._registry for profiler in profilers])
    if recompute:
        for profiler in profilers:
            profiler.reset_status()
    computations = _begin_jointly(profilers, {name for keys in keys_of_models for name in keys}, arguments)
    for profiler, keys, computation in zip(profilers, keys_of_models, computations, strict=True):
        profiler._compute_all(keys, arguments, strict=request.strict, begun=computation)
    shown = distinct_names([profiler.name for profiler in profilers] if names is None else names)
    reports = [
        replace(profiler._report(keys if request.is_selective else None), name=name)
        for profiler, keys, name in zip(profilers, keys_of_models, shown, strict=True)
    ]
    comparison = Comparison(reports[0], tuple(reports[1:]))
    announce(comparison)
    return comparison


@whole_call
def _begin_jointly(
    profilers: Sequence[Profiler], names: Collection[str], arguments: dict[str, Any]
) -> list[Computation]:
    """Return a computation for each profiler, which then continues; what all can measure together is measured."""
    with ExitStack() as stack:
        for profiler in profilers:
            stack.enter_context(suspend_modes(profiler.backend))
        computations = [profiler._computation(arguments) for profiler in profilers]
        measure_jointly(computations, names)
    return computations
