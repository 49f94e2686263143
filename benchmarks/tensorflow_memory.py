"""The peak memory of TensorFlow models as profilerkit predicts it, beside that of a fresh process.

A process of its own builds the model without weights, calls its traced function once (so that whatever is compiled,
optimised and cached is there), and then measures by how much the second call raises the peak of its resident memory.
Three things would spoil that figure, and are switched off: oneDNN's memory pool, which rounds up to powers of two and
gives nothing back (the kernels stay oneDNN's); glibc's arenas, by having it map each block above 64 KiB on its own and
unmap it when freed; and, where asked with ``--threads 1``, TensorFlow's running independent operators at once.
Before the models, graphs whose peak is known by hand show what the measurement is worth.

What the prediction leaves out, so that the two differ: the order in which operators run that do not wait for each
other (creation order is predicted; Xception's branches, and when a filter's gradient is computed, change from run to
run), and what XLA allocates where Keras compiles a grouped convolution with it (ConvNeXt; it grows with the threads).
A process with oneDNN's pool takes up to twice what is alive.

``get_memory_info("CPU:0")`` is no help: it has numbers only while that pool is in use, and those are the pool's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 2**20
ALLOCATION = {
    "TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 * 1024),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 1024),
    "MALLOC_TOP_PAD_": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "KERAS_BACKEND": "tensorflow",
}


@dataclass(frozen=True)
class Case:
    """A model of `keras.applications`, the batch it gets, and whether it is trained."""

    model: str
    batch_size: int
    training: bool = False


CASES = (
    Case("ResNet50", 16),
    Case("VGG16", 16),
    Case("MobileNetV2", 16),
    Case("EfficientNetB0", 16),
    Case("DenseNet121", 16),
    Case("InceptionV3", 16),
    Case("Xception", 8),
    Case("ConvNeXtTiny", 8),
    Case("ResNet50", 8, training=True),
    Case("MobileNetV2", 8, training=True),
    Case("DenseNet121", 8, training=True),
    Case("VGG16", 4, training=True),
    Case("EfficientNetB0", 8, training=True),
    Case("InceptionV3", 8, training=True),
)


def main() -> None:
    """Print one line for each graph known by hand, and one for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0, help="operators run at once; 0 lets TensorFlow choose")
    parser.add_argument("--models", nargs="*", help="only these of the models")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        task, name, batch_size = chosen.inside
        print(json.dumps(TASKS[task](name, int(batch_size), chosen.threads)))
        return
    print(f"{'':<16} {'batch':>6} {'':<9} {'predicted':>11} {'measured':>11} {'off by':>8}")
    for name, by_hand in KNOWN_PEAKS.items():
        show(name, "", "by hand", by_hand * MIB, in_a_process("known", name, 0, chosen.threads))
    for case in CASES:
        if chosen.models and case.model not in chosen.models:
            continue
        mode = "training" if case.training else "forward"
        peaks = [
            in_a_process(f"{task} {mode}", case.model, case.batch_size, chosen.threads)
            for task in ("predict", "measure")
        ]
        show(case.model, str(case.batch_size), mode, *peaks)


def show(name: str, batch_size: str, mode: str, predicted: float, measured: float) -> None:
    print(
        f"{name:<16} {batch_size:>6} {mode:<9} {predicted / MIB:7.1f} MiB {measured / MIB:7.1f} MiB "
        f"{predicted / measured - 1:+8.1%}",
        flush=True,
    )


def in_a_process(task: str, name: str, batch_size: int, threads: int) -> float:
    """Return what a task finds in a process of its own."""
    command = [sys.executable, __file__, "--threads", str(threads), "--inside", task, name, str(batch_size)]
    done = subprocess.run(command, env={**os.environ, **ALLOCATION}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))


# In the process of its own ------------------------------------------------------------------------------------------


def measure_growth(call: Callable[[], Any]) -> float:
    """Return by how many bytes a call raises the peak of what the process has in memory."""
    before = memory_of_process("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what there is now
    result = call()
    peak = memory_of_process("VmHWM")
    del result
    return peak - before


def memory_of_process(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def measure_peak(function: Any, example: Any) -> float:
    """Return the peak bytes of the second call of a function, its input included."""
    function(example)
    time.sleep(0.5)  # freed by another thread
    return measure_growth(lambda: function(example)) + float(example.shape.num_elements() * example.dtype.size)


def measure_forward(name: str, batch_size: int, threads: int) -> float:
    import tensorflow as tf

    limit_threads(threads)
    model, example = model_and_example(name, batch_size)

    def forward(x: Any) -> Any:
        return model.stateless_call(model.trainable_variables, model.non_trainable_variables, x, training=False)[0]

    return measure_peak(tf.function(forward, autograph=False), example)


def measure_training(name: str, batch_size: int, threads: int) -> float:
    """Measure a step: the gradients of the sum of the outputs, which are returned and not applied."""
    import tensorflow as tf

    limit_threads(threads)
    model, example = model_and_example(name, batch_size)

    def step(x: Any) -> Any:
        weights = model.trainable_variables
        with tf.GradientTape() as tape:
            outputs, _ = model.stateless_call(weights, model.non_trainable_variables, x, training=True)
            loss = tf.reduce_sum(outputs)
        return tape.gradient(loss, [weight.value for weight in weights])

    return measure_peak(tf.function(step, autograph=False), example)


def predict(name: str, batch_size: int, training: bool) -> float:
    from profilerkit import ModelInputs
    from profilerkit_tensorflow.trace.tracing import trace_model

    model, example = model_and_example(name, batch_size)
    return trace_model(model, ModelInputs(example), training=training).memory.peak_bytes(include_weights=False)


def model_and_example(name: str, batch_size: int) -> tuple[Any, Any]:
    import keras
    import tensorflow as tf

    model = getattr(keras.applications, name)(weights=None)
    return model, tf.random.stateless_normal((batch_size, *model.input_shape[1:]), (1, 2))


def limit_threads(threads: int) -> None:
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(threads)


#: MiB alive at once, by hand, for an input of 64 MiB: the input, and what the graph makes of it.
KNOWN_PEAKS = {
    "in place": 64 + 64,  # a chain of element-wise operators works in one buffer
    "two at once": 64 + 64 + 64,  # the second product, while the first waits for the sum
    "concatenation": 64 + 64 + 128,  # input, one part, and the whole
    "padding": 64 + 64 + 72,  # input, a copy of it, and the copy with 64 more columns on 512
}


def by_hand_graph(name: str, batch_size: int, threads: int) -> float:
    import tensorflow as tf

    limit_threads(threads)
    graphs = dict(zip(KNOWN_PEAKS, known_graphs(), strict=True))
    return measure_peak(tf.function(graphs[name], autograph=False), tf.random.stateless_normal((32768, 512), (1, 2)))


def known_graphs() -> Iterator[Callable[[Any], Any]]:
    import tensorflow as tf

    yield lambda x: tf.tanh(tf.sin(tf.cos(x)))
    yield lambda x: tf.sin(x) + tf.cos(x)
    yield lambda x: tf.concat([tf.sin(x), x], 1)
    yield lambda x: tf.pad(tf.sin(x), [[0, 0], [0, 64]])


TASKS: dict[str, Callable[[str, int, int], float]] = {
    "known": by_hand_graph,
    "measure forward": measure_forward,
    "measure training": measure_training,
    "predict forward": lambda name, batch_size, threads: predict(name, batch_size, training=False),
    "predict training": lambda name, batch_size, threads: predict(name, batch_size, training=True),
}


if __name__ == "__main__":
    main()
