"""A process that forks while another thread profiles: the child waits for no lock, and has the model as it was.

TensorFlow runs no operator in a forked child. What the child does use is profilerkit's own: its locks, the lists of its
plugins, the formulas, and the Python attributes of the model.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")
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
import gc, os, signal, sys, threading
import keras
import tensorflow as tf
from click.testing import CliRunner
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework.func_graph import FuncGraph
from profilerkit import profile
from profilerkit.cli.list_command import command
from profilerkit.plugging.manager import forget_loaded
from profilerkit.process.locks import _locks
from profilerkit_tensorflow.costs import scoped_costs
from profilerkit_tensorflow.untouched.preservation import _one_at_a_time

class Waiting(keras.layers.Dense):
    def call(self, x):
        if threading.current_thread() is worker:
            self.seen.append(x)
            calls[0] += 1
            if calls[0] == at:
                inside.set()
                assert forked.wait(60)
        return super().call(x)

def listed():
    listing = CliRunner().invoke(command, [])
    assert not listing.exit_code and 'tensorflow' in listing.output, listing
    return listing.output

def state():
    classes = [vars(cls)['__call__'] for cls in (keras.layers.Layer, polymorphic_function.Function)]
    process = (gc.isenabled(), sys.getrecursionlimit(), sys.stdout, sys.stderr, tf.config.functions_run_eagerly())
    attributes = [{{name: id(value) for name, value in vars(layer).items()}} for layer in (net, *net.layers)]
    return classes, FuncGraph.__init__, process, attributes, list(net.layers[0].seen)

worker = at = None
net, x = keras.Sequential([keras.Input((4,)), Waiting(6), keras.layers.Dropout(0.5)]), tf.ones((2, 4))
net.layers[0].seen = []
macs = profile(net, x, metrics=['macs'])['macs']
assert macs == 2 * 4 * 6, macs
listing, before = listed(), state()

def in_child():
    signal.alarm(60)  # ends the child where it hangs
    differing = [(a, b) for a, b in zip(before, state()) if a != b]
    held = [lock for lock in list(_locks) if lock.held]
    answers = []

    def ask():
        forget_loaded()
        with _one_at_a_time, scoped_costs():
            answers.append(listed() == listing)

    ask()
    other = threading.Thread(target=ask)
    other.start()
    other.join()
    return differing or ('child', held, answers)

for request, at in {requests}:
    calls, inside, forked = [0], threading.Event(), threading.Event()
    worker = threading.Thread(target=lambda: eval(request), daemon=True)
    worker.start()
    assert inside.wait(60), 'the layer was never called so often: ' + request
    assert _one_at_a_time.held
    child = os.fork()
    if not child:
        print(in_child(), flush=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    forked.set()
    worker.join()
    print('parent', state() == before, status, flush=True)
"""


def test_the_child_waits_for_no_lock_and_has_the_model_as_it_was() -> None:
    """In a process of its own, so that a child that hangs ends with it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT.format(requests=list(REQUESTS.values()))],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    lines = done.stdout.splitlines()
    assert dict(zip(REQUESTS, zip(lines[::2], lines[1::2], strict=True), strict=True)) == dict.fromkeys(
        REQUESTS, ("('child', [], [True, True])", "parent True 0")
    ), done.stderr
