"""The conformance suite catches every way of being wrong that it is there for, and says what was wrong."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from broken_backends import BROKEN
from fake_conformance import FakeConformance as Conforming
from source_tree import read_tree
from time_limits import run_program, run_python

from profilerkit import Backend, ModelInputs, protocols
from profilerkit.testing import ARCHITECTURES, BackendConformance, FakeBackend, FakeModel
from profilerkit.testing.subject import PRECISIONS, BackendSubject

#: The test that catches each wrong backend, and what it says.
CAUGHT = {
    "macs too high": ("test_macs_and_flops", "macs of mlp for a batch of 1: found 1313, expected 1312"),
    "a silent zero": ("test_macs_and_flops", "macs of mlp for a batch of 1: found 672, expected 1312"),
    "bias forgotten": ("test_macs_and_flops", "flops of mlp for a batch of 1: found"),
    "flops are macs": ("test_counts_are_whole_numbers", "fake::op in mlp has 1920 macs, 1920 flops"),
    "an operator counted as uncounted": ("test_nothing_is_left_uncounted", "('fake::op (1 call)',), expected ()"),
    "work in the wrong layer": (
        "test_layers",
        "layer 'of the whole model' of mlp for a batch of 1: found own_macs 640",
    ),
    "work in a layer that is not there": ("test_the_layers_add_up_to_the_totals", "of mlp are in ['nowhere']"),
    "a lost layer": ("test_layers", "depths and kinds of the layers of mlp: found [(0, 'model'),"),
    "numpy's numbers": (
        "test_counts_are_whole_numbers",
        "of fake::op in mlp is np.int64(0), a int64; give an int from 0",
    ),
    "a layer called once where it is called twice": ("test_layers", "found calls 1, expected 2"),
    "outputs without the batch": ("test_inputs_and_outputs_of_the_model", "shapes of the outputs of mlp in its trace"),
    "frozen parameters": ("test_parameters", "trainable_params of mlp: found 0, expected 1370"),
    "a shared weight counted again": ("test_parameters", "total_params of mlp: found 2042, expected 1370"),
    "weights of two bytes": ("test_size_of_the_weights", "float32 weights of mlp: found 2740, expected 5480"),
    "a peak without activations": ("test_peak_of_memory", "below weights, inputs and the largest activation"),
    "a peak of everything twice": ("test_peak_of_memory", "above weights, inputs and all that the operators read"),
    "no memory timeline": ("test_memory_of_weights_and_inputs", "values of the memory timeline of mlp"),
    "a trace that remembers the first batch": ("test_macs_and_flops", "macs of mlp for a batch of 3: found 1312"),
    "a forward pass that does not run": ("test_forward_really_runs_the_model", "does the call run the model?"),
    "any mode will do": ("test_an_unknown_mode_is_an_input_error", "let self.mode(options) raise InputError"),
    "an evaluation that loses its value": ("test_evaluate_returns_what_the_call_returns", "returned None"),
    "an evaluation that wraps errors": ("test_evaluate_lets_errors_pass", "RuntimeError('evaluation failed')"),
    "an evaluation in training mode": ("test_evaluate_is_in_inference_mode", "two evaluations of mlp differ"),
    "a model left in inference mode by its trace": (
        "test_tracing_leaves_the_model_as_it_was",
        "trace() of mlp changed the model; restore it: training: True became False",
    ),
    "a model left in inference mode where it raised": (
        "test_a_run_that_fails_leaves_the_model_as_it_was",
        "run() of mlp with inputs that do not fit changed the model",
    ),
    "a forward pass that trains": ("test_running_leaves_the_model_as_it_was", "run() of mlp changed the model"),
    "random numbers drawn": (
        "test_tracing_leaves_the_model_as_it_was",
        "changed the process; restore it: random.getstate()",
    ),
    "preserved swallows errors": ("test_preserve_says_nothing_of_what_is_raised_inside", "into None; let it pass"),
    "a trace that raises": ("test_a_model_that_raises_is_quoted", "raised by the model of the conformance suite"),
    "a failure without the model's message": ("test_a_model_that_raises_is_quoted", "without its message"),
    "a failure that loses the layers": (
        "test_inputs_that_do_not_fit_are_a_failure_of_the_trace",
        "of the layers in the trace of mlp with inputs that do not fit",
    ),
    "a trace without inputs that invents work": (
        "test_without_inputs_there_are_the_layers",
        "operators in the trace of mlp without inputs: found 7, expected 0",
    ),
    "an unknown operation counted as nothing": ("test_what_is_not_counted_is_named", "a silent zero"),
    "any device will do": ("test_a_device_that_is_not_there_is_said", "resolve_device with device='no-such-device'"),
    "no object is a model": ("test_every_architecture_is_built", "of mlp, a FakeModel: found False, expected True"),
    "every object is a model": ("test_other_things_are_no_models", "accepts(None): found True"),
    "everything with a length is a tensor": ("test_other_things_are_no_tensors", "is_tensor of a list: found True"),
    "random tensors are float64": ("test_random_tensors", "'float32'), 3): found 'float64', expected 'float32'"),
    "integers that no embedding takes": ("test_random_tensors", "{1000000}, expected {0}"),
    "batches repeated sample by sample": (
        "test_batches_are_cut_and_repeated",
        "values of with_batch_size(a batch of 3",
    ),
    "empty batches are handed on": ("test_an_empty_batch_cannot_be_repeated", "raised None; raise InputError"),
    "lists become tensors": ("test_what_is_no_array_stays_as_it_is", "as_tensor changed a list"),
    "arrays become float32": ("test_numpy_arrays_keep_their_values_and_dtype", "found 'float32', expected 'int64'"),
    "a fingerprint that never changes": (
        "test_the_fingerprint_changes_with_a_parameter_alone",
        "did not change when a parameter did",
    ),
    "a fingerprint that always changes": (
        "test_the_fingerprint_changes_with_a_parameter_alone",
        "changed while the model was traced and run",
    ),
    "an environment of numbers": ("test_the_environment_is_text", "'threads': 2; give names and values as text"),
    "a model opened as a copy": ("test_a_model_is_opened_as_it_is", "another object than the model"),
    "inputs fitted to another layout": ("test_inputs_that_fit_stay_as_they_are", "found [(3, 20, 1)]"),
    "models without a name": ("test_names_are_words", "model_name(model) is '', not a name"),
    "devices that are no names": ("test_devices_have_names", "resolve_device(model, None) returned 0, not a name"),
    "counts that add up over traces": ("test_a_second_trace_finds_the_same", "of mlp when it is traced again: found"),
    "layers that cannot be timed after all": (
        "test_every_default_metric_has_a_value_or_a_reason",
        "layer_times of mlp is failed: RuntimeError: no clock",
    ),
    "times of layers that are not there": (
        "test_times_of_layers_are_of_its_layers",
        "layer_times of mlp names ['nowhere'], which are no layers of its trace",
    ),
    "a step of training without gradients": (
        "test_steps_of_training_are_traced",
        "macs of a training step of mlp for a batch of 3: found 3936, expected 9888",
    ),
    "zeros among other weights": (
        "test_zeros_among_the_weights_are_counted",
        "the elements among which zero_weights() of mlp counts: found 1, expected 1370",
    ),
    "memory that nothing takes": (
        "test_memory_is_measured",
        "measure_memory() of mlp finds 0 bytes, its inputs and outputs take 360",
    ),
    "batches that are twice as large": (
        "test_times_are_positive_and_give_the_throughput",
        "2 samples went through in a batch of 1",
    ),
    "a failure that is kept secret": (
        "test_metrics_of_a_model_that_raises_fail_one_by_one",
        "macs of a model that raises: found <Completeness.COMPLETE: 'complete'>",
    ),
    "a flop too many when it is profiled": (
        "test_the_profile_has_the_numbers_of_the_description",
        "flops in the profile of mlp: found",
    ),
    "data splits of no known class": (
        "test_data_splits_have_their_classes",
        "data_loader is <class 'list'>, no DataLoader",
    ),
    "inputs without bytes": (
        "test_memory_of_weights_and_inputs",
        "input_bytes of mlp for a batch of 1: found 0, expected 80",
    ),
    "weights without bytes": ("test_memory_of_weights_and_inputs", "for a batch of 1: 0, below 5480"),
    "two layers of one path": ("test_the_layers_add_up_to_the_totals", "of the layers of mlp: found 6, expected 7"),
    "a model with a path": ("test_inputs_and_outputs_of_the_model", "of the first layer of mlp: found ('model', 0)"),
    "a model that was not called": (
        "test_inputs_and_outputs_of_the_model",
        "calls of the model mlp: found 0, expected 1",
    ),
    "a failure that is text": (
        "test_inputs_that_do_not_fit_are_a_failure_of_the_trace",
        "'it failed', not an exception",
    ),
    "a failure without words": ("test_inputs_that_do_not_fit_are_a_failure_of_the_trace", "has no message"),
    "a forward pass that loses the message": (
        "test_a_model_that_raises_is_quoted",
        "run() of a model that raises raised",
    ),
    "a trace that takes all metrics with it": (
        "test_metrics_of_a_model_that_raises_fail_one_by_one",
        "total_params of a model that raises: found <Completeness.FAILED: 'failed'>",
    ),
    "a failure that metrics do not quote": ("test_metrics_of_a_model_that_raises_fail_one_by_one", "not its message"),
    "an unknown operation that is named once": (
        "test_what_is_not_counted_is_named",
        "macs of uncounted_model(): found <",
    ),
    "an unknown operation that fails": (
        "test_what_is_not_counted_is_named",
        "the trace of uncounted_model() has failed",
    ),
    "a device that is looked for too late": (
        "test_a_device_that_is_not_there_is_said",
        "evaluate ran its call though there is no 'no-such-device'",
    ),
    "calls where nothing ran": ("test_without_inputs_there_are_the_layers", "calls of layers in the trace of mlp"),
    "an evaluation made twice": ("test_evaluate_returns_what_the_call_returns", "call) made: found 2, expected 1"),
    "negative times of layers": ("test_times_of_layers_are_of_its_layers", "has no or negative times: [-0.1]"),
    "layers that take no time": ("test_times_of_layers_are_of_its_layers", "all layers of mlp together take no time"),
    "operators of layers that are not there": (
        "test_times_of_operators_are_of_its_layers",
        "operator_times of mlp names ['nowhere'], no layers of its trace",
    ),
    "operators that take longer than all": (
        "test_times_of_operators_are_of_its_layers",
        "operator_times of mlp take [0.75] s in a pass of 0.5 s",
    ),
    "a step of training that leaves something out": ("test_steps_of_training_are_traced", "('fake::op (1 call)',)"),
    "training steps that change the model": (
        "test_steps_of_training_run",
        "run(training=True) changed the model",
    ),
    "no tensor is a tensor": (
        "test_random_tensors",
        "is_tensor of random_tensor(TensorSpec((4, 5), 'float32'), 3): found",
    ),
    "random tensors of one sample": ("test_random_tensors", "3): found (1, 4, 5), expected (3, 4, 5)"),
    "random tensors that are constant": ("test_random_tensors", "has 1 distinct values"),
    "arrays that lose their values": (
        "test_numpy_arrays_keep_their_values_and_dtype",
        "values of as_tensor of a float32",
    ),
    "batches that stay": (
        "test_batches_are_cut_and_repeated",
        "shape of with_batch_size(a batch of 3, 1): found (3, 2)",
    ),
    "batches of another dtype": ("test_batches_are_cut_and_repeated", "dtype of with_batch_size(a batch of 3, 1)"),
    "devices with two names": ("test_devices_have_names", "resolve_device(model, 'cpu:0'), its own name for None"),
    "an environment of nothing": ("test_the_environment_is_text", "environment() returned None, not a mapping"),
    "inputs fitted to a list": ("test_inputs_that_fit_stay_as_they_are", "not ModelInputs"),
    "no way to run": ("test_forward_runs_in_every_mode", "execution_modes is empty"),
    "unavailable without a reason": (
        "test_every_default_metric_has_a_value_or_a_reason",
        "execution_time of mlp is unavailable, without a reason",
    ),
    "a run that is a plain function": ("test_forward_runs_in_every_mode", "yield a profilerkit.Run"),
    "samples that are too few": (
        "test_forward_runs_in_every_mode",
        "samples that run.samples(3) took in mode None: found 2, expected 3",
    ),
    "a clock that runs backwards": ("test_forward_runs_in_every_mode", "a time is not negative"),
    "parts of a run without names": ("test_forward_runs_in_every_mode", "give seconds by the names of the parts"),
    "weights of wrong shapes": (
        "test_shapes_of_the_weights",
        "elements in the shape (672, 2) of weight in 'first' of mlp: found 1344, expected 672",
    ),
    "bfloat16 weights of four bytes": (
        "test_a_network_of_low_precision",
        "bytes of the bfloat16 weights of mlp: found 5480, expected 2740",
    ),
    "int8 weights as floats": ("test_a_network_of_low_precision", "elements of mlp in int8: found 0, expected 1312"),
    "calls without outputs": ("test_every_call_has_outputs", "'classifier'] of mlp have no outputs in the trace"),
    "a model without outputs": ("test_inputs_and_outputs_of_the_model", "shapes of the outputs of mlp in its trace"),
    "outputs that are freed too early": (
        "test_outputs_are_alive_at_the_end",
        "0 bytes are alive after the last operator of mlp for a batch of 1, its outputs take 40",
    ),
    "one name for all operators": (
        "test_operators_have_names_of_their_own",
        "all operators of mlp have one name, {'fake::op'}",
    ),
    "call= ignored where it is traced": (
        "test_a_function_given_as_call_is_what_runs",
        "trace() did not call the function that was given with call=",
    ),
    "call= ignored where it is timed": (
        "test_a_function_given_as_call_is_what_runs",
        "run() did not call the function that was given with call=",
    ),
    "mode= ignored": ("test_an_unknown_mode_is_an_input_error", "run(mode='no such mode') raised None"),
    "num_threads= ignored": (
        "test_threads_are_as_many_as_requested",
        "threads while the model runs with num_threads=1: found {8}, expected {1}",
    ),
    "an operator table of one layer alone": (
        "test_operator_tables_add_up_to_the_trace",
        "the operator table of mlp has 1920 macs, its trace 3936",
    ),
    "times that are nothing": ("test_forward_runs_in_every_mode", "first_call_seconds in mode None is 0.0"),
}


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


def test_every_wrong_backend_has_the_test_that_catches_it() -> None:
    assert set(CAUGHT) == set(BROKEN)


@pytest.mark.parametrize("what", CAUGHT)
def test_what_is_wrong_is_caught_and_said(what: str) -> None:
    test, message = CAUGHT[what]
    with suppress(pytest.skip.Exception):  # what is optional, the right backend need not offer
        run(suite_for(FakeBackend()), test)
    caught = (AssertionError, ValueError) if what == "a trace that raises" else AssertionError
    with pytest.raises(caught) as raised:
        run(suite_for(BROKEN[what]()), test)
    assert message in str(raised.value)


def test_every_test_of_the_suite_can_fail() -> None:
    of_what_authors_say = {"test_builders_build_what_is_described", "test_the_class_says_what_is_tested"}  # below
    every = {name for name in dir(BackendConformance) if name.startswith("test_")}
    assert every == {test for test, _ in CAUGHT.values()} | of_what_authors_say


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
    for name, kind in inspect.get_annotations(BackendSubject).items():
        assert name.startswith("_") or f"``{name}``" in page, f"{name}: {kind}"
    optional = ("change_a_parameter", "raising_model", "uncounted_model", "low_precision_model", "threads")
    for name in ("call", "to_numpy", "snapshot", *optional):
        taken = ", ".join(list(inspect.signature(getattr(BackendSubject, name)).parameters)[1:])
        assert f"``{name}({taken})``" in page


def test_messages_name_methods_that_exist() -> None:
    """Whoever writes a backend is told to change ``preserve()``, not a method that once had another name."""
    kinds = [Backend, BackendConformance, *(kind for kind in vars(protocols).values() if isinstance(kind, type))]
    methods = {name for kind in kinds for name in dir(kind)}
    suite = [Path(inspect.getfile(kind)) for kind in BackendConformance.__mro__ if "profilerkit" in kind.__module__]
    texts = [node.value for path in suite for node in ast.walk(read_tree(path)) if isinstance(node, ast.Constant)]
    called = {name for text in texts for name in re.findall(r"(?<![\w.])([a-z_]{3,})\(", str(text))}
    assert called - methods == {"model"}
