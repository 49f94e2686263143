"""Models of Keras as TensorFlow's converter writes them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tensorflow")
import keras
import tensorflow as tf

from profilerkit_litert import LiteRTModel


def convert(model: Any, **settings: Any) -> LiteRTModel:
    """Return the file of LiteRT for a Keras model; ``settings`` are attributes of the converter.

    Keras, which writes what it exports, is quiet meanwhile.
    """
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    for name, value in settings.items():
        setattr(converter, name, value)
    was_interactive = keras.config.is_interactive_logging_enabled()
    keras.config.disable_interactive_logging()
    try:
        return LiteRTModel(converter.convert())
    finally:
        if was_interactive:
            keras.config.enable_interactive_logging()
