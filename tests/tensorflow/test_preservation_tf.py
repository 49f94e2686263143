"""The model and the process come back as they were, whatever was done with them and whether or not that raised."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")
import keras
import tensorflow as tf
import tf_keras

from profilerkit_tensorflow.preservation import preserved

X = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)


class Cache:
    """A plain object, as models keep what they have seen in."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.length = 0


class Restless(keras.Model):  # type: ignore[misc]
    """Changes whatever a model can change while it runs."""

    calls = 0
    known: dict[str, Any] = {}  # noqa: RUF012 - models do keep caches so

    def __init__(self) -> None:
        super().__init__()
        self.unbuilt = keras.layers.Dense(4, activity_regularizer="l2")
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.5, seed=1)
        self.steps = self.add_weight(name="steps", shape=(), initializer="zeros", trainable=False)
        self.past: list[Any] = []
        self.named: dict[str, Any] = {"a": [1]}
        self.numbers = {1, 2}
        self.recent: deque[Any] = deque([1, 2], maxlen=2)
        self.cache = Cache()
        self.dice = random.Random(3)
        self.numpy_dice = np.random.default_rng(3)

    def call(self, x: Any, training: bool = False) -> Any:
        self.steps.assign_add(1.0)
        y = self.drop(self.norm(self.unbuilt(x), training=training), training=training)
        self.past.append(y)
        self.named["a"].append(y)
        self.named["b"] = y
        self.numbers.add(3)
        self.recent.append(y)
        self.cache.seen.append(y)
        self.cache.length += 1
        self.kept = y
        self.dice.random(), self.numpy_dice.random()
        self.norm.trainable = False
        type(self).calls += 1
        type(self).known["y"] = y
        type(self).late = y
        self.add_loss(tf.reduce_sum(y))
        return y


class Layered(tf.Module):  # type: ignore[misc]
    """A module that makes its variables when it is first called, and holds a Keras layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight: Any = None
        self.total = tf.Variable(0.0, trainable=False)
        self.parts = [tf.Variable([1.0, 2.0])]
        self.named = {"v": tf.Variable(3.0)}
        self.pair = (tf.Variable(4.0), [5])
        self.dense = keras.layers.Dense(3)
        self.rng = tf.random.Generator.from_seed(5)

    def __call__(self, x: Any) -> Any:
        if self.weight is None:
            self.weight = tf.Variable(tf.ones((4, 3)))
        self.total.assign_add(1.0)
        self.parts.append(x)
        self.named["x"] = x
        self.pair[1].append(x)
        return self.dense(x) + x @ self.weight + self.rng.normal((3,))


class Traced(tf.Module):  # type: ignore[misc]
    """A module whose method is a tf.function already."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((4, 3)))

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        self.weight.assign_add(tf.ones((4, 3)))
        return x @ self.weight


def functional(package: Any) -> Any:
    inputs = package.Input((4,))
    shared = package.layers.Dense(4, activity_regularizer="l2")
    y = package.layers.BatchNormalization()(shared(shared(inputs)))
    inner = package.Sequential([package.layers.Dense(5, kernel_regularizer="l2"), package.layers.Dropout(0.5)])
    return package.Model(inputs, package.layers.Dense(3)(inner(y)))


def fitted(package: Any) -> Any:
    model = functional(package)
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(X, np.ones((2, 3)), verbose=0)
    model.predict(X, verbose=0)
    return model


def unbuilt(package: Any) -> Any:
    return package.Sequential(
        [package.layers.Dense(3), package.layers.Dropout(0.5), package.layers.LayerNormalization()]
    )


def stateful(package: Any) -> Any:
    inputs = package.Input(batch_shape=(2, 4))
    y = package.layers.Reshape((4, 1))(inputs)
    return package.Model(inputs, package.layers.LSTM(3, stateful=True, dropout=0.5)(y))


def mixed(package: Any) -> Any:
    return package.layers.Dense(3, dtype="mixed_bfloat16")


def legacy_subclass() -> Any:
    class Legacy(tf_keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf_keras.layers.Dense(4, activity_regularizer="l2")
            self.norm = tf_keras.layers.BatchNormalization()
            self.seen: list[Any] = []
            self.named: dict[str, Any] = {}

        def call(self, x: Any, training: bool = False) -> Any:
            y = self.norm(self.dense(x), training=training)
            self.seen.append(y)
            self.named["y"] = y
            self.add_loss(tf.reduce_sum(y))
            self.add_metric(tf.reduce_sum(y), name="sum")
            return y

    return Legacy()


def closure() -> Any:
    layer, calls = keras.layers.Dense(3), 0
    seen: list[Any] = []

    def model(x: Any) -> Any:
        nonlocal calls
        calls += 1
        seen.append(x)
        return layer(x)

    return model


#: A function of a method knows its module weakly.
ALIVE: list[Any] = []


def method() -> Any:
    ALIVE.append(Traced())
    return ALIVE[-1].__call__


def concrete() -> Any:
    return tf.function(method()).get_concrete_function(tf.TensorSpec((2, 4)))


def loaded() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        module = Traced()
        module(X)
        tf.saved_model.save(module, folder)
        return tf.saved_model.load(folder)


MODELS: dict[str, Callable[[], Any]] = {
    "keras functional": lambda: functional(keras),
    "keras fitted": lambda: fitted(keras),
    "keras unbuilt": lambda: unbuilt(keras),
    "keras stateful": lambda: stateful(keras),
    "keras layer": lambda: mixed(keras),
    "keras subclass": Restless,
    "tf_keras functional": lambda: functional(tf_keras),
    "tf_keras fitted": lambda: fitted(tf_keras),
    "tf_keras unbuilt": lambda: unbuilt(tf_keras),
    "tf_keras stateful": lambda: stateful(tf_keras),
    "tf_keras layer": lambda: mixed(tf_keras),
    "tf_keras subclass": legacy_subclass,
    "module": Layered,
    "traced module": Traced,
    "function": lambda: tf.function(Layered()),
    "function of a method": method,
    "concrete function": concrete,
    "callable": closure,
    "saved model": loaded,
}


def traced(model: Any) -> None:
    tf.function(lambda x: call(model, x, training=True), autograph=False).get_concrete_function(tf.TensorSpec((2, 4)))


def called_in_training(model: Any) -> None:
    call(model, tf.constant(X), training=True)


def trained(model: Any) -> None:
    variables = [tf.Variable(1.0)]
    with tf.GradientTape() as tape:
        loss = tf.cast(tf.reduce_sum(call(model, tf.constant(X), training=True)), tf.float32) * variables[0]
        variables += list(getattr(model, "trainable_variables", []))
    gradients = tape.gradient(loss, variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        if gradient is not None:
            variable.assign_sub(tf.cast(gradient, variable.dtype) + 1)


def used(model: Any) -> None:
    """Call Keras' own methods, which make functions, and compile."""
    if not isinstance(model, keras.Model | tf_keras.Model):
        call(model, tf.constant(X))
        return
    model.predict(X, verbose=0, batch_size=2)
    model.compile("sgd", "mse", metrics=["mae"])
    out = np.shape(model(X))
    model.fit(X, np.ones(out), verbose=0)
    model.evaluate(X, np.ones(out), verbose=0)
    model.trainable = False


def call(model: Any, x: Any, training: bool = False) -> Any:
    takes_flag = isinstance(model, keras.Model | tf_keras.Model)
    return model(x, training=training) if takes_flag else model(x)


RUNS: list[Callable[[Any], None]] = [traced, called_in_training, trained, used]


class Facts:
    """Every object that a model leads to, by its path; and the values of its variables."""

    def __init__(self, model: Any) -> None:
        self.at: dict[str, Any] = {}
        self.values: dict[int, bytes] = {}
        self._seen: set[int] = set()
        self._visit("model", model)
        for name in ("losses", "metrics", "variables", "trainable_variables", "built", "optimizer", "compiled"):
            try:
                value = getattr(model, name)
            except (AttributeError, ValueError):
                continue
            self.at[f"model.{name} (read)"] = len(value) if isinstance(value, list | tuple) else value

    def _visit(self, path: str, value: Any) -> None:
        if isinstance(value, tf.Variable) and hasattr(value.handle, "_numpy"):
            self.values[id(value)] = value.numpy().tobytes()
        self.at[path] = value
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        for name, part in self._parts(value):
            self._visit(f"{path}{name}", part)

    def _parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            yield from ((f"[{key!r:.40}]", part) for key, part in value.items())
        elif isinstance(value, list | tuple | deque):
            yield from ((f"[{index}]", part) for index, part in enumerate(value))
        elif isinstance(value, set):
            yield "{}", sorted(map(hash, value))
        if self._is_followed(value):
            yield from ((f".{name}", part) for name, part in list(vars(value).items()))
        if isinstance(value, random.Random):
            yield ".state", value.getstate()[1][-1]
        if isinstance(value, np.random.Generator):
            yield ".state", value.bit_generator.state["state"]["state"]
        if callable(value) and getattr(value, "__closure__", None) and value.__module__ == __name__:
            yield from ((f"<{index}>", cell.cell_contents) for index, cell in enumerate(value.__closure__))

    @staticmethod
    def _is_followed(value: Any) -> bool:
        if isinstance(value, type | tf.Graph | tf.Operation | tf.TypeSpec | tf.DType) or not hasattr(value, "__dict__"):
            return False
        if isinstance(value, tf.Tensor):
            return False
        return type(value).__module__.startswith(("keras.", "tf_keras.", "tensorflow.python", __name__))

    def differences(self, other: Facts) -> list[str]:
        changed = [path for path in self.at if path in other.at and not _alike(self.at[path], other.at[path])]
        values = [path for path, value in self.at.items() if self.values.get(id(value)) != other.values.get(id(value))]
        return [*sorted(self.at.keys() ^ other.at.keys()), *changed, *values]


def _alike(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, int | float | str | list) and one == other)


def facts(model: Any) -> Facts:
    return Facts(model)


@pytest.mark.filterwarnings("ignore:`build..` was called on layer")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_as_it_was(kind: str, run: Callable[[Any], None]) -> None:
    model = MODELS[kind]()
    before, attributes = facts(model), dict(vars(type(model)))
    with preserved(model, variable_values=True):
        run(model)
    assert facts(model).differences(before) == []
    assert dict(vars(type(model))) == attributes


@pytest.mark.filterwarnings("ignore:`build..` was called on layer")
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_from_an_error_too(kind: str) -> None:
    model = MODELS[kind]()
    before = facts(model)

    def fails_half_way(x: Any) -> None:
        call(model, x, training=True)
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"), preserved(model, variable_values=True):
        trained(model)
        tf.function(fails_half_way, autograph=False).get_concrete_function(tf.TensorSpec((2, 4)))
    assert facts(model).differences(before) == []


@pytest.mark.parametrize("kind", ["keras fitted", "tf_keras fitted", "keras stateful", "module"])
def test_what_came_back_works_as_it_did(kind: str) -> None:
    twice = []
    for measured in (False, True):
        keras.utils.set_random_seed(1)
        tf_keras.utils.set_random_seed(1)
        model = MODELS[kind]()
        for _ in range(2):
            if measured:
                with preserved(model, variable_values=True):
                    trained(model)
                    used(model)
            out = call(model, tf.constant(X), training=True).numpy()
        if "fitted" in kind:
            model.fit(X, np.ones((2, 3)), verbose=0)
            out = model.predict(X, verbose=0)
        twice.append(out)
    np.testing.assert_array_equal(*twice)


def draws() -> list[Any]:
    """Draw from every generator of the process."""
    operators = [tf.random.normal((2,)).numpy().tolist() for _ in range(2)]
    drawn = [tf.random.get_global_generator().normal((2,)).numpy().tolist(), keras.random.normal((2,)).numpy().tolist()]
    legacy = tf_keras.backend.random_uniform((2,)).numpy().tolist()
    return [operators, drawn, legacy, np.random.rand(2).tolist(), random.random()]


def test_the_next_random_numbers_are_what_they_would_have_been() -> None:
    found = []
    for measured in (False, True):
        tf_keras.utils.set_random_seed(7)
        keras.utils.set_random_seed(7)
        tf.random.set_global_generator(tf.random.Generator.from_seed(7))
        draws()
        layer = keras.layers.Dropout(0.5)
        if measured:
            with preserved(layer):
                draws()
                draws()
        found.append([draws(), draws()])
    assert found[0] == found[1]


def test_a_seed_that_is_set_inside_does_not_stay() -> None:
    found = []
    for measured in (False, True):
        keras.utils.set_random_seed(7)
        layer = keras.layers.Dropout(0.5)
        if measured:
            with preserved(layer):
                keras.utils.set_random_seed(3)
                tf.random.normal((1,))
        found.append([tf.random.normal((2,)).numpy().tolist(), keras.random.normal((2,)).numpy().tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("package", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_layers_are_named_as_they_would_have_been(package: Any) -> None:
    number = int(package.layers.Dense(1).name.rpartition("_")[2])
    with preserved(package.layers.Dense(1)):
        for _ in range(3):
            package.layers.Dense(1).build((None, 2))
        package.layers.Conv2D(1, 1)
    assert package.layers.Dense(1).name == f"dense_{number + 2}"


def test_settings_of_the_process_come_back() -> None:
    def settings() -> list[Any]:
        return [
            (package.backend.floatx(), package.backend.epsilon(), package.backend.image_data_format())
            for package in (keras, tf_keras)
        ] + [
            keras.config.dtype_policy().name,
            tf_keras.mixed_precision.global_policy().name,
            tf.config.functions_run_eagerly(),
            tf.constant(1).device,
            keras.layers.Dense.__call__,
        ]

    before = settings()
    device = tf.device("CPU:0")
    with preserved(keras.layers.Dense(1)):
        for package in (keras, tf_keras):
            package.backend.set_floatx("float16")
            package.backend.set_epsilon(0.5)
            package.backend.set_image_data_format("channels_first")
            package.mixed_precision.set_global_policy("mixed_bfloat16")
        tf.config.run_functions_eagerly(True)
        device.__enter__()
        assert settings() != before
    assert settings() == before


def test_without_values_only_small_states_come_back() -> None:
    model = keras.Sequential([keras.Input((40,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 40)), np.ones((2, 40)), verbose=0)
    norm, drop = model.layers
    seed, steps = drop.seed_generator.state.numpy().tolist(), int(model.optimizer.iterations.numpy())
    mean = norm.moving_mean.numpy()
    with preserved(model):
        model.fit(np.ones((2, 40)), np.ones((2, 40)), verbose=0)
    assert drop.seed_generator.state.numpy().tolist() == seed
    assert int(model.optimizer.iterations.numpy()) == steps == 1
    assert not np.array_equal(norm.moving_mean.numpy(), mean)


WRITES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda v: v.assign(tf.ones_like(v) * 7),
    "assign_add": lambda v: v.assign_add(tf.ones_like(v)),
    "scatter": lambda v: v.scatter_nd_update([[0, 0]], [9.0]),
    "graph": lambda v: tf.function(lambda: v.assign_add(v * 2))(),
    "xla": lambda v: tf.function(lambda: v.assign_add(v * 2), jit_compile=True)(),
    "adam": lambda v: keras.optimizers.Adam().apply([tf.ones_like(v)], [keras.Variable(v)]),
    "sparse then dense": lambda v: (v.scatter_nd_update([[0, 0]], [9.0]), v.assign_add(tf.ones_like(v))),
}


@pytest.mark.parametrize("how", WRITES)
def test_values_that_are_written_in_any_way_come_back_in_their_own_memory(how: str) -> None:
    module = tf.Module()
    module.weight = tf.Variable(np.arange(6, dtype="float32").reshape(2, 3))
    place = module.weight.read_value()._numpy().ctypes.data
    with preserved(module, variable_values=True):
        WRITES[how](module.weight)
        WRITES[how](module.weight)
    assert module.weight.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    if "sparse" not in how and how != "scatter":  # such a variable is copied by TensorFlow whenever it is read
        assert module.weight.read_value()._numpy().ctypes.data == place


def test_reading_the_values_is_on_no_tape_of_the_users() -> None:
    module = tf.Module()
    module.weight = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        loss = module.weight * 3
        with preserved(module, variable_values=True):
            module.weight.assign(5.0)
    assert tape.gradient(loss, module.weight).numpy() == 3
    assert [variable.ref() for variable in tape.watched_variables()] == [module.weight.ref()]


def test_data_that_the_model_holds_is_the_users_own() -> None:
    module = tf.Module()
    module.table = np.zeros(3)
    module.data = tf.data.Dataset.range(3)
    module.words = OrderedDict((str(number), number) for number in range(200_000))
    with preserved(module):
        module.table[0] = 1
        module.words["new"] = 1
        module.words.move_to_end("0")
        assert [int(number) for number in module.data] == [0, 1, 2]
    assert module.table.tolist() == [1, 0, 0]
    assert next(iter(module.words)) == "0"
    assert "new" not in module.words


def test_a_frozen_layer_and_another_class_come_back() -> None:
    class Other(keras.layers.Dense):  # type: ignore[misc]
        pass

    layer = keras.layers.Dense(2)
    layer.build((None, 2))
    with preserved(layer):
        layer.trainable = False
        layer.__class__ = Other
        del layer._trainable
    assert type(layer) is keras.layers.Dense
    assert layer.trainable
    assert len(layer.trainable_weights) == 2


def test_a_module_can_be_profiled_inside_its_own_profile_and_by_one_thread_at_a_time() -> None:
    model: Any = functional(keras)
    before = facts(model)
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(3):
                with preserved(model, variable_values=True), preserved(model):
                    model.kept = object()
                    model(X, training=True)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert facts(model).differences(before) == []


def test_tf_keras_is_not_imported_to_ask() -> None:
    code = """
import sys, tensorflow as tf
from profilerkit_tensorflow.preservation import preserved
from profilerkit_tensorflow.variables import weights_of
module = tf.Module()
module.v = tf.Variable(1.0)
with preserved(module, variable_values=True):
    module.v.assign(2.0)
assert float(module.v) == 1.0 and len(weights_of(module)) == 1
print("tf_keras" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
