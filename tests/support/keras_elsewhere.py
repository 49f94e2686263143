"""Keras 3 on JAX or on torch: the tests that are the same for both, and what those of one share.

Keras' framework is fixed when it is imported: `test_keras_on_jax` and `test_keras_on_torch` run this file in processes
of their own. Run alone: ``KERAS_BACKEND=jax pytest tests/support/keras_elsewhere.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

import pytest

if os.environ.get("KERAS_BACKEND") not in ("jax", "torch"):
    pytest.skip("Keras runs on TensorFlow in this process", allow_module_level=True)

import keras
import numpy as np

from profilerkit import Backend, ModelInputs, ModelTrace, Profiler, profile
from profilerkit.testing.architectures import ARCHITECTURES, layer_numbers

__all__ = ["BACKEND", "FEATURES", "PRODUCTS", "STEPS", "UNITS", "ones", "stack_layers", "trace_complete"]

FRAMEWORK = os.environ["KERAS_BACKEND"]
layers = keras.layers
package = import_module(f"profilerkit_{FRAMEWORK}")
BACKEND: Backend = package.JaxBackend() if FRAMEWORK == "jax" else package.TorchBackend()

STEPS, FEATURES, UNITS = 6, 5, 4
PRODUCTS = STEPS * UNITS * (FEATURES + UNITS)


def ones(*shape: int) -> Any:
    return np.ones(shape, "float32")


def stack_layers(shape: tuple[int, ...], *inside: Any) -> Any:
    return keras.Sequential([keras.Input(shape), *inside], name="student")


def trace_complete(model: Any, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one call of the model, which must neither fail nor leave anything uncounted."""
    trace = BACKEND.trace(model, ModelInputs(*args, **kwargs))
    assert trace.failure is None, trace.failure
    assert trace.missing == ()
    return trace


def test_the_framework_claims_the_model() -> None:
    report = profile(stack_layers((3,), layers.Dense(2)), ones(4, 3), metrics=["macs", "flops"], strict=True)
    assert (report.backend, report.name) == (FRAMEWORK, "student")
    assert (report["macs"], report["flops"]) == (4 * 3 * 2, 2 * 4 * 3 * 2 + 4 * 2)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_shared_architectures_give_their_closed_forms(name: str) -> None:
    """Row by row, as on TensorFlow."""
    pytest.importorskip("tensorflow")  # the module that builds them asks for it
    built_by = import_module("keras_architectures")
    described = ARCHITECTURES[name]
    trace = BACKEND.trace(built_by.build(name), described.model_inputs(BACKEND, "channels_last", 3))
    assert trace.failure is None, trace.failure
    assert trace.missing == ()
    assert (trace.total_params, trace.trainable_params) == (described.params + described.statistics, described.params)
    assert layer_numbers(trace.table, built_by.KINDS) == described.layer_numbers(3, with_statistics=True)


@pytest.mark.parametrize(
    ("layer", "macs", "per_unit"),
    [
        (lambda: layers.LSTM(UNITS), 4 * PRODUCTS, 13 + 4),
        (lambda: layers.LSTM(UNITS, unroll=True), 4 * PRODUCTS, 13 + 4),
        (lambda: layers.GRU(UNITS), 3 * PRODUCTS, 11 + 6),
        (lambda: layers.GRU(UNITS, reset_after=False), 3 * PRODUCTS, 11 + 3),
        (lambda: layers.SimpleRNN(UNITS, return_sequences=True), PRODUCTS, 2 + 1),
        (lambda: layers.RNN(layers.LSTMCell(UNITS)), 4 * PRODUCTS, 13 + 4),
        (lambda: layers.Bidirectional(layers.LSTM(UNITS)), 2 * 4 * PRODUCTS, 2 * (13 + 4)),
    ],
)
def test_a_recurrent_layer_runs_as_often_as_there_are_steps(layer: Any, macs: int, per_unit: int) -> None:
    """With the MACs of one sample, and the FLOPs of one unit in one step besides the products.

    On torch Keras runs the first step once more, to see what it returns; a graph drops that, and so does the count.
    """
    trace = trace_complete(stack_layers((STEPS, FEATURES), layer()), ones(2, STEPS, FEATURES))
    assert trace.macs == 2 * macs
    assert trace.flops == 2 * trace.macs + 2 * STEPS * UNITS * per_unit


def test_layers_without_weights_need_not_be_built() -> None:
    """As in Keras Hub: Keras marks what a layer's own ``call`` runs as built when it is called with values."""

    class Halved(layers.Layer):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.joined, self.padded = layers.Dense(2), layers.Concatenate(), layers.ZeroPadding1D(1)

        def build(self, shape: Any) -> None:
            self.dense.build(shape)
            self.built = True

        def call(self, x: Any) -> Any:
            joined = self.joined([self.dense(x), self.padded(x)[:, 1:-1]])
            return keras.ops.repeat(joined, repeats=2, axis=1)  # which Keras on torch cannot do without values

    model = stack_layers((5, 3), Halved())
    model.layers[0].joined.built = model.layers[0].padded.built = False
    assert trace_complete(model, ones(4, 5, 3)).macs == 4 * 5 * 3 * 2
    assert not model.layers[0].joined.built


def test_a_layer_whose_parts_were_built_from_outside_need_not_be_built() -> None:
    """As in Keras Hub: the outer layer builds what is inside the inner one."""

    class Inner(keras.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(2)

        def build(self, shape: Any) -> None:
            raise AssertionError("it was built already")

        def call(self, x: Any) -> Any:
            return keras.ops.repeat(self.dense(x), repeats=2, axis=1)  # which Keras on torch cannot do without values

    class Outer(keras.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def build(self, shape: Any) -> None:
            self.inner.dense.build(shape)

        def call(self, x: Any) -> Any:
            return self.inner.call(x)

    assert trace_complete(stack_layers((5, 3), Outer()), ones(4, 5, 3)).macs == 4 * 5 * 3 * 2


def test_inputs_by_place_and_by_name() -> None:
    first, second = keras.Input((3,), name="first"), keras.Input((3,), name="second")
    total = layers.Add()([first, second])
    assert trace_complete(keras.Model([first, second], total), ones(2, 3), ones(2, 3)).flops == 2 * 3
    named = keras.Model({"first": first, "second": second}, total)
    assert trace_complete(named, first=ones(2, 3), second=ones(2, 3)).flops == 2 * 3


def test_images_with_the_channels_first_fit_a_model_that_takes_them_last() -> None:
    model, macs = stack_layers((8, 6, 3), layers.Conv2D(4, 3, padding="same")), 2 * 48 * 4 * 27
    assert trace_complete(model, ones(2, 3, 8, 6)).macs == trace_complete(model, ones(2, 8, 6, 3)).macs == macs
    report = profile(model, ones(2, 3, 8, 6), metrics=["execution_time"], num_iters=2, warmup=0, strict=True)
    assert report["execution_time"].median > 0


def make_evaluating_profiler(model: Any, batches: list[Any]) -> Profiler:
    kind = package.JaxProfiler if FRAMEWORK == "jax" else package.TorchProfiler
    profiler: Profiler = kind(model, {"test": batches})
    profiler.register_profiler_function(package.ComputeEvalMetric(package.get_accuracy))
    return profiler


def test_evaluation_is_keras_own_answer() -> None:
    model = stack_layers((2,), layers.Dropout(0.5), layers.Dense(2, use_bias=False, kernel_initializer="identity"))
    batches = [(np.eye(2, dtype="float32"), np.array([0, 1])), (np.eye(2, dtype="float32"), np.array([0, 0]))]
    assert make_evaluating_profiler(model, batches).compute_status("eval_metric") == 75


# It comes back as it was --------------------------------------------------------------------------------------------


class Restless(keras.Model):  # type: ignore[misc]
    """Changes what a Keras model can change while it runs; raises half-way if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(4)
        self.norm = layers.BatchNormalization()
        self.recurrent = layers.LSTM(4)
        self.head = layers.Dense(3, trainable=False)
        self.steps = self.add_weight(shape=(), name="steps", trainable=False, initializer="zeros")
        self.seeds = keras.random.SeedGenerator(7)
        self.history: list[Any] = []
        self.caches: dict[str, Any] = {"counts": [0], "in a tuple": ({1}, {"a": 1, "b": 2})}
        self.raises = False

    def call(self, x: Any) -> Any:
        self.steps.assign_add(1.0)
        y = self.norm(self.dense(x), training=True)  # moves its statistics
        y = y + keras.random.normal((2, 4), seed=self.seeds)
        self.history.append(y)
        self.kept = y
        self.caches["last"] = y
        self.caches["counts"][0] += 1
        self.caches["in a tuple"][0].add(2)
        self.caches["in a tuple"][1]["a"] = self.caches["in a tuple"][1].pop("a")
        self.add_loss(keras.ops.sum(y))
        if self.raises:
            raise RuntimeError("half-way")
        return self.head(self.recurrent(y[:, None, :]))


Fact = tuple[str, Any]


def list_facts(model: Any) -> list[Fact]:
    """Return what must stay: identities as ids, values as copies."""
    members, entries = model.caches["in a tuple"]
    facts: list[Fact] = [
        ("caches", (id(model.caches["last"]), list(model.caches["counts"]), set(members), list(entries.items()))),
        ("losses", [float(keras.ops.convert_to_numpy(loss)) for loss in model.losses]),
        ("Keras", (layers.Layer.__call__, layers.Dense.call, keras.config.floatx())),
        ("numpy", np.random.get_state()[1].tolist()),  # type: ignore[index]
    ]
    for layer in model._flatten_layers():
        for name, value in vars(layer).items():
            facts.append((f"{layer.name}.{name}", id(value)))
            if isinstance(value, (dict, list, set)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                facts.append((f"{layer.name}.{name} holds", [(key, id(item)) for key, item in items]))
    for variable in (*model.variables, model.seeds.state, *model.optimizer.variables):
        facts.append((variable.path, (id(variable), variable.numpy().tolist())))
    return [*facts, *(list_facts_of_torch(model) if FRAMEWORK == "torch" else [])]


def list_facts_of_torch(model: Any) -> list[Fact]:
    torch: Any = import_module("torch")
    hooks = torch.nn.modules.module
    tensors = [variable._value for variable in (*model.variables, model.seeds.state)]
    modules = [
        (type(module).__name__, [(key, id(value)) for key, value in vars(module).items()]) for module in model.modules()
    ]
    return [
        *modules,
        ("tensors", [(id(tensor), tensor.requires_grad, id(tensor.grad)) for tensor in tensors]),
        ("random numbers", torch.get_rng_state().tolist()),
        ("grad mode", (torch.is_grad_enabled(), torch.is_inference_mode_enabled())),
        ("hooks", (dict(hooks._global_forward_hooks), dict(hooks._global_forward_pre_hooks))),
        ("modes", torch._C._len_torch_dispatch_stack()),
    ]


def run_trace(model: Any, x: Any) -> None:
    with BACKEND.preserve(model):
        BACKEND.trace(model, ModelInputs(x))


def run_profile(model: Any, x: Any) -> None:
    profile(model, x, num_iters=2, warmup=0)


def run_evaluation(model: Any, x: Any) -> None:
    make_evaluating_profiler(model, [(x.copy(), np.zeros(2, "int64"))]).compute_network_status()


@pytest.mark.parametrize("run", [run_trace, run_profile, run_evaluation])
@pytest.mark.parametrize("raises", [False, True], ids=["runs", "raises"])
def test_a_restless_model_comes_back_as_it_was(run: Callable[[Any, Any], None], raises: bool) -> None:
    model, x = Restless(), ones(2, 4)
    model(x)
    model.compile("adam", "mse")
    model.raises = raises
    before = list_facts(model)
    with suppress(RuntimeError):
        run(model, x)
    assert list_facts(model) == before
    assert x.tolist() == ones(2, 4).tolist()


def test_a_training_step_runs_the_layers_as_a_trainer_does() -> None:
    class Distorts(keras.Layer):  # type: ignore[misc]
        def call(self, x: Any, training: bool = False) -> Any:
            return keras.ops.matmul(x, x) if training else x

    model = stack_layers((3, 3), Distorts(), layers.Dense(2))
    report = profile(model, ones(4, 3, 3), metrics=["macs", "training_macs"], strict=True)
    assert report["macs"] == 4 * 3 * 3 * 2
    assert report["training_macs"] == 2 * 4 * 3 * 3 * 2 + 4 * 3 * 3 * 3


@pytest.mark.parametrize(("mode", "floats"), [("int8", 24), ("int4", 24), ("float8", 8 * 24 + 24)])
def test_a_quantized_layer_has_its_parameters_without_scales(mode: str, floats: int) -> None:
    """8 x 24 and 24, of which two share a byte in 4 bits; the bias is 24 zeros."""
    model = stack_layers((8,), layers.Dense(24, kernel_initializer="ones"))
    model.layers[-1].quantize(mode)
    report = profile(model, ones(1, 8), metrics=["total_params", "model_size", "sparsity"])
    assert report["total_params"] == 8 * 24 + 24
    assert report["model_size"] == sum(np.asarray(variable).nbytes for variable in model.variables)
    assert report["sparsity"] == pytest.approx(24 / floats)


@pytest.mark.parametrize(
    ("optimizer", "values"),
    [
        ("sgd", 0),
        (keras.optimizers.SGD(momentum=0.9), 1),
        ("adam", 2),
        (keras.optimizers.Adam(amsgrad=True), 3),
        (keras.optimizers.Adam(gradient_accumulation_steps=4), 3),
        (keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(momentum=0.9)), 1),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_state_of_the_compiled_optimizer_is_part_of_training_memory(optimizer: Any, values: int) -> None:
    """Each value has 4 bytes for each of the 6 x 5 + 5 weights that are trained; 12 others are frozen."""

    def measure(compiled: bool) -> int:
        model = stack_layers((6,), layers.Dense(5), layers.Dense(2, trainable=False))
        if compiled:
            model.compile(optimizer)
        report = profile(model, ones(3, 6), metrics=["training_memory"], strict=True)
        return int(report["training_memory"])

    assert measure(compiled=True) - measure(compiled=False) == values * 4 * 35


def test_an_optimizer_that_is_built_is_read_and_none_is_built_for_it() -> None:
    """Of Adam two values for each of 35 elements."""
    model = stack_layers((6,), layers.Dense(5))
    model.compile("adam", loss="mse")
    holder = cast(Any, BACKEND)
    assert holder.optimizer_state(model) == 4 * 2 * 35
    assert not model.optimizer.built
    model.fit(ones(3, 6), ones(3, 5), verbose=0)
    model.optimizer.beta_1 = None  # it is not made anew of its settings
    assert holder.optimizer_state(model) == 4 * 2 * 35


def test_an_optimizer_that_makes_numbers_with_a_value_is_known_once_it_is_built() -> None:
    """Of Adafactor for a kernel of 6 x 5: 6 + 5 sums, and Keras' velocity for each of 35 elements."""
    model = stack_layers((6,), layers.Dense(5))
    model.compile(keras.optimizers.Adafactor(), loss="mse")
    status = profile(model, ones(3, 6), metrics=["training_memory"]).status("training_memory")
    assert status.completeness.value == "partial"
    assert "the state of the optimizer Adafactor, which cannot be made anew of its settings" in status.missing[0]
    model.fit(ones(3, 6), ones(3, 5), verbose=0)
    assert cast(Any, BACKEND).optimizer_state(model) == 4 * (6 + 5 + 35)


def test_a_model_that_is_not_compiled_has_no_optimizer() -> None:
    holder = cast(Any, BACKEND)
    assert holder.optimizer_state(stack_layers((6,), layers.Dense(5))) == 0
    assert holder.optimizer_state(lambda x: x) == 0


def test_the_state_of_optimizers_of_the_users_own_training_step_is_said_to_be_missing() -> None:
    """Keras compiles RMSprop where a subclass gives it none: that trains nothing here, and is not counted."""

    class Adversarial(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.judge = layers.Dense(2)

        def compile(self, one: Any, others: Any) -> None:
            super().compile()
            self.judge_optimizer, self.further = one, others

        def call(self, x: Any) -> Any:
            return self.judge(x)

    model = Adversarial()
    model(ones(1, 3))
    model.compile(keras.optimizers.Adam(), {"generator": keras.optimizers.Adam()})
    status = profile(model, ones(1, 3), metrics=["training_memory"]).status("training_memory")
    assert status.completeness.value == "partial"
    assert any("the optimizers that the model has in judge_optimizer, further" in text for text in status.missing)
    own = stack_layers((6,), layers.Dense(5))
    own.chosen = keras.optimizers.Adam()
    own.compile(own.chosen)  # the compiled one, under another name too: two values for each of 35 elements
    assert cast(Any, BACKEND).optimizer_state(own) == 4 * 2 * 35


@pytest.mark.parametrize("names", [("x", "mask"), ("inputs", "training"), ("mask",)])
@pytest.mark.parametrize("is_mapping", [True, False])
def test_inputs_with_the_names_of_keras_parameters_are_inputs(names: tuple[str, ...], is_mapping: bool) -> None:
    """A dense layer of 4 x 2 on the sum of the inputs: for a batch of 1 as declared, and of 3 as given."""
    inputs = [keras.Input((4,), name=name) for name in names]
    total = layers.add(inputs) if len(inputs) > 1 else inputs[0]
    named = dict(zip(names, inputs, strict=True))
    model = keras.Model(named if is_mapping else inputs, layers.Dense(2)(total))
    given = {name: ones(3, 4) for name in names}
    assert profile(model, metrics=["macs"], strict=True)["macs"] == 4 * 2
    assert profile(model, given, metrics=["macs"], strict=True)["macs"] == 3 * 4 * 2
