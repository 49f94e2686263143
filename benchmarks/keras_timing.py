"""The time that profilerkit measures for Keras models beside that of plain Keras, in turn in one process.

``python benchmarks/keras_timing.py [--samples N] [MODEL ...]``: 11 samples of each unless given. Keras compiles some
functions by XLA (``jit_compile``), among them grouped convolutions on a CPU: what is timed has to run them as Keras
does. Each mode of profilerkit stands beside what a user would write: a compiled call for "graph", ``model(x)`` for
"eager", and ``model.predict`` for "predict".
"""

import argparse
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start says what it did not find

import keras
import tensorflow as tf

from profilerkit import ModelInputs, Ratio
from profilerkit.backend import RunOptions
from profilerkit.times.sampling import Sampling, measure_interleaved
from profilerkit_tensorflow.backend import TFBackend


def main() -> None:
    """Print a line for each model and mode: both medians, and the ratio with its interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=11, help="samples of each call")
    parser.add_argument("models", nargs="*", help="names of models; all of them unless given")
    arguments = parser.parse_args()
    layers = keras.layers
    models = {
        "ConvNeXtTiny": (keras.applications.ConvNeXtTiny(weights=None), tf.zeros((1, 224, 224, 3))),
        "grouped convolution": (
            keras.Sequential([keras.Input((56, 56, 64)), layers.Conv2D(64, 3, groups=8, padding="same")]),
            tf.zeros((1, 56, 56, 64)),
        ),
        "ResNet50": (keras.applications.ResNet50(weights=None), tf.zeros((1, 224, 224, 3))),
    }
    print(f"{'':<20} {'mode':<8} {'profilerkit':>12} {'plain Keras':>12}  ratio", flush=True)
    for name in arguments.models or models:
        model, x = models[name]
        for mode, plain in plain_calls(model, x).items():
            print(f"{name:<20} {mode:<8} {compare_times(model, x, mode, plain, arguments.samples)}", flush=True)


def plain_calls(model: Any, x: Any) -> dict[str, Callable[[], Any]]:
    """Return what a user would time, by the mode that should agree with it."""
    compiled = tf.function(lambda batch: model(batch, training=False))
    return {
        "graph": lambda: compiled(x),
        "eager": lambda: model(x, training=False),
        "predict": lambda: model.predict(x, batch_size=1, verbose=0),
    }


def compare_times(model: Any, x: Any, mode: str, plain: Callable[[], Any], samples: int) -> str:
    """Return the two medians and their ratio, sampled in turn."""
    plain()
    with ExitStack() as running:
        timed = running.enter_context(TFBackend().run(model, ModelInputs(x), RunOptions(mode=mode)))
        ours, theirs = measure_interleaved([timed, plain], Sampling(num_iters=samples, warmup=2))
    ratio = Ratio.of(theirs, ours)
    return (
        f"{1e3 * ours.median:9.2f} ms {1e3 * theirs.median:9.2f} ms  "
        f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    )


if __name__ == "__main__":
    main()
