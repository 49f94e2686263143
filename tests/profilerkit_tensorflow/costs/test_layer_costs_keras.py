"""Keras' layers that cost as a whole: what their definition takes, whatever operators spell it out."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import pytest

from profilerkit import ArgumentError, profile
from profilerkit.costs import Cost, Shape
from profilerkit_tensorflow.costs import layer_cost, register_layer_cost, scoped_costs

IMAGE = Shape((2, 4, 4, 6))
ELEMENTS = 2 * 4 * 4 * 6


def cost(layer: Any, training: bool = False, shape: Shape = IMAGE) -> Any:
    formula = layer_cost(layer)
    assert formula is not None
    return formula(layer, (shape,), (shape,), training)


@pytest.fixture(params=["keras", "tf_keras"])
def layers(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param).layers


def test_batch_norm_that_knows_its_statistics_is_a_scale_and_a_shift(layers: Any) -> None:
    assert cost(layers.BatchNormalization()) == (0, 2 * ELEMENTS)
    assert cost(layers.BatchNormalization(scale=False, center=False)) == (0, 2 * ELEMENTS)


@pytest.mark.parametrize(("scale", "center", "operations"), [(True, True, 7), (True, False, 6), (False, False, 5)])
def test_batch_norm_in_training(layers: Any, scale: bool, center: bool, operations: int) -> None:
    layer = layers.BatchNormalization(scale=scale, center=center)
    assert cost(layer, training=True) == (0, operations * ELEMENTS)


def test_frozen_batch_norm_knows_its_statistics(layers: Any) -> None:
    assert cost(layers.BatchNormalization(trainable=False), training=True) == (0, 2 * ELEMENTS)


def test_batch_renormalisation_counts_as_its_operators(layers: Any) -> None:
    try:
        layer = layers.BatchNormalization(renorm=True)
    except ValueError:
        pytest.skip("this version of Keras has no batch renormalisation")
    assert cost(layer, training=True) is None
    assert cost(layer) == (0, 2 * ELEMENTS)


def test_virtual_batches_count_as_their_operators() -> None:
    legacy = pytest.importorskip("tf_keras").layers
    layer = legacy.BatchNormalization(virtual_batch_size=1)
    assert cost(layer, training=True) is None


@pytest.mark.parametrize(("scale", "center", "operations"), [(True, True, 7), (False, True, 6), (False, False, 5)])
def test_layer_norm_and_group_norm(layers: Any, scale: bool, center: bool, operations: int) -> None:
    for layer in (
        layers.LayerNormalization(scale=scale, center=center),
        layers.GroupNormalization(groups=3, scale=scale, center=center),
    ):
        assert cost(layer) == cost(layer, training=True) == (0, operations * ELEMENTS)


def test_layer_norm_that_only_scales() -> None:
    with warnings.catch_warnings(action="ignore"):  # newer Keras advises another layer
        layer = keras.layers.LayerNormalization(rms_scaling=True)
    assert cost(layer) == (0, (5 + 1) * ELEMENTS)


@pytest.mark.skipif(not hasattr(keras.layers, "RMSNormalization"), reason="Keras 3.9")
def test_rms_norm() -> None:
    assert cost(keras.layers.RMSNormalization()) == (0, (3 + 1) * ELEMENTS)


def test_adaptive_pooling_takes_each_element_of_each_window() -> None:
    layer = getattr(keras.layers, "AdaptiveAveragePooling2D", None)
    if layer is None:
        pytest.skip("this version of Keras has no adaptive pooling")
    formula = layer_cost(layer((3, 2)))
    assert formula is not None
    # Eight rows in windows of 0-3, 2-6 and 5-8; eight columns in two of 0-4 and 4-8.
    found = formula(layer((3, 2)), (Shape((2, 8, 8, 6)),), (Shape((2, 3, 2, 6)),), False)
    assert found == (0, 2 * (3 + 4 + 3) * (4 + 4) * 6)


def test_dropout_masks_and_scales_where_it_is_on(layers: Any) -> None:
    assert cost(layers.Dropout(0.5)) == (0, 0)
    assert cost(layers.Dropout(0.5), training=True) == (0, 2 * ELEMENTS)
    assert cost(layers.Dropout(0.0), training=True) == (0, 0)


def test_prelu_compares_and_multiplies(layers: Any) -> None:
    assert cost(layers.PReLU()) == (0, 2 * ELEMENTS)


@pytest.mark.parametrize("name", ["Dense", "Conv2D", "LSTM", "GRU", "ReLU"])
def test_layers_that_are_one_product_or_a_loop_count_as_their_operators(layers: Any, name: str) -> None:
    options: dict[str, tuple[int, ...]] = {"Conv2D": (3, 3), "ReLU": ()}
    assert layer_cost(getattr(layers, name)(*options.get(name, (3,)))) is None


def test_a_class_of_ones_own_does_not_inherit_a_formula_nor_take_one_by_name() -> None:
    class LayerNormalization(keras.layers.LayerNormalization):  # type: ignore[misc]
        pass

    assert layer_cost(LayerNormalization()) is None
    with scoped_costs():
        register_layer_cost(LayerNormalization, lambda layer, inputs, outputs, training: Cost(0, 1), override=True)
        assert cost(LayerNormalization()) == (0, 1)
    assert layer_cost(LayerNormalization()) is None


@pytest.mark.parametrize("override", [False, True])
def test_a_name_that_is_no_layer_of_keras_is_refused(override: bool) -> None:
    with scoped_costs(), pytest.raises(ArgumentError, match="layer_type='Dens': give a class or the name of one of"):
        register_layer_cost("Dens", lambda layer, inputs, outputs, training: Cost(0, 1), override=override)


@pytest.mark.parametrize(("name", "operations"), [("log_sigmoid", 5), ("soft_shrink", 2), ("hard_shrink", 1)])
def test_activations_that_are_composed_cost_what_torch_has_one_operator_for(name: str, operations: int) -> None:
    """The closed forms of torch's ``log_sigmoid_forward``, ``softshrink`` and ``hardshrink``."""
    model = keras.Sequential([keras.Input((10,)), keras.layers.Activation(name)])
    assert profile(model, input_shape=(10,), metrics=["flops"])["flops"] == 10 * operations
