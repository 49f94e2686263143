"""The models of ``keras.applications`` by name, and files that cannot be loaded."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from profilerkit import InputError, profile
from profilerkit.models.loaders import load_model


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


def _without_weights(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")


def _half(path: Path) -> None:
    import keras

    keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGED: dict[str, Callable[[Path], object]] = {
    "text.keras": lambda path: path.write_text("hello"),
    "empty.keras": lambda path: path.touch(),
    "head.keras": lambda path: path.write_bytes(b"PK\x03\x04 nothing"),
    "half.keras": _half,
    "without_weights.keras": _without_weights,
    "junk.h5": lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n junk"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named_with_what_to_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    DAMAGED[name](path)
    with pytest.raises(InputError, match="save the model again") as caught:
        profile(path, metrics="total_params", backend="tensorflow")
    assert name in str(caught.value)
    assert "plugin" not in str(caught.value)


def test_a_damaged_saved_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"junk")
    with pytest.raises(InputError, match=str(tmp_path)):
        profile(tmp_path, metrics="total_params", backend="tensorflow")
