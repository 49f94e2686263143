"""Networks of ``keras.applications``: their published parameters, and their multiply-accumulates."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf
from small import ones, own_macs, trace_complete, trace_complete_step

pytestmark = pytest.mark.slow

#: Parameters as Keras' documentation lists them, and GMACs of one image of the size that the network is made for.
PUBLISHED = {
    "ConvNeXtTiny": (28_589_128, 4.4555),
    "DenseNet121": (8_062_504, 2.8342),
    "EfficientNetB0": (5_330_571, 0.3858),
    "InceptionV3": (23_851_784, 5.7132),
    "MobileNetV2": (3_538_984, 0.3008),
    "NASNetMobile": (5_326_716, 0.5636),
    "ResNet50": (25_636_712, 3.8580),
    "VGG16": (138_357_544, 15.4703),
    "Xception": (22_910_480, 8.3574),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_macs(name: str) -> None:
    params, giga_macs = PUBLISHED[name]
    model = getattr(keras.applications, name)(weights=None)
    found = trace_complete(model, ones(1, *model.input_shape[1:]))
    assert found.total_params == params == model.count_params()
    assert found.trainable_params == sum(int(tf.size(variable)) for variable in model.trainable_variables)
    assert round(found.macs / 1e9, 4) == giga_macs
    by_layer = own_macs(found)
    assert "" not in by_layer  # every product belongs to a layer
    assert sum(by_layer.values()) == found.macs


def test_a_batch_of_two_costs_twice_as_much() -> None:
    model = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=10)
    assert trace_complete(model, ones(2, 32, 32, 3)).macs == 2 * trace_complete(model, ones(1, 32, 32, 3)).macs


def test_images_of_any_size() -> None:
    """Every convolution of a network without a classifier makes four times as much of twice the height and width."""
    model = keras.applications.VGG16(include_top=False, weights=None, input_shape=(None, None, 3))
    small = trace_complete(model, ones(1, 32, 32, 3)).macs
    first_block = 32 * 32 * 9 * (3 * 64 + 64 * 64)
    others = sum(
        (32 >> block) ** 2 * 9 * (before * after + further * after * after)
        for block, before, after, further in ((1, 64, 128, 1), (2, 128, 256, 2), (3, 256, 512, 2), (4, 512, 512, 2))
    )
    assert small == first_block + others
    assert trace_complete(model, ones(1, 64, 64, 3)).macs == 4 * small


def test_a_training_step_is_three_forward_passes_less_the_gradient_of_the_image() -> None:
    model = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=10)
    forward = own_macs(trace_complete(model, ones(2, 32, 32, 3)))
    assert own_macs(trace_complete_step(model, ones(2, 32, 32, 3))) == {
        path: (2 if path == "Conv1" else 3) * macs for path, macs in forward.items()
    }
