"""The TensorFlow backend as a plugin; importing this imports neither TensorFlow nor Keras."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profilerkit import BackendInfo, InputError, LoadedModel, LoaderInfo, hookimpl
from profilerkit.backend_kit.installed import find_version, library_for, require_version
from profilerkit.backend_kit.model_paths import is_path_with_suffix
from profilerkit.errors import by_likeness

if TYPE_CHECKING:
    from profilerkit import Backend

MINIMUM = (2, 18)


def load() -> Backend:
    """Import TensorFlow and return the backend; raises ImportError if it is missing or too old."""
    import tensorflow as tf

    require_version("tensorflow", tf.__version__, MINIMUM)
    from .backend import TFBackend

    return TFBackend()


def find_versions() -> dict[str, str]:
    """Return TensorFlow's and Keras' versions without importing them; raises ImportError as `load` does."""
    version = find_version("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly")
    require_version("tensorflow", version, MINIMUM)
    return {"tensorflow": version, "keras": find_version("keras")}


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the TensorFlow backend."""
    from .model.recognition import claims

    return [
        BackendInfo(
            name="tensorflow",
            frameworks=("keras", "tf_keras", "tensorflow"),
            load=load,
            requirement="profilerkit[tensorflow]",
            claims=claims,
            installed=find_versions,
            tested={"tensorflow": ("2.18", "2.21")},
        )
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer the models in Keras' files and in the folders of saved models, and the models of ``keras.applications``."""
    return [
        LoaderInfo(
            "tensorflow",
            is_model_path,
            load_path,
            "path/to/model.keras (or .h5, or a saved model's folder)",
            frameworks=("tensorflow", "keras"),
        ),
        LoaderInfo(
            "keras",
            is_application,
            load_application,
            "keras:NAME",
            names=lambda: [f"keras:{name}" for name in sorted(application_names("keras:*"))],
            packages=("keras",),
            frameworks=("tensorflow", "keras"),
        ),
    ]


def is_model_path(spec: str) -> bool:
    """Return whether a text is the path of a Keras file, which need not exist, or of the folder of a saved model."""
    if is_path_with_suffix(spec, (".keras", ".h5", ".hdf5")):
        return True
    try:
        return (Path(spec) / "saved_model.pb").is_file()
    except OSError:  # the text is too long for a path, or the folder may not be entered
        return False


def load_path(spec: str, trust: bool = False) -> Any:
    """Return the model of a Keras file or of a saved model's folder; ``trust`` allows files that run code."""
    from profilerkit.hooks.backends import backend_named

    backend: Any = backend_named("tensorflow")
    return backend.open_model(spec, trust=True) if trust else backend.open_model(spec)


def is_application(spec: str) -> bool:
    """Return whether a text is ``keras:NAME``."""
    return spec.startswith("keras:") and len(spec) > len("keras:")


def load_application(spec: str) -> Any:
    """Return the model of that name in ``keras.applications``, without weights.

    Raises `InputError` for an unknown name, and if Keras cannot be imported.
    """
    name, names = spec.partition(":")[2], application_names(spec)
    applications = import_module("keras.applications")
    if name not in names:
        raise InputError(
            f"{spec!r}: there is no model {name!r}; the nearest are: {', '.join(by_likeness(name, names)[:5])}"
        )
    return LoadedModel(getattr(applications, name)(weights=None), name=name)


def application_names(spec: str) -> list[str]:
    """Return the names of all models of ``keras.applications``; raises `InputError` if Keras cannot be imported."""
    applications = library_for(spec, "keras", "keras.applications")
    return [attribute for attribute in vars(applications) if attribute[:1].isupper()]
