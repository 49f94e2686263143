"""The weights of a network of `models` in its twins of `keras_models` and `flax_models`: the same function again.

PyTorch has the output channels of a kernel first, and those of an image before its height and width; Keras and Flax
have them last.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
from torch import nn

Arrays = Mapping[str, np.ndarray[Any, Any]]

#: The layers of LeNet-5 with weights. Those of ResNet have one name in all frameworks.
LENET_NAMES = {
    "features.0": "features.conv1",
    "features.3": "features.conv2",
    "features.6": "features.conv3",
    "classifier.0": "classifier.fc1",
    "classifier.2": "classifier.fc2",
}
#: What Flax calls the weights of a layer.
FLAX_NAMES = {"weight": "kernel", "bias": "bias"}
FLAX_NORM_NAMES = {"weight": "scale", "bias": "bias", "running_mean": "mean", "running_var": "var"}


def copy_to_keras(network: nn.Module, twin: Any) -> Any:
    """Set the weights of a Keras model to those of the network that it is the twin of, and return it."""
    for path, module in list_weighted_layers(network):
        layer = reduce(lambda outer, name: outer.get_layer(name), path.split("."), twin)
        layer.set_weights(list(read_arrays(module).values()))
    return twin


def copy_to_flax(network: nn.Module, twin: Any) -> Any:
    """Set the weights of a module of nnx to those of the network that it is the twin of, and return it."""
    for path, module in list_weighted_layers(network):
        layer = reduce(
            lambda outer, name: outer[int(name)] if name.isdigit() else getattr(outer, name), path.split("."), twin
        )
        names = FLAX_NORM_NAMES if isinstance(module, nn.BatchNorm2d) else FLAX_NAMES
        for name, array in read_arrays(module).items():
            getattr(layer, names[name])[...] = array
    return twin


def list_weighted_layers(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the layers with weights, each with the path that it has in the twins."""
    names = LENET_NAMES if "features.0" in dict(network.named_modules()) else {}
    for name, module in network.named_modules():
        if isinstance(module, (nn.Conv2d, nn.BatchNorm2d, nn.Linear)):
            yield names.get(name, name), module


def read_arrays(module: nn.Module) -> Arrays:
    """Return the weights and statistics of a layer, with the channels where Keras and Flax have them."""
    arrays = {name: value.numpy() for name, value in module.state_dict().items() if value.dim()}
    if isinstance(module, nn.Conv2d):
        arrays["weight"] = arrays["weight"].transpose(2, 3, 1, 0)
    if isinstance(module, nn.Linear):
        arrays["weight"] = arrays["weight"].T
    return arrays
