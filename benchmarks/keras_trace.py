"""One whole static profile of a Keras model beside tracing it, and beside freezing it for TensorFlow's old profiler."""

import io
import os
from contextlib import redirect_stdout
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start says what it did not find

import keras
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from profilerkit import Measurement, Ratio, profile
from profilerkit.times.sampling import Sampling, measure_interleaved

STATIC = ("total_params", "model_size", "macs", "flops", "memory_footprint", "layerwise_data")


MODELS = ("MobileNetV2", "ResNet50", "EfficientNetB0", "ConvNeXtTiny")


def time_model(name: str) -> list[Measurement]:
    """Return the times of tracing a model, of a static profile, and of freezing and profiling it, in turn."""
    model: Any = getattr(keras.applications, name)(weights=None)
    x = tf.zeros((1, 224, 224, 3))

    def trace() -> Any:
        return tf.function(lambda batch: model(batch, training=False)).get_concrete_function(x)

    def peer() -> None:
        frozen = convert_variables_to_constants_v2(trace())
        options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
        with redirect_stdout(io.StringIO()):
            tf.compat.v1.profiler.profile(frozen.graph, options=options | {"output": "none"})

    calls = [trace, lambda: profile(model, x, metrics=STATIC), peer]
    return measure_interleaved(calls, Sampling(num_iters=5, warmup=1))


def main() -> None:
    """Measure the three in turn for each model, and print the ratios to tracing alone."""
    print(f"{'':<16} {'tracing':>10} {'profile':>10} {'profile/tracing':>22} {'frozen and profiled/tracing':>30}")
    for name in MODELS:
        alone, ours, other = time_model(name)
        ratios = [Ratio.of(alone, measured) for measured in (ours, other)]
        texts = [f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" for ratio in ratios]
        print(f"{name:<16} {1e3 * alone.median:7.0f} ms {1e3 * ours.median:7.0f} ms {texts[0]:>22} {texts[1]:>30}")


if __name__ == "__main__":
    main()
