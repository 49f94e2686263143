"""A process that forks while another thread profiles: the child waits for no lock, and has the model as it was.

TensorFlow runs no operator in a forked child. What the child does use is profilerkit's own: its locks, the lists of its
plugins, the formulas, and the Python attributes of the model.
"""

from __future__ import annotations

import os

import pytest
from forking import answers_of_forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

#: What is requested of the profiler, and in which call of the layer the process forks.
REQUESTS = {
    "a static trace": ("profile(net, x, metrics=['macs'])", 1),
    "a static trace of a training step": ("profile(net, x, metrics=['training_macs'])", 1),
    "the trace for a timing": ("profile(net, x, metrics=['execution_time'], num_iters=3)", 1),
    "a run of a timing": ("profile(net, x, metrics=['execution_time'], num_iters=3, mode='eager')", 3),
    "the times of layers": ("profile(net, x, metrics=['layer_times'])", 1),
    "the times of operators": ("profile(net, x, metrics=['operator_table'])", 1),
    "a training run": ("profile(net, x, metrics=['execution_time'], num_iters=3, training=True, mode='eager')", 2),
}

SCRIPT = """
import keras
import tensorflow as tf
from click.testing import CliRunner
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from profilerkit import profile
from profilerkit.cli.list_command import command
from profilerkit.hooks.manager import forget_loaded
from profilerkit.process.locks import _locks
from profilerkit_tensorflow.costs import scoped_costs
from profilerkit_tensorflow.untouched.preservation import _one_at_a_time

class Waiting(keras.layers.Dense):
    def call(self, x):
        if threading.current_thread() is worker:
            self.seen.append(x)
        reached()
        return super().call(x)

def listed():
    listing = CliRunner().invoke(command, [])
    assert not listing.exit_code and 'tensorflow' in listing.output, listing
    return listing.output

def state():
    classes = [vars(cls)['__call__'] for cls in (keras.layers.Layer, polymorphic_function.Function)]
    process = (gc.isenabled(), sys.getrecursionlimit(), sys.stdout, sys.stderr, tf.config.functions_run_eagerly())
    attributes = [{name: id(value) for name, value in vars(layer).items()} for layer in (net, *net.layers)]
    return classes, process, attributes, list(net.layers[0].seen)

net, x = keras.Sequential([keras.Input((4,)), Waiting(6), keras.layers.Dropout(0.5)]), tf.ones((2, 4))
net.layers[0].seen = []
macs = profile(net, x, metrics=['macs'])['macs']
assert macs == 2 * 4 * 6, macs
listing = listed()

def require_inside():
    assert _one_at_a_time.is_held

def answers():
    held = [lock for lock in list(_locks) if lock.is_held]
    found = []

    def ask():
        forget_loaded()
        with _one_at_a_time.block(), scoped_costs():
            found.append(listed() == listing)

    ask()
    other = threading.Thread(target=ask)
    other.start()
    other.join()
    return held, found
"""


@pytest.mark.slow
def test_the_child_waits_for_no_lock_and_has_the_model_as_it_was() -> None:
    answers, errors = answers_of_forks(SCRIPT, REQUESTS, TF_CPP_MIN_LOG_LEVEL="2")
    assert answers == dict.fromkeys(REQUESTS, ("('child', [], [True, True])", "parent True 0")), errors
