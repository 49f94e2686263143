"""What is done with a Keras model: every public call, and every metric that the registry knows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from attack_calls import in_every_form, use_in_every_way
from keras_subjects import Subject

from profilerkit import ModelInputs, Profiler, compare, profile
from profilerkit.hooks.offers import default_functions
from profilerkit_tensorflow import (
    ComputeEvalMetric,
    Cost,
    EvalLossFunction,
    TFBackend,
    TFProfiler,
    get_accuracy,
    get_missclass,
    get_topk,
    register_layer_cost,
    register_op_cost,
)
from profilerkit_tensorflow.costs import scoped_costs

__all__ = ["CALLS", "FEW", "STATIC"]

Call = Callable[[Subject], Any]
#: Few runs: what a run leaves behind it leaves behind after three.
RUNS: dict[str, Any] = {"num_iters": 3, "warmup": 0}
STATIC = ("total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint", "layerwise_data")
#: What these do covers most of what the others do.
FEW = ("static_profile", "default_profile", "metric_training_macs", "metric_layer_times", "evaluation")
CALLS: dict[str, Call] = {}


def call(function: Call) -> Call:
    CALLS[function.__name__] = function
    return function


def make_inputs(subject: Subject) -> ModelInputs:
    given = subject.inputs
    return ModelInputs(**given) if isinstance(given, dict) else ModelInputs(given)


def first_input(subject: Subject) -> Any:
    return next(iter(make_inputs(subject).leaves()))


def _profile(subject: Subject, **arguments: Any) -> Any:
    return profile(subject.model, make_inputs(subject), backend="tensorflow", **arguments)


def _metric(name: str) -> Call:
    runs: dict[str, Any] = {"passes": 2} if name in ("layer_times", "operator_table") else RUNS
    runs = {} if name in STATIC else runs
    sizes = {"batch_size": (2, 3)} if name == "batch_sweep" else {}
    return lambda subject: _profile(subject, metrics=[name], **runs, **sizes)


for _function in default_functions(TFBackend()).functions():
    for _key in _function.list_keys():
        CALLS[f"metric_{_key.NAME}"] = _metric(_key.NAME)


@call
def default_profile(subject: Subject) -> Any:
    return _profile(subject, **RUNS)


@call
def static_profile(subject: Subject) -> Any:
    return _profile(subject, metrics=STATIC)


@call
def strict_profile(subject: Subject) -> Any:
    return _profile(subject, metrics=STATIC, strict=True)


@call
def profile_without_inputs(subject: Subject) -> Any:
    return profile(subject.model, backend="tensorflow", metrics=STATIC)


@call
def profile_with_wrong_inputs(subject: Subject) -> Any:
    return profile(subject.model, np.ones((1, 1, 1, 1, 77), "float32"), backend="tensorflow", **RUNS)


@call
def profile_of_a_call(subject: Subject) -> Any:
    return _profile(subject, call=lambda model, *args, **kwargs: model(*args, **kwargs), metrics=STATIC)


@call
def profile_with_layers_ignored(subject: Subject) -> Any:
    return _profile(subject, ignore=[keras.layers.Dense], metrics=STATIC)


def _time(**options: Any) -> Call:
    return lambda subject: _profile(subject, metrics=["execution_time"], **options, **RUNS)


for _mode in TFBackend.execution_modes:
    CALLS[f"mode_{_mode}"] = _time(mode=_mode)
CALLS["training_steps"] = _time(training=True)
CALLS["eager_training_steps"] = _time(training=True, mode="eager")
CALLS["on_a_device"] = _time(device="cpu")


@call
def comparison(subject: Subject) -> Any:
    return compare(subject.model, subject.model, inputs=make_inputs(subject), backend="tensorflow", **RUNS)


@call
def profilers(subject: Subject) -> Any:
    profiler = TFProfiler(subject.model, inputs=make_inputs(subject)).register_defaults()
    return use_in_every_way(profiler, subject.model, **RUNS)


@call
def base_profiler(subject: Subject) -> Any:
    profiler = Profiler(subject.model, inputs=make_inputs(subject), backend="tensorflow")
    return profiler.register_defaults().compute_status("macs")


@call
def saving_and_showing(subject: Subject) -> Any:
    return in_every_form(_profile(subject, metrics=STATIC))


@call
def own_cost_formulas(subject: Subject) -> Any:
    with scoped_costs():
        register_op_cost("MatMul", lambda call: Cost(1, 2), override=True)
        register_layer_cost(keras.layers.ReLU, lambda layer, inputs, outputs, training: Cost(3, 4), override=True)
        return _profile(subject, metrics=STATIC)


@call
def exporting_operator_times(subject: Subject) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return _profile(subject, metrics=["operator_table"], export=str(Path(folder) / "trace.pb"), passes=2)


@call
def evaluation(subject: Subject) -> Any:
    """With a function of the user's that calls the model."""
    profiler = TFProfiler(subject.model, {"test": [1, 2, 3]}, inputs=make_inputs(subject))
    run = ComputeEvalMetric(lambda model, loader: sum(len(tf.nest.flatten(subject())) for _ in loader))
    profiler.register_profiler_function(run)
    return profiler.compute_status("eval_metric")


@call
def evaluation_of_accuracy(subject: Subject) -> Any:
    batches = [(first_input(subject), np.zeros(2, int))] * 2
    profiler = TFProfiler(subject.model, {"test": batches, "train": batches})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    return profiler.compute_network_status()


def _evaluate(helper: Callable[..., Any]) -> Call:
    return lambda subject: helper(subject.model, [(first_input(subject), np.zeros(2, int))])


for _name, _helper in {
    "get_accuracy": get_accuracy,
    "get_missclass": get_missclass,
    "get_topk": get_topk(topk=(1,)),
    "eval_loss": EvalLossFunction(lambda output, target: tf.reduce_sum(output)),
}.items():
    CALLS[_name] = _evaluate(_helper)


@call
def backend_alone(subject: Subject) -> Any:
    backend = TFBackend()
    backend.fingerprint(subject.model)
    backend.optimizer_state(subject.model)
    with backend.preserve(subject.model):
        subject()
    return backend.evaluate(subject.model, subject)
