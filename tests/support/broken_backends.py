"""Backends that are wrong in one way each, for the tests of the conformance suite itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from broken_traces import BROKEN, with_operator, with_root, wrong
from replacing import replace

from profilerkit import InputError, ModelInputs, ModelTrace, Run, WithoutValuesError
from profilerkit.backend import AS_IT_IS, RunOptions
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.operator_times import CalledOperator, OperatorTime, OperatorTimes
from profilerkit.trace.records import LayerCall

__all__ = ["BROKEN"]

# Runs ---------------------------------------------------------------------------------------------------------------


@wrong("a trace that remembers the first batch")
class _Remembering(FakeBackend):
    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, ModelTrace] = {}

    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        if inputs is None:
            return super().trace(model, inputs)
        return self.known.setdefault(id(model), super().trace(model, inputs))


@wrong("a forward pass that does not run")
class _Idle(FakeBackend):
    @contextmanager
    def run(self, model: Any, inputs: Any, *options: Any, **named: Any) -> Iterator[Run]:
        with super().run(model, inputs, *options, **named):
            yield Run(lambda: None)


@wrong("any mode will do")
class _AnyMode(FakeBackend):
    def mode(self, options: RunOptions = AS_IT_IS) -> str:
        return options.mode or "eager"


@wrong("an evaluation that loses its value")
class _Valueless(FakeBackend):
    def evaluate(self, model: FakeModel, call: Callable[[], Any], device: Any = None) -> Any:
        super().evaluate(model, call, device)


@wrong("an evaluation that wraps errors")
class _Wrapping(FakeBackend):
    def evaluate(self, model: FakeModel, call: Callable[[], Any], device: Any = None) -> Any:
        try:
            return super().evaluate(model, call, device)
        except ArithmeticError as error:
            raise RuntimeError("evaluation failed") from error


@wrong("an evaluation in training mode")
class _Training(FakeBackend):
    def evaluate(self, model: FakeModel, call: Callable[[], Any], device: Any = None) -> Any:
        self.resolve_device(model, device)
        return call()


@wrong("a model left in inference mode by its trace")
class _Left(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        model.training = False
        return super().trace(model, inputs)


@wrong("a model left in inference mode where it raised")
class _LeftByErrors(FakeBackend):
    @contextmanager
    def run(self, model: Any, inputs: Any, *options: Any, **named: Any) -> Iterator[Run]:
        training, model.training = model.training, False
        with super().run(model, inputs, *options, **named) as run:
            yield run
        model.training = training


@wrong("a forward pass that trains")
class _Updating(FakeBackend):
    @contextmanager
    def run(self, model: Any, inputs: Any, *options: Any, **named: Any) -> Iterator[Run]:
        with super().run(model, inputs, *options, **named) as run:
            model.layers[-1].value += 0.1
            yield run


@wrong("random numbers drawn")
class _Drawing(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        random.random()
        return super().trace(model, inputs)


@wrong("preserved swallows errors")
class _Swallowing(FakeBackend):
    @contextmanager
    def preserve(self, model: FakeModel) -> Iterator[None]:
        try:
            yield
        except ArithmeticError:
            return


# What is said of failures -------------------------------------------------------------------------------------------


@wrong("a trace that raises")
class _RaisingTrace(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        if inputs is not None:
            model.run(inputs)
        return super().trace(model, inputs)


@wrong("a failure without the model's message")
class _Mute(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        found = super().trace(model, inputs)
        return found if found.failure is None else replace(found, failure=RuntimeError("the model failed"))


@wrong("a failure that loses the layers")
class _Bare(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        found = super().trace(model, inputs)
        return found if found.failure is None else replace(found, layers=found.layers[:1])


@wrong("a trace without inputs that invents work")
class _Inventing(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        made = ModelInputs.of({str(key): FakeTensor((1, *shape)) for key, shape in model.inputs.items()})
        placed = ModelInputs(*made.kwargs.values()) if 0 in model.inputs else made
        return super().trace(model, placed if inputs is None else inputs)


@wrong("an unknown operation counted as nothing")
class _Silent(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        return replace(super().trace(model, inputs), uncounted={})


@wrong("any device will do")
class _AnyDevice(FakeBackend):
    def resolve_device(self, model: FakeModel, device: Any) -> str:
        return "cpu"


# Small methods ------------------------------------------------------------------------------------------------------


@wrong("no object is a model")
class _Refusing(FakeBackend):
    def accepts(self, model: Any) -> bool:
        return False


@wrong("every object is a model")
class _Greedy(FakeBackend):
    def accepts(self, model: Any) -> bool:
        return True


@wrong("everything with a length is a tensor")
class _LooseTensors(FakeBackend):
    def is_tensor(self, value: Any) -> bool:
        return super().is_tensor(value) or isinstance(value, list)


@wrong("random tensors are float64")
class _Doubles(FakeBackend):
    def random_tensor(self, spec: Any, batch_size: int) -> Any:
        return np.random.default_rng(0).standard_normal((batch_size, *spec.shape))


@wrong("integers that no embedding takes")
class _LargeIntegers(FakeBackend):
    def random_tensor(self, spec: Any, batch_size: int) -> Any:
        if spec.dtype == "int64":
            return np.full((batch_size, *spec.shape), 10**6)
        return super().random_tensor(spec, batch_size)


@wrong("batches repeated sample by sample")
class _Repeating(FakeBackend):
    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        if isinstance(tensor, FakeTensor) or not len(tensor):
            return super().with_batch_size(tensor, batch_size)
        return np.repeat(tensor, -(-batch_size // len(tensor)), axis=0)[:batch_size]


@wrong("empty batches are handed on")
class _Empty(FakeBackend):
    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        try:
            return super().with_batch_size(tensor, batch_size)
        except InputError:
            return tensor


@wrong("lists become tensors")
class _Eager(FakeBackend):
    def as_tensor(self, value: Any) -> Any:
        return np.asarray(value) if isinstance(value, list) else value


@wrong("arrays become float32")
class _Casting(FakeBackend):
    def as_tensor(self, value: Any) -> Any:
        return value.astype("float32") if isinstance(value, np.ndarray) else value


@wrong("a fingerprint that never changes")
class _Fixed(FakeBackend):
    def fingerprint(self, model: FakeModel, values: bool = True) -> object:
        return "fixed"


@wrong("a fingerprint that always changes")
class _Changing(FakeBackend):
    def fingerprint(self, model: FakeModel, values: bool = True) -> object:
        return object()


@wrong("an environment of numbers")
class _Numbers(FakeBackend):
    def environment(self) -> Any:
        return {"threads": 2}


@wrong("a model opened as a copy")
class _Copying(FakeBackend):
    def open_model(self, model: FakeModel) -> FakeModel:
        return replace(model)


@wrong("inputs fitted to another layout")
class _Fitting(FakeBackend):
    def fit_inputs(self, model: FakeModel, inputs: ModelInputs) -> ModelInputs:
        return inputs.map(lambda tensor: FakeTensor((*tensor.shape, 1)))


@wrong("models without a name")
class _Nameless(FakeBackend):
    def model_name(self, model: FakeModel) -> str:
        return ""


@wrong("devices that are no names")
class _Devices(FakeBackend):
    def resolve_device(self, model: FakeModel, device: Any) -> Any:
        super().resolve_device(model, device)
        return 0


@wrong("times that are nothing")
class _FirstCall(FakeBackend):
    @contextmanager
    def run(self, model: Any, inputs: Any, *options: Any, **named: Any) -> Iterator[Run]:
        with super().run(model, inputs, *options, **named) as run:
            yield Run(run, first_call_seconds=0.0)


class _Few(Run):
    def samples(self, number: int, clock: Callable[[], float] = time.perf_counter) -> Sequence[float]:
        return super().samples(number - 1, clock)


class _Back(Run):
    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        return -1e-3


class _Parted(Run):
    def parts(self, clock: Callable[[], float] = time.perf_counter) -> Mapping[str, float]:
        return {"": 1e-3}


def make_yielding(kind: Callable[[Run], Any]) -> Callable[..., Any]:
    """Return a ``run`` that yields something else in place of a run."""

    @contextmanager
    def run(self: FakeBackend, *args: Any, **options: Any) -> Iterator[Any]:
        with FakeBackend.run(self, *args, **options) as own:
            yield kind(own)

    return run


# What goes wrong in metrics -----------------------------------------------------------------------------------------


@wrong("counts that add up over traces")
class _Adding(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        found = super().trace(model, inputs)
        return replace(found, operators=found.operators * self.traced, memory=replace(found.memory))


@wrong("layers that cannot be timed after all")
class _Untimed(FakeBackend):
    def layer_times(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("no clock")


@wrong("times of layers that are not there")
class _StrangeTimes(FakeBackend):
    def layer_times(self, *args: Any, **options: Any) -> Any:
        return [LayerTime("nowhere", "FakeLayer", 1, (0.1,), None)]


@wrong("a step of training without gradients")
class _Forward(FakeBackend):
    def trace_training(self, model: FakeModel, inputs: ModelInputs) -> ModelTrace:
        return self.trace(model, inputs)


@wrong("batches that are twice as large")
class _Twice(FakeBackend):
    def random_tensor(self, spec: Any, batch_size: int) -> Any:
        return super().random_tensor(spec, 2 * batch_size)


@wrong("a failure that is kept secret")
class _Secret(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        return replace(super().trace(model, inputs), failure=None)


@wrong("a flop too many when it is profiled")
class _Profiled(FakeBackend):
    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        found = super().trace(model, inputs)
        return with_operator(found, 0, flops=found.operators[0].flops + 1) if found.operators else found


@wrong("data splits of no known class")
class _Loader(FakeBackend):
    data_loader: ClassVar[Any] = list


# And more, a line or two each ---------------------------------------------------------------------------------------


def override(what: str, **methods: Any) -> None:
    """Keep a backend that is wrong in some methods."""
    BROKEN[what] = type("Overriding", (FakeBackend,), methods)


def change_failures(change: Callable[[ModelTrace], ModelTrace]) -> Callable[..., ModelTrace]:
    """Return a ``trace`` that changes the traces of models that raise."""

    def trace(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        found = FakeBackend.trace(self, model, inputs)
        return found if found.failure is None else change(found)

    return trace


@contextmanager
def run_without_message(self: FakeBackend, *args: Any, **options: Any) -> Iterator[Run]:
    try:
        with FakeBackend.run(self, *args, **options) as run:
            yield run
    except ValueError:
        raise RuntimeError("the model failed") from None


def evaluate_too_early(self: FakeBackend, model: FakeModel, call: Callable[[], Any], device: Any = None) -> Any:
    value = call()
    self.resolve_device(model, device)
    return value


def evaluate_twice(self: FakeBackend, model: FakeModel, call: Callable[[], Any], device: Any = None) -> Any:
    self.resolve_device(model, device)
    return [call(), call()][0]


def trace_with_calls(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
    found = FakeBackend.trace(self, model, inputs)
    return with_root(found, calls=(LayerCall((), ()),)) if inputs is None else found


def trace_failing_where_unknown(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
    found = FakeBackend.trace(self, model, inputs)
    return replace(found, failure=RuntimeError("unknown")) if found.uncounted else found


def trace_naming_once(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
    found = FakeBackend.trace(self, model, inputs)
    return replace(found, uncounted={}) if self.traced > 1 else found


def trace_training_in_part(self: FakeBackend, model: FakeModel, inputs: ModelInputs) -> ModelTrace:
    found = self.trace(model, inputs)
    operators = tuple(replace(op, macs=3 * op.macs - (op.macs == 1920) * op.macs) for op in found.operators)
    return replace(found, operators=operators, uncounted={"fake::op": 1})


def give_layer_times(*seconds: float) -> Callable[..., list[LayerTime]]:
    return lambda self, *args, **options: [LayerTime("first", "linear", 1, seconds)]


def give_operator_times(layer: str, seconds: float) -> Callable[..., OperatorTimes]:
    times = OperatorTime("fake::op", layer, "forward", 1, (seconds,))
    return lambda self, *args, **options: OperatorTimes((times,), {"forward": (0.5,)})


@contextmanager
def leave_training_off(self: FakeBackend, model: FakeModel, inputs: ModelInputs, options: RunOptions) -> Iterator[Run]:
    model.training = False
    yield Run(lambda: model.run(inputs))


def without_values(self: FakeBackend, *args: Any, **options: Any) -> Any:
    raise WithoutValuesError("")


def trace_of_the_own_call(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
    return FakeBackend.trace(self, model, None if inputs is None else inputs.given_to(None))


def run_of_the_own_call(self: FakeBackend, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Any:
    return FakeBackend.run(self, model, inputs.given_to(None), options)


def run_in_one_mode(self: FakeBackend, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Any:
    return FakeBackend.run(self, model, inputs, replace(options, mode=None))


def run_on_any_threads(self: FakeBackend, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Any:
    return FakeBackend.run(self, model, inputs, replace(options, num_threads=None))


def operator_times_of_one_layer(self: FakeBackend, *args: Any, **options: Any) -> OperatorTimes:
    called = ((0, CalledOperator("fake::op")),)
    return OperatorTimes((OperatorTime("fake::op", "first", "forward", 1, (0.1,), called=called),), {"forward": (0.5,)})


override("call= ignored where it is traced", trace=trace_of_the_own_call)
override("call= ignored where it is timed", run=run_of_the_own_call)
override("mode= ignored", run=run_in_one_mode)
override("num_threads= ignored", run=run_on_any_threads)
override("an operator table of one layer alone", operator_times=operator_times_of_one_layer)
TEXT: Any = "it failed"
override("a failure that is text", trace=change_failures(lambda found: replace(found, failure=TEXT)))
override("a failure without words", trace=change_failures(lambda found: replace(found, failure=RuntimeError())))
override("a forward pass that loses the message", run=run_without_message)
BROKEN["a trace that takes all metrics with it"] = _RaisingTrace
BROKEN["a failure that metrics do not quote"] = _Mute
override("an unknown operation that is named once", trace=trace_naming_once)
override("an unknown operation that fails", trace=trace_failing_where_unknown)
override("a device that is looked for too late", evaluate=evaluate_too_early)
override("calls where nothing ran", trace=trace_with_calls)
override("an evaluation made twice", evaluate=evaluate_twice)
override("negative times of layers", layer_times=give_layer_times(-0.1))
override("layers that take no time", layer_times=give_layer_times(0.0))
override("operators of layers that are not there", operator_times=give_operator_times("nowhere", 0.1))
override("operators that take longer than all", operator_times=give_operator_times("first", 0.75))
override("a step of training that leaves something out", trace_training=trace_training_in_part)
override("zeros among other weights", zero_weights=lambda self, model: (0, 1))
override("memory that nothing takes", measured_memory=lambda self, model, inputs, device=None: 0)
override("training steps that change the model", run=leave_training_off)
override("no tensor is a tensor", is_tensor=lambda self, value: False)
override("random tensors of one sample", random_tensor=lambda self, spec, size: FakeTensor((1, *spec.shape)))
override(
    "random tensors that are constant",
    random_tensor=lambda self, spec, size: np.ones((size, *spec.shape), spec.dtype),
)
override(
    "arrays that lose their values",
    as_tensor=lambda self, value: np.zeros_like(value) if isinstance(value, np.ndarray) else value,
)
override("batches that stay", with_batch_size=lambda self, tensor, size: tensor)
override(
    "batches of another dtype",
    with_batch_size=lambda self, tensor, size: FakeBackend.with_batch_size(self, tensor, size).astype("float64"),
)
override("devices with two names", resolve_device=lambda self, model, device: f"{device or 'cpu'}:0")
override("an environment of nothing", environment=lambda self: None)
override("inputs fitted to a list", fit_inputs=lambda self, model, inputs: list(inputs.leaves()))
override("no way to run", execution_modes=())
override("unavailable without a reason", run=without_values)
override("a run that is a plain function", run=make_yielding(lambda run: run.call))
override("samples that are too few", run=make_yielding(_Few))
override("a clock that runs backwards", run=make_yielding(_Back))
override("parts of a run without names", run=make_yielding(_Parted))
