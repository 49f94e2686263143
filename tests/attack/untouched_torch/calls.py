"""What is done with a model: every public call, and every metric that the registry knows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from attack_calls import in_every_form, use_in_every_way
from torch import nn

from profilerkit import ModelInputs, Profiler, compare, profile
from profilerkit.hooks.offers import default_functions
from profilerkit_torch import (
    ComputeEvalMetric,
    Cost,
    EvalLossFunction,
    TorchBackend,
    TorchProfiler,
    get_accuracy,
    get_missclass,
    get_topk,
    layer_times,
    register_module_cost,
    register_op_cost,
    watch,
)
from profilerkit_torch.costs.registry import scoped_costs

from .subjects import Subject

__all__ = ["CALLS", "STATIC", "Call", "list_tensors"]

#: Few runs: what a run leaves behind it leaves behind after three.
RUNS: dict[str, Any] = {"num_iters": 3, "warmup": 0}
STATIC = ("total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint", "layerwise_data")


@dataclass(frozen=True)
class Call:
    """Something of profilerkit that is called with a model.

    Where the caller's own code runs the model meanwhile, ``plain`` is the same code without profilerkit: the model
    must come out of both alike.
    """

    do: Callable[[Subject], Any]
    plain: Callable[[Subject], Any] | None = None


CALLS: dict[str, Call] = {}


def call(plain: Callable[[Subject], Any] | None = None) -> Callable[[Callable[[Subject], Any]], Any]:
    def register(function: Callable[[Subject], Any]) -> Callable[[Subject], Any]:
        CALLS[function.__name__] = Call(function, plain)
        return function

    return register


def make_inputs(subject: Subject) -> ModelInputs:
    return ModelInputs(*subject.args, **subject.kwargs)


def list_tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an output."""
    found: list[torch.Tensor] = []
    waiting = [value]
    while waiting:
        number = waiting.pop()
        if isinstance(number, torch.Tensor):
            found.append(number)
        elif isinstance(number, dict):
            waiting.extend(number.values())
        elif isinstance(number, (list, tuple)):
            waiting.extend(number)
    return found


def make_profiler(subject: Subject) -> TorchProfiler:
    return TorchProfiler(subject.model, inputs=make_inputs(subject)).register_defaults()


# The metrics of the registry ----------------------------------------------------------------------------------------


def _metric(name: str) -> Call:
    sizes: dict[str, Any] = {"batch_sizes": (1, 2)} if name == "batch_sweep" else {}
    runs: dict[str, Any] = {} if name in (*STATIC, "sparsity", "effective_macs", "measured_memory") else RUNS
    if name in ("layer_times", "operator_table"):
        runs = {"passes": 2}

    def do(subject: Subject) -> Any:
        return profile(subject.model, make_inputs(subject), metrics=[name], **runs, **sizes)

    return Call(do)


for _function in default_functions(TorchBackend()).functions():
    for _key in _function.list_keys():
        CALLS[f"metric_{_key.NAME}"] = _metric(_key.NAME)


# The other calls ----------------------------------------------------------------------------------------------------


@call()
def default_profile(subject: Subject) -> Any:
    return profile(subject.model, make_inputs(subject), **RUNS)


@call()
def static_profile(subject: Subject) -> Any:
    return profile(subject.model, make_inputs(subject), metrics=STATIC)


@call()
def strict_profile(subject: Subject) -> Any:
    return profile(subject.model, make_inputs(subject), metrics=STATIC, strict=True)


@call()
def profile_without_inputs(subject: Subject) -> Any:
    return profile(subject.model, metrics=STATIC)


@call()
def profile_with_wrong_inputs(subject: Subject) -> Any:
    return profile(subject.model, torch.ones(1, 1, 1, 1, 77), **RUNS)


@call()
def profile_of_a_call(subject: Subject) -> Any:
    return profile(subject.model, make_inputs(subject), call=lambda model, *a, **k: model(*a, **k), metrics=STATIC)


@call()
def profile_with_layers_ignored(subject: Subject) -> Any:
    return profile(subject.model, make_inputs(subject), metrics=STATIC, ignore=[nn.Linear])


@call()
def profile_with_options(subject: Subject) -> Any:
    options: dict[str, Any] = {"autocast": "bfloat16", "num_threads": 1, "device": "cpu"}
    return profile(subject.model, make_inputs(subject), metrics=["execution_time"], **options, **RUNS)


@call()
def profile_compiled(subject: Subject) -> Any:
    return profile(subject.model, make_inputs(subject), metrics=["execution_time"], compile="eager", **RUNS)


@call()
def profile_of_the_meta_device(subject: Subject) -> Any:
    return profile(subject.model, make_inputs(subject), device="meta", **RUNS)


@call()
def comparison(subject: Subject) -> Any:
    return compare(subject.model, subject.model, inputs=make_inputs(subject), **RUNS)


with torch.random.fork_rng():
    OTHER = nn.Linear(4, 3)


@call()
def comparison_with_another(subject: Subject) -> Any:
    return compare(OTHER, subject.model, inputs=make_inputs(subject), metrics=["macs", "execution_time"], **RUNS)


@call()
def profilers(subject: Subject) -> Any:
    return use_in_every_way(make_profiler(subject), subject.model, **RUNS)


@call()
def base_profiler(subject: Subject) -> Any:
    return Profiler(subject.model, inputs=make_inputs(subject)).register_defaults().compute_status("macs")


@call()
def saving_and_showing(subject: Subject) -> Any:
    return in_every_form(profile(subject.model, make_inputs(subject), metrics=STATIC))


@call()
def own_cost_formulas(subject: Subject) -> Any:
    with scoped_costs():
        register_op_cost("aten::addmm", lambda *args, **kwargs: Cost(1, 2), override=True)
        register_module_cost(nn.BatchNorm1d, lambda module, *args, **kwargs: Cost(3, 4), override=True)
        return profile(subject.model, make_inputs(subject), metrics=STATIC)


@call()
def exporting_operator_times(subject: Subject) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        return profile(subject.model, make_inputs(subject), metrics=["operator_table"], export=str(path), passes=2)


@call()
def evaluation(subject: Subject) -> Any:
    """With a function of the user's that calls the model."""
    profiler = TorchProfiler(subject.model, {"test": [1, 2, 3]}, inputs=make_inputs(subject))
    profiler.register_profiler_function(
        ComputeEvalMetric(lambda model, loader: next(len(_run(subject)) for _ in loader))
    )
    return profiler.compute_status("eval_metric")


@call()
def evaluation_of_accuracy(subject: Subject) -> Any:
    batches = [(subject.args[0], torch.zeros(2, dtype=torch.long))] * 2 if subject.args else []
    profiler = TorchProfiler(subject.model, {"test": batches, "train": batches})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    return profiler.compute_network_status()


# Calls in which the caller's own code runs the model ----------------------------------------------------------------


def _run(subject: Subject) -> list[torch.Tensor]:
    return list_tensors(subject())


def _step(subject: Subject) -> None:
    """Run a model forward and backward, as a training loop does."""
    outputs = [output for output in list_tensors(subject()) if output.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])


def _two_steps(subject: Subject) -> None:
    for _ in range(2):
        _step(subject)


def _steps(subject: Subject) -> None:
    for _ in range(3):
        _step(subject)


def _parameters(model: Any) -> list[Any]:
    return [parameter for parameter in nn.Module.parameters(model) if parameter.requires_grad]


def _train(subject: Subject, ends: Callable[[], Any] = lambda: None) -> None:
    optimizer = torch.optim.SGD(_parameters(subject.model) or [torch.zeros(1)], lr=0.1)
    for _ in range(3):
        _step(subject)
        optimizer.step()
        ends()


@call(_steps)
def timing_of_layers(subject: Subject) -> None:
    with layer_times(subject.model):
        _steps(subject)


@call(_steps)
def timing_of_layers_by_a_profiler(subject: Subject) -> Any:
    with TorchProfiler(subject.model).layer_times() as timer:
        _steps(subject)
    return timer.table


@call(_train)
def watched_loop(subject: Subject) -> None:
    with watch(subject.model, at_step=(1,)) as watched:
        _train(subject, watched.step)
    watched.report()


@call(_two_steps)
def watched_steps(subject: Subject) -> None:
    watched = TorchProfiler(subject.model).watch(None)
    for _ in range(2):
        watched.start()
        try:
            _step(subject)
        finally:
            watched.stop()
    watched.report(["macs", "step_time"])


def _evaluate(helper: Callable[..., Any]) -> Call:
    """An evaluation function alone, which runs the model in inference mode and hands it back."""
    target = torch.zeros(2, dtype=torch.long)

    def do(subject: Subject) -> Any:
        return helper(subject.model, [(subject.args[0], target)])

    return Call(do)


for _name, _helper in {
    "get_accuracy": get_accuracy,
    "get_missclass": get_missclass,
    "get_topk": get_topk(topk=(1,)),
    "eval_loss": EvalLossFunction(lambda output, target: output.sum()),
}.items():
    CALLS[_name] = _evaluate(_helper)
