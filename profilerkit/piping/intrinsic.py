"""The functions that every profiler has before any metric is registered: the inputs of the model, and traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ..arguments.checks import BATCH_SIZE, ONE_BATCH_SIZE, Check, instance, text, to_call
from ..backend import Backend
from ..backend_kit.failures import backend_failed, find_raising_line
from ..data_splits import DataLoader
from ..errors import InputError, ProfilerKitError
from ..inputs import ModelInputs, NoInputs
from ..protocols import CountsNonzero, Trains, fit_inputs, read_declared_inputs, require_capability
from ..trace.ignoring import IGNORED, Ignored, without_layers
from ..trace.records import ModelTrace
from ..trace.validation import validate
from .bundles import ComputeRunOptions, ComputeSampling
from .function import Keys, Need, ProfilerFunction
from .input_source import InputSource, resize
from .status import StatusKey

__all__ = [
    "INTRINSIC",
    "ComputeInputs",
    "ComputeNonzeroTrace",
    "ComputeTrace",
    "ComputeTrainingTrace",
    "Inputs",
    "NonzeroTrace",
    "Trace",
    "TrainingTrace",
    "find_split",
]


class Inputs(StatusKey):
    """The `ModelInputs` the model is profiled with; other functions name ``inputs`` to get them."""

    NAME: str = "inputs"


class Trace(StatusKey):
    """The `ModelTrace` of the model; other functions name ``trace`` to work on it."""

    NAME: str = "trace"


class TrainingTrace(StatusKey):
    """The `ModelTrace` of one training step; other functions name ``training_trace`` to work on it."""

    NAME: str = "training_trace"


class NonzeroTrace(StatusKey):
    """The `ModelTrace` of the work on nonzero weights; other functions name ``nonzero_trace`` to work on it."""

    NAME: str = "nonzero_trace"


_SOURCE = instance(InputSource, "nothing: a profiler has it from inputs= or input_shape=").or_none()
#: A function that is called in place of the model.
CALL = to_call("a function of the model and its inputs, such as lambda model, x: model.f(x)").or_none()


class ComputeInputs(ProfilerFunction):
    """Finds what to call the model with: example inputs, else the first batch of a split, else what it declares."""

    KEYS: ClassVar[Keys] = (Inputs,)
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "batch_size": BATCH_SIZE,
        "split": text("the name of a data split, such as 'test'").or_none(),
        "call": CALL,
        "input_source": _SOURCE,
    }
    NEED: ClassVar[Need | None] = Need.NOTHING
    #: `InputSource.build` preserves the model where a function of the user's makes the inputs.
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        backend: Backend,
        data_splits: Mapping[str, DataLoader],
        batch_size: int | None = None,
        split: str | None = None,
        model: Any = None,
        call: Callable[..., Any] | None = None,
        input_source: InputSource | None = None,
    ) -> ModelInputs | NoInputs:
        """Return inputs of ``batch_size`` samples; a split's are 1 unless it is given, examples are as they are.

        They are in the layout that the model says it takes.
        If there are none, the reason is returned, not raised: some metrics need no inputs.

        Args:
            backend: The model's backend.
            data_splits: Loaders by name, from which inputs are read.
            batch_size: The samples in one forward pass. Default: the batch size of the example inputs.
            split: The name of the data split that the inputs come from.
            model: The model.
            call: A function that is profiled instead of the model's call. It takes the model and the inputs: ``lambda
                model, x: model.generate(x)``.
            input_source: The inputs that the profiler was made with, or their shapes.
        """
        try:
            if batch_size is not None:
                batch_size = ONE_BATCH_SIZE("batch_size", batch_size)
            if input_source is not None:
                made = input_source.build(backend, batch_size, model)
            elif data_splits:
                made = _read_split(backend, model, find_split(data_splits, split), batch_size or 1)
            else:
                made = _read_declaration(backend, model, batch_size)
            inputs = fit_inputs(backend, model, made)
            return inputs if call is None else inputs.given_to(call)
        except MemoryError:
            raise
        except Exception as error:
            return NoInputs(error if input_source is None else input_source.explain(error))


def find_split(data_splits: Mapping[str, DataLoader], name: str | None) -> DataLoader:
    """Return a data split by its name; without one "train", or else the first one."""
    if name is None:
        name = "train" if "train" in data_splits else next(iter(data_splits))
    if name not in data_splits:
        names = ", ".join(repr(split) for split in data_splits) or "none"
        raise InputError(f"no data split {name!r}; the splits are: {names}")
    return data_splits[name]


def _read_split(backend: Backend, model: Any, loader: DataLoader, batch_size: int) -> ModelInputs:
    """Return inputs of so many samples from a data split."""
    if not loader.forward_pass.expecting_common_inputs:
        return ModelInputs.of(loader.forward_pass.create_random_model_inputs(batch_size))
    inputs = fit_inputs(backend, model, loader.model_inputs().map(backend.as_tensor))
    return resize(inputs, backend, batch_size, model)


def _read_declaration(backend: Backend, model: Any, batch_size: int | None) -> ModelInputs:
    """Return inputs as the model declares them; raises `InputError` if it declares none."""
    declared = read_declared_inputs(backend, model, batch_size)
    if declared is None:
        raise InputError(
            "there is nothing to run the model with; give inputs=x (example inputs), input_shape=(3, 224, 224) "
            "(the shape of one sample; on the command line --input-shape 3,224,224), "
            "data_splits={'train': loader}, or have what builds the model return LoadedModel(model, inputs=x)"
        )
    declared.note, declared.are_random = "the inputs were created as the model declares them", True
    return declared


class ComputeTrace(ProfilerFunction):
    """Traces the model once; all static metrics are views of the result."""

    KEYS: ClassVar[Keys] = (Trace,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"ignore": IGNORED}
    NEED: ClassVar[Need | None] = Need.TRACE
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        ignore: Ignored = (),
        input_source: InputSource | None = None,
    ) -> ModelTrace:
        """Return the trace of one forward pass; without inputs a trace of the layers, with the reason as its failure.

        Raises `InvalidTraceError` for a trace that breaks a rule, `BackendFailedError` if the backend's code fails.

        Args:
            model: The model.
            backend: Its backend.
            inputs: Its inputs.
            ignore: Layers that do not count: classes of layers, names of classes, or patterns of paths.
            input_source: The source of the inputs, for messages about mistakes in it.
        """
        if isinstance(inputs, NoInputs):
            result = replace(_run_trace(backend, backend.trace, model, None), failure=inputs.error)
        else:
            model_inputs = ModelInputs.of(inputs)
            result = _run_trace(backend, backend.trace, model, model_inputs)
            if result.failure is not None and input_source is not None:
                result = replace(result, failure=input_source.explain(result.failure))
        return without_layers(result, ignore)


def _run_trace(
    backend: Backend, trace: Callable[..., ModelTrace], model: Any, inputs: ModelInputs | None
) -> ModelTrace:
    """Return a backend's trace; raise `BackendFailedError` where its own code raises, which it is never to do."""
    try:
        result = trace(model, inputs)
    except (ProfilerKitError, MemoryError):
        raise
    except Exception as error:
        location = find_raising_line(error, type(backend).__module__)
        if location is None:
            raise
        raise backend_failed(error, backend.name, location) from error
    return validate(result, backend.name)


class ComputeTrainingTrace(ProfilerFunction):
    """Traces one training step."""

    KEYS: ClassVar[Keys] = (TrainingTrace,)
    NEED: ClassVar[Need | None] = Need.TRACE
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(self, model: Any, backend: Backend, inputs: Any, ignore: Ignored = ()) -> ModelTrace:
        """Return the trace of the forward pass and the gradients; ``ignore`` leaves layers out."""
        trace = require_capability(backend, Trains).trace_training
        return without_layers(_run_trace(backend, trace, model, ModelInputs.of(inputs)), ignore)


class ComputeNonzeroTrace(ProfilerFunction):
    """Traces one forward pass, without the work on weights that are zero; the model may be run."""

    KEYS: ClassVar[Keys] = (NonzeroTrace,)
    NEED: ClassVar[Need | None] = Need.MODEL
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(self, model: Any, backend: Backend, inputs: Any, ignore: Ignored = ()) -> ModelTrace:
        """Return the trace; ``ignore`` leaves layers out."""
        trace = require_capability(backend, CountsNonzero).trace_nonzero
        return without_layers(_run_trace(backend, trace, model, ModelInputs.of(inputs)), ignore)


#: The functions that every profiler has.
INTRINSIC = (
    ComputeInputs(),
    ComputeTrace(),
    ComputeTrainingTrace(),
    ComputeNonzeroTrace(),
    ComputeRunOptions(),
    ComputeSampling(),
)
