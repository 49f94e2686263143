"""Models under a strategy that mirrors their variables: one replica is counted, whatever the number of devices."""

from __future__ import annotations

import json

import pytest
from time_limits import run_python

#: The devices of a process are set before its first operation, so it is one of its own.
SCRIPT = """
import json, sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from contextlib import nullcontext
from profilerkit import profile

strategy = {"mirrored": lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
            "workers": tf.distribute.MultiWorkerMirroredStrategy}[sys.argv[1]]()

NAMES = sys.argv[2:]

class Module(tf.Module):
    def __init__(self):
        self.weights, self.bias = tf.Variable(tf.ones((8, 4))), tf.Variable(tf.ones((4,)))
        self.mean = tf.Variable(tf.zeros((4,)), trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN)

    def __call__(self, x):
        return x @ self.weights + self.bias - self.mean

def dense(keras):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])

def legacy():
    import tf_keras
    return dense(tf_keras)

BUILD = {"keras": lambda: dense(keras), "tf_keras": legacy, "module": Module,
         "function": lambda: tf.function(Module().__call__)}
with strategy.scope():
    models = {name: BUILD[name]() for name in NAMES}
plain = {name: BUILD[name]() for name in NAMES}
KEYS = ["total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint", "training_macs",
        "training_memory"]
x = tf.ones((2, 8))
result = {}
for name in models:
    for where, scope in ("outside", nullcontext()), ("inside", strategy.scope()):
        with scope:
            report = profile(models[name], x, metrics=KEYS)
        result[f"{name} {where}"] = [report[key] for key in KEYS], "replicas" in str(report)
    result[f"{name} plain"] = [profile(plain[name], x, metrics=KEYS)[key] for key in KEYS], False
print(json.dumps(result))
"""


#: The models, and the parameters of each.
MODELS = {"keras": 52, "tf_keras": 52, "module": 40, "function": 40}


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        ("mirrored", ("keras", "function")),
        pytest.param("mirrored", ("tf_keras", "module"), marks=pytest.mark.slow),
        pytest.param("workers", tuple(MODELS), marks=pytest.mark.slow),
    ],
    ids=["mirrored", "mirrored, the others", "workers"],
)
def test_one_replica_is_counted(strategy: str, names: tuple[str, ...]) -> None:
    done = run_python(SCRIPT, strategy, *names, variables={"TF_CPP_MIN_LOG_LEVEL": "3"})
    results = json.loads(done.stdout.splitlines()[-1])
    for name in names:
        parameters = MODELS[name]
        expected, _ = results[f"{name} plain"]
        assert expected[3] == 2 * 8 * 4
        assert expected[0] == parameters
        for where in "outside", "inside":
            numbers, is_noted = results[f"{name} {where}"]
            assert numbers == expected, (name, where)
            assert is_noted is (strategy == "mirrored")
