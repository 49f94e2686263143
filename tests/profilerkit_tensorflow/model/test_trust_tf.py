"""No file of Keras' or TensorFlow's runs code of its own unless the user trusts it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from profilerkit import InputError
from profilerkit.models.loaders import load_model

keras: Any = tf.keras


def save(path: Path, *layers: Any) -> Path:
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), *layers]).save(path)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_lambda_layer_is_refused(suffix: str, tmp_path: Path) -> None:
    path = save(tmp_path / f"net{suffix}", keras.layers.Lambda(lambda x: x * 2))
    with pytest.raises(
        InputError, match=r"net\.\w+ has a Lambda layer, which holds Python code; .*--trust .*trust=True"
    ):
        load_model(str(path))
    assert load_model(str(path), trust=True).count_params() == 4 * 3 + 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_layers_of_keras_are_loaded(suffix: str, tmp_path: Path) -> None:
    made = [keras.layers.Dense(3, activation="relu", kernel_regularizer="l2"), keras.layers.Dropout(0.1)]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), *made])
    model.compile("adam", keras.losses.deserialize("mean_squared_error"), [keras.metrics.MeanAbsoluteError()])
    model.save(tmp_path / f"net{suffix}")
    assert load_model(str(tmp_path / f"net{suffix}")).count_params() == (4 * 3 + 3) + (3 * 3 + 3)


FOREIGN = {
    "a module of Python": ({"module": "os", "class_name": "mkdir"}, "os.mkdir"),
    "a tool of Keras": ({"module": "keras.utils", "class_name": "get_file"}, "keras.utils.get_file"),
    "a function": ({"module": "os", "class_name": "function", "config": "mkdir"}, "os.mkdir"),
    "a function of Python's": ({"module": "builtins", "class_name": "function", "config": "eval"}, "builtins.eval"),
    "a further file": (
        {"module": "keras.layers", "class_name": "TFSMLayer"},
        "a TFSMLayer, which loads a further file",
    ),
    "a pickled model": ({"module": "keras.layers", "class_name": "TorchModuleWrapper"}, "holds a pickled model"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_code_that_is_not_of_layers_is_refused(what: str, tmp_path: Path) -> None:
    part, message = FOREIGN[what]
    path = save(tmp_path / "net.keras")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    config["config"]["layers"].append({"config": {}, "registered_name": None, **part})
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, "config.json": json.dumps(config).encode()}.items():
            archive.writestr(name, data)
    with pytest.raises(InputError, match=f"has .*{message}.*--trust"):
        load_model(str(path))


def test_a_class_that_the_caller_has_registered_is_loaded(tmp_path: Path) -> None:
    @keras.utils.register_keras_serializable("test_trust_tf")
    class Twice(keras.layers.Layer):  # type: ignore[misc,unused-ignore]
        def call(self, x: Any) -> Any:
            return x * 2

    path = save(tmp_path / "net.keras", Twice())
    assert type(load_model(str(path)).layers[-1]) is Twice
    keras.utils.get_custom_objects().pop("test_trust_tf>Twice")
    with pytest.raises(InputError, match=r"Twice, which is not a layer or function of Keras"):
        load_model(str(path))


class Writes(tf.Module):  # type: ignore[misc,unused-ignore]
    """Writes a file when it is run."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])  # type: ignore[misc,untyped-decorator,unused-ignore]
    def __call__(self, x: Any) -> Any:
        tf.io.write_file(self.path, "written")
        return x


def test_a_saved_model_that_writes_files_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    tf.saved_model.save(Writes(str(marker)), str(tmp_path / "saved"))
    with pytest.raises(InputError, match=r"saved runs WriteFile \(.* of __inference.*\); .*--trust"):
        load_model(str(tmp_path / "saved"))
    load_model(str(tmp_path / "saved"), trust=True)(tf.ones((1, 4)))
    assert marker.read_text() == "written"


def test_a_saved_model_of_layers_is_loaded(tmp_path: Path) -> None:
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]).export(str(tmp_path / "saved"), verbose=False)
    assert load_model(str(tmp_path / "saved")).serve(tf.ones((1, 4))).shape == (1, 3)
