"""The models of ``keras.applications`` by name."""

from __future__ import annotations

import sys

import pytest

from profilerkit import InputError, profile
from profilerkit.plugging.loaders import load_model

pytest.importorskip("tensorflow")


def test_an_application_without_weights() -> None:
    loaded = load_model("keras:MobileNetV2")
    assert loaded.name == "MobileNetV2"
    assert profile(loaded.model, metrics=["total_params"])["total_params"] == 3_538_984, "as Keras' own table says"


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(InputError, match="there is no model 'MobileNet2'; the nearest are: MobileNetV2"):
        load_model("keras:MobileNet2")


def test_without_keras_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(InputError, match="keras:VGG16: needs the package 'keras', which cannot be imported"):
        load_model("keras:VGG16")
