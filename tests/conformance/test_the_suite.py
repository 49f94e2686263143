"""Each test of the conformance suite catches a backend that is wrong in one way, and says what is wrong."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from fake_conformance import FakeConformance as Conforming
from replacing import replace
from source_tree import read_tree
from time_limits import run_program, run_python

from profilerkit import Backend, ModelInputs, ModelTrace, Run, protocols
from profilerkit.backend import AS_IT_IS, RunOptions
from profilerkit.testing import ARCHITECTURES, BackendConformance, FakeBackend, FakeModel, FakeTensor
from profilerkit.testing.settings import BackendSettings
from profilerkit.testing.subject import PRECISIONS
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.operator_times import CalledOperator, OperatorTime, OperatorTimes, OrderedCall
from profilerkit.trace.records import LayerCall

# Methods that are wrong -----------------------------------------------------------------------------------------------

Change = Callable[[ModelTrace], ModelTrace]
Trace = Callable[[Any, FakeModel, "ModelInputs | None"], ModelTrace]


def change_traces(change: Change, where: Callable[[ModelTrace], Any] = lambda trace: trace.operators) -> Trace:
    """Return a ``trace`` that changes what is found: of models that ran, or where something else holds."""

    def trace(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        right = FakeBackend.trace(self, model, inputs)
        return change(right) if where(right) else right

    return trace


def change_failures(change: Change) -> Trace:
    return change_traces(change, where=lambda trace: trace.failure is not None)


def change_busiest(**facts: Any) -> Trace:
    """Return a ``trace`` with another record of the operator that has most MACs."""

    def change(trace: ModelTrace) -> ModelTrace:
        busiest = max(trace.operators, key=lambda operator: operator.macs)
        operators = tuple(replace(one, **facts) if one is busiest else one for one in trace.operators)
        return replace(trace, operators=operators)

    return change_traces(change)


def change_operators(change: Callable[[Any], Any]) -> Trace:
    return change_traces(lambda trace: replace(trace, operators=tuple(map(change, trace.operators))))


def change_weights(change: Callable[[Any], Any]) -> Trace:
    def change_layer(layer: Any) -> Any:
        return replace(layer, parameters=tuple(map(change, layer.parameters)))

    return change_traces(lambda trace: replace(trace, layers=tuple(map(change_layer, trace.layers))))


def change_outputs(change: Callable[[Any], Any]) -> Trace:
    """Return a ``trace`` with other outputs of each call of a layer and of the model."""

    def change_layer(layer: Any) -> Any:
        return replace(layer, calls=tuple(replace(call, outputs=change(call.outputs)) for call in layer.calls))

    return change_traces(lambda trace: replace(trace, layers=tuple(map(change_layer, trace.layers))))


def change_memory(change: Callable[[Any], Any]) -> Trace:
    return change_traces(lambda trace: replace(trace, memory=change(trace.memory)))


def call_model_without_inputs(trace: ModelTrace) -> ModelTrace:
    root, *others = trace.layers
    return replace(trace, layers=(replace(root, calls=(LayerCall((), ()),)), *others))


def trace_first_batch(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
    first = None if inputs is None else inputs.map(lambda tensor: FakeTensor((1, *tensor.shape[1:])))
    return FakeBackend.trace(self, model, first)


def trace_more_each_time(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
    right = FakeBackend.trace(self, model, inputs)
    return replace(right, operators=right.operators * self.traced)


def trace_in_inference_mode(self: FakeBackend, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
    model.training = False
    return FakeBackend.trace(self, model, inputs)


def run_without_call(self: FakeBackend, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Any:
    return FakeBackend.run(self, model, inputs.given_to(None), options)


def run_in_one_mode(self: FakeBackend, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Any:
    return FakeBackend.run(self, model, inputs, replace(options, mode=None))


def run_on_any_threads(self: FakeBackend, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Any:
    return FakeBackend.run(self, model, inputs, replace(options, num_threads=None))


@contextmanager
def run_nothing(self: FakeBackend, *args: Any, **options: Any) -> Iterator[Run]:
    with FakeBackend.run(self, *args, **options):
        yield Run(lambda: None)


class Backwards(Run):
    def seconds(self, *clock: Any) -> float:
        return -super().seconds(*clock)


@contextmanager
def run_backwards(self: FakeBackend, *args: Any, **options: Any) -> Iterator[Run]:
    with FakeBackend.run(self, *args, **options) as run:
        yield Backwards(run.call)


@contextmanager
def train_while_running(self: FakeBackend, model: Any, *args: Any, **options: Any) -> Iterator[Run]:
    with FakeBackend.run(self, model, *args, **options) as run:
        model.layers[-1].value += 0.1
        yield run


@contextmanager
def leave_inference_mode(self: FakeBackend, model: Any, *args: Any, **options: Any) -> Iterator[Run]:
    training, model.training = model.training, False
    with FakeBackend.run(self, model, *args, **options) as run:
        yield run
    model.training = training  # not where the model raises


@contextmanager
def leave_training_off(self: FakeBackend, model: FakeModel, inputs: ModelInputs, options: RunOptions) -> Iterator[Run]:
    model.training = False
    yield Run(lambda: inputs.run(model))


def evaluate_wrapping(self: FakeBackend, model: FakeModel, call: Callable[[], Any], device: Any = None) -> Any:
    try:
        return FakeBackend.evaluate(self, model, call, device)
    except ArithmeticError as error:
        raise RuntimeError("evaluation failed") from error


@contextmanager
def preserve_swallowing(self: FakeBackend, model: FakeModel) -> Iterator[None]:
    with suppress(ArithmeticError):
        yield


def repeat_in_place(self: FakeBackend, tensor: Any, batch_size: int) -> Any:
    batch = FakeBackend.with_batch_size(self, tensor, batch_size)
    if batch_size > len(tensor):
        tensor[:] = 0
    return batch


def fail_to_time_layers(self: FakeBackend, *args: Any, **options: Any) -> Any:
    raise RuntimeError("no clock")


def give_operator_times(layer: str, **called: Any) -> Callable[..., OperatorTimes]:
    times = OperatorTime("fake::op", layer, "forward", 1, (0.1,), **called)
    return lambda self, *args, **options: OperatorTimes((times,), {"forward": (0.5,)})


#: By test of the suite: what is wrong with a backend, and what the test says of it.
CAUGHT: list[tuple[str, dict[str, Any], str]] = [
    # The contract of each method.
    (
        "test_every_architecture_is_built",
        {"accepts": lambda self, model: False},
        "of mlp, a FakeModel: found False, expected True",
    ),
    ("test_other_things_are_no_models", {"accepts": lambda self, model: True}, "accepts(None): found True"),
    (
        "test_a_model_is_opened_as_it_is",
        {"open_model": lambda self, model: replace(model)},
        "another object than the model",
    ),
    ("test_names_are_words", {"model_name": lambda self, model: ""}, "model_name(model) is '', not a name"),
    ("test_data_splits_have_their_classes", {"data_loader": list}, "data_loader is <class 'list'>, no DataLoader"),
    (
        "test_inputs_that_fit_stay_as_they_are",
        {"fit_inputs": lambda self, model, inputs: inputs.map(lambda tensor: FakeTensor((*tensor.shape, 1)))},
        "found [(3, 20, 1)]",
    ),
    (
        "test_the_fingerprint_changes_with_a_parameter_alone",
        {"fingerprint": lambda self, model, values=True: "fixed"},
        "did not change when a parameter did",
    ),
    (
        "test_the_environment_is_text",
        {"environment": lambda self: {"threads": 2}},
        "'threads': 2; give names and values as text",
    ),
    (
        "test_devices_have_names",
        {"resolve_device": lambda self, model, device: f"{device or 'cpu'}:0"},
        "resolve_device(model, 'cpu:0'), its own name for None",
    ),
    (
        "test_random_tensors",
        {"random_tensor": lambda self, spec, size: np.random.default_rng(0).standard_normal((size, *spec.shape))},
        "'float32'), 3): found 'float64', expected 'float32'",
    ),
    (
        "test_other_things_are_no_tensors",
        {"is_tensor": lambda self, value: FakeBackend().is_tensor(value) or isinstance(value, list)},
        "is_tensor of a list: found True",
    ),
    (
        "test_what_is_no_array_stays_as_it_is",
        {"as_tensor": lambda self, value: np.asarray(value) if isinstance(value, list) else value},
        "as_tensor changed a list",
    ),
    (
        "test_numpy_arrays_keep_their_values_and_dtype",
        {"as_tensor": lambda self, value: value.astype("float32") if isinstance(value, np.ndarray) else value},
        "found 'float32', expected 'int64'",
    ),
    (
        "test_batches_are_cut_and_repeated",
        {"with_batch_size": lambda self, tensor, size: tensor},
        "shape of with_batch_size(a batch of 3, 1): found (3, 2)",
    ),
    (
        "test_batches_are_cut_and_repeated",
        {"with_batch_size": repeat_in_place},
        "values of a tensor after with_batch_size made others of it: found [[0.0, 0.0]",
    ),
    (
        "test_an_empty_batch_cannot_be_repeated",
        {"with_batch_size": lambda self, tensor, size: tensor},
        "raised None; raise InputError",
    ),
    # What a trace counts.
    (
        "test_nothing_is_left_uncounted",
        {"trace": change_traces(lambda trace: replace(trace, uncounted={"fake::op": 1}))},
        "('fake::op (1 call)',), expected ()",
    ),
    (
        "test_parameters",
        {"trace": change_weights(lambda weight: replace(weight, trainable=False))},
        "trainable_params of mlp: found 0, expected 1370",
    ),
    (
        "test_macs_and_flops",
        {"trace": change_busiest(macs=0, flops=0)},
        "macs of mlp for a batch of 1: found 672, expected 1312",
    ),
    ("test_macs_and_flops", {"trace": trace_first_batch}, "macs of mlp for a batch of 3: found 1312"),
    (
        "test_layers",
        {"trace": change_busiest(layer="")},
        "layer 'of the whole model' of mlp for a batch of 1: found own_macs 640",
    ),
    (
        "test_the_layers_add_up_to_the_totals",
        {"trace": change_busiest(layer="nowhere")},
        "of mlp are in ['nowhere']",
    ),
    (
        "test_counts_are_whole_numbers",
        {"trace": change_operators(lambda operator: replace(operator, flops=operator.macs))},
        "fake::op in mlp has 1920 macs, 1920 flops",
    ),
    (
        "test_inputs_and_outputs_of_the_model",
        {"trace": change_outputs(lambda outputs: ())},
        "shapes of the outputs of mlp in its trace",
    ),
    (
        "test_size_of_the_weights",
        {"trace": change_weights(lambda weight: replace(weight, bytes=weight.bytes // 2))},
        "float32 weights of mlp: found 2740, expected 5480",
    ),
    (
        "test_shapes_of_the_weights",
        {"trace": change_weights(lambda weight: replace(weight, shape=(weight.count, 2)))},
        "elements in the shape (672, 2) of weight in 'first' of mlp: found 1344, expected 672",
    ),
    (
        "test_every_call_has_outputs",
        {"trace": change_outputs(lambda outputs: ())},
        "'classifier'] of mlp have no outputs in the trace",
    ),
    (
        "test_operators_have_names_of_their_own",
        {"trace": change_operators(lambda operator: replace(operator, operator="fake::op"))},
        "all operators of mlp have one name, {'fake::op'}",
    ),
    (
        "test_outputs_are_alive_at_the_end",
        {"trace": change_memory(lambda memory: replace(memory, live_bytes=(*memory.live_bytes[:-1], 0)))},
        "0 bytes are alive after the last operator of mlp for a batch of 1, its outputs take 40",
    ),
    (
        "test_a_network_of_low_precision",
        {"trace": change_weights(lambda weight: replace(weight, bytes=4 * weight.count))},
        "bytes of the bfloat16 weights of mlp: found 5480, expected 2740",
    ),
    (
        "test_memory_of_weights_and_inputs",
        {"trace": change_memory(lambda memory: replace(memory, input_bytes=0))},
        "input_bytes of mlp for a batch of 1: found 0, expected 80",
    ),
    (
        "test_peak_of_memory",
        {"trace": change_memory(lambda memory: replace(memory, live_bytes=(0,) * len(memory.live_bytes)))},
        "below weights, inputs and the largest activation",
    ),
    ("test_a_second_trace_finds_the_same", {"trace": trace_more_each_time}, "of mlp when it is traced again: found"),
    # What is said of failures.
    (
        "test_without_inputs_there_are_the_layers",
        {"trace": change_traces(call_model_without_inputs, where=lambda trace: not trace.operators)},
        "calls of layers in the trace of mlp",
    ),
    (
        "test_inputs_that_do_not_fit_are_a_failure_of_the_trace",
        {"trace": change_failures(lambda trace: replace(trace, layers=trace.layers[:1]))},
        "of the layers in the trace of mlp with inputs that do not fit",
    ),
    (
        "test_a_model_that_raises_is_quoted",
        {"trace": change_failures(lambda trace: replace(trace, failure=RuntimeError("the model failed")))},
        "without its message",
    ),
    (
        "test_metrics_of_a_model_that_raises_fail_one_by_one",
        {"trace": change_failures(lambda trace: replace(trace, failure=None))},
        "macs of a model that raises: found <Completeness.COMPLETE: 'complete'>",
    ),
    (
        "test_what_is_not_counted_is_named",
        {"trace": change_traces(lambda trace: replace(trace, uncounted={}))},
        "a silent zero",
    ),
    (
        "test_a_device_that_is_not_there_is_said",
        {"resolve_device": lambda self, model, device: "cpu"},
        "resolve_device with device='no-such-device'",
    ),
    # Runs and times.
    (
        "test_forward_runs_in_every_mode",
        {"run": run_backwards},
        "a time is not negative",
    ),
    (
        "test_a_function_given_as_call_is_what_runs",
        {"run": run_without_call},
        "run() did not call the function that was given with call=",
    ),
    (
        "test_threads_are_as_many_as_requested",
        {"run": run_on_any_threads},
        "threads while the model runs with num_threads=1: found {8}, expected {1}",
    ),
    ("test_steps_of_training_run", {"run": leave_training_off}, "run(training=True) changed the model"),
    ("test_forward_really_runs_the_model", {"run": run_nothing}, "does the call run the model?"),
    (
        "test_an_unknown_mode_is_an_input_error",
        {"run": run_in_one_mode},
        "run(mode='no such mode') raised None",
    ),
    (
        "test_times_are_positive_and_give_the_throughput",
        {"random_tensor": lambda self, spec, size: FakeBackend.random_tensor(self, spec, 2 * size)},
        "2 samples went through in a batch of 1",
    ),
    (
        "test_evaluate_returns_what_the_call_returns",
        {"evaluate": lambda self, model, call, device=None: None},
        "calls that evaluate(model, call) made: found 0, expected 1",
    ),
    ("test_evaluate_lets_errors_pass", {"evaluate": evaluate_wrapping}, "RuntimeError('evaluation failed')"),
    (
        "test_evaluate_is_in_inference_mode",
        {"evaluate": lambda self, model, call, device=None: call()},
        "two evaluations of mlp differ",
    ),
    (
        "test_times_of_layers_are_of_its_layers",
        {"layer_times": lambda self, *args, **options: [LayerTime("nowhere", "FakeLayer", 1, (0.1,), None)]},
        "layer_times of mlp names ['nowhere'], which are no layers of its trace",
    ),
    (
        "test_times_of_operators_are_of_its_layers",
        {"operator_times": give_operator_times("nowhere")},
        "operator_times of mlp names ['nowhere'], no layers of its trace",
    ),
    (
        "test_times_of_layers_are_of_its_layers",
        {"layer_times": lambda self, *args, **options: [LayerTime("first", "FakeLayer", 1, (0.1,), None)]},
        "passes in which layer_times of mlp timed a layer: found {1}, expected {3}",
    ),
    (
        "test_times_of_operators_are_of_its_layers",
        {"operator_times": give_operator_times("first")},
        "passes that operator_times of mlp timed: found 1, expected 3",
    ),
    (
        "test_operator_tables_add_up_to_the_trace",
        {"operator_times": give_operator_times("first", called=(OrderedCall(0, CalledOperator("fake::op")),))},
        "the operator table of mlp has 1920 macs, its trace 3936",
    ),
    (
        "test_steps_of_training_are_traced",
        {"trace_training": FakeBackend.trace},
        "macs of a training step of mlp for a batch of 3: found 3936, expected 9888",
    ),
    (
        "test_zeros_among_the_weights_are_counted",
        {"zero_weights": lambda self, model: (0, 1)},
        "the elements among which zero_weights() of mlp counts: found 1, expected 1370",
    ),
    (
        "test_memory_is_measured",
        {"measure_memory": lambda self, model, inputs, device=None: 0},
        "measure_memory() of mlp finds 0 bytes, its inputs and outputs take 360",
    ),
    # What stays as it was.
    (
        "test_tracing_leaves_the_model_as_it_was",
        {"trace": trace_in_inference_mode},
        "trace() of mlp changed the model; restore it: training: True became False",
    ),
    ("test_running_leaves_the_model_as_it_was", {"run": train_while_running}, "run() of mlp changed the model"),
    (
        "test_a_run_that_fails_leaves_the_model_as_it_was",
        {"run": leave_inference_mode},
        "run() of mlp with inputs that do not fit changed the model",
    ),
    (
        "test_preserve_says_nothing_of_what_is_raised_inside",
        {"preserve": preserve_swallowing},
        "into None; let it pass",
    ),
    (
        "test_every_default_metric_has_a_value_or_a_reason",
        {"layer_times": fail_to_time_layers},
        "layer_times of mlp is failed: RuntimeError: no clock",
    ),
    (
        "test_the_profile_has_the_numbers_of_the_description",
        {"trace": change_operators(lambda operator: replace(operator, flops=operator.flops + 1))},
        "flops in the profile of mlp: found",
    ),
]


class Subject(Conforming):
    """What the wrong backends are tried on: three models, whose outputs vary in training mode."""

    builders: ClassVar = {name: Conforming.builders[name] for name in ("mlp", "residual_cnn", "dict_in_and_out")}

    def threads(self) -> int:
        return 8

    def call(self, model: FakeModel, inputs: ModelInputs) -> Any:
        outputs = super().call(model, inputs)
        return np.full(outputs.shape, model.calls) if model.training else outputs


def suite_for(made: Backend, **facts: Any) -> Any:
    return type("Suite", (Subject,), {"backend": made, **facts})()


def run(suite: Any, test: str) -> None:
    """Make a test of a suite the way pytest does: for each architecture and batch size that it takes."""
    method = getattr(suite, test)
    taken = inspect.signature(method).parameters
    names = suite.builders if {"architecture", "name"} & set(taken) else ["mlp"]
    sizes, precisions = ((1, 3) if "batch_size" in taken else [None]), (PRECISIONS if "precision" in taken else [None])
    for name, batch_size, precision in itertools.product(names, sizes, precisions):
        given = {"name": name, "architecture": ARCHITECTURES[name], "batch_size": batch_size, "precision": precision}
        method(**{name: given[name] for name in taken})


@pytest.mark.parametrize(("test", "methods", "message"), CAUGHT, ids=[test for test, *_ in CAUGHT])
def test_what_is_wrong_is_caught_and_said(test: str, methods: dict[str, Any], message: str) -> None:
    with suppress(pytest.skip.Exception):  # what is optional, the right backend need not offer
        run(suite_for(FakeBackend()), test)
    wrong = type("Wrong", (FakeBackend,), methods)
    with pytest.raises((AssertionError, pytest.skip.Exception)) as raised:  # a test that is skipped says another thing
        run(suite_for(wrong()), test)
    assert message in str(raised.value)


def test_every_test_of_the_suite_can_fail() -> None:
    of_what_authors_say = {"test_builders_build_what_is_described", "test_the_class_says_what_is_tested"}  # below
    every = {name for name in dir(BackendConformance) if name.startswith("test_")}
    assert every == {test for test, *_ in CAUGHT} | of_what_authors_say


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"builders": {}}, "no architecture has a builder; give builders = {'mlp': build_mlp, ...}"),
        ({"builders": {"mpl": FakeModel}}, "there are no architectures ['mpl']; there are: mlp, lenet5,"),
        ({"not_expressible": {"mlp": "?"}}, "['mlp'] have builders and are not_expressible; leave them out of one"),
        ({"backend": FakeBackend}, "give an instance of a Backend"),
    ],
)
def test_what_the_class_says_is_checked(facts: dict[str, Any], message: str) -> None:
    suite = type("Suite", (Subject,), facts)()
    with pytest.raises(AssertionError) as raised:
        suite.test_the_class_says_what_is_tested()
    assert message in str(raised.value)


def test_a_class_that_says_nothing_is_told_what_to_say() -> None:
    class Nothing(BackendConformance):
        pass

    with pytest.raises(AssertionError, match="Nothing does not say its backend and builders and kinds"):
        Nothing().test_the_class_says_what_is_tested()


def test_a_network_that_is_not_the_described_one_is_caught() -> None:
    lenet = FakeModel.of(ARCHITECTURES["lenet5"])
    wide = FakeModel(lenet.layers, inputs=lenet.inputs, outputs={0: (11,)})
    suite = suite_for(FakeBackend(), builders={"lenet5": lambda: wide})
    with pytest.raises(AssertionError) as raised:
        suite.test_builders_build_what_is_described(ARCHITECTURES["lenet5"])
    assert str(raised.value) == (
        "shapes of the outputs of lenet5 for a batch of 3: found {0: (3, 11)}, expected {0: (3, 10)}"
    )


AUTHOR = """
from profilerkit.testing import ARCHITECTURES, BackendConformance, FakeBackend, FakeModel

class TestMine(BackendConformance):
    backend, builders, kinds = FakeBackend(), {"mlp": lambda: FakeModel.of(ARCHITECTURES["mlp"])}, {}
    kinds = {kind: kind for _, kind in ARCHITECTURES["mlp"].layers}
    not_expressible = {"lstm": "it has no loops"}
    snapshot = lambda self, model: repr(model.layers)
"""


def test_three_lines_run_the_suite_and_report_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(AUTHOR, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_mine.py"]
    done = run_program(command, cwd=tmp_path)
    assert "lstm cannot be expressed: it has no loops" in done.stdout
    for name in set(ARCHITECTURES) - {"mlp", "lstm"}:
        assert f"{name} has no builder" in done.stdout
    absent = ("change_a_parameter(model)", "raising_model(message)", "uncounted_model()", "threads()")
    for method in (*absent, "low_precision_model(dtype)"):
        assert f"{method} is not given" in done.stdout


def test_importing_the_suite_needs_no_pytest_and_no_numpy() -> None:
    code = "import sys, profilerkit.testing; print({'pytest', 'numpy', 'torch', 'tensorflow'} & set(sys.modules))"
    done = run_python(code)
    assert done.stdout.strip() == "set()"


def test_everything_that_a_class_may_say_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.rst").read_text(encoding="utf-8")
    for name, kind in inspect.get_annotations(BackendSettings).items():
        assert name.startswith("_") or f"``{name}``" in page, f"{name}: {kind}"
    optional = ("change_a_parameter", "raising_model", "uncounted_model", "low_precision_model", "threads")
    for name in ("call", "to_numpy", "snapshot", *optional):
        taken = ", ".join(list(inspect.signature(getattr(BackendSettings, name)).parameters)[1:])
        assert f"``{name}({taken})``" in page


def test_messages_name_methods_that_exist() -> None:
    """Whoever writes a backend is told to change ``preserve()``, not a method that once had another name."""
    kinds = [Backend, BackendConformance, *(kind for kind in vars(protocols).values() if isinstance(kind, type))]
    methods = {name for kind in kinds for name in dir(kind)}
    suite = [Path(inspect.getfile(kind)) for kind in BackendConformance.__mro__ if "profilerkit" in kind.__module__]
    texts = [node.value for path in suite for node in ast.walk(read_tree(path)) if isinstance(node, ast.Constant)]
    called = {name for text in texts for name in re.findall(r"(?<![\w.])([a-z_]{3,})\(", str(text))}
    assert called - methods == {"model"}
