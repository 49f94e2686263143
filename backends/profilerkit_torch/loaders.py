"""Models by name or file, for the command line: saved programs, and what libraries build by name, without weights."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import torch

from profilerkit import InputError, LoadedModel, ModelInputs
from profilerkit.backend_kit.installed import library_for
from profilerkit.errors import by_likeness
from profilerkit.plugging.extension import make_refusal
from profilerkit.plugging.loaded_files import find_namespace
from profilerkit.process.archives import require_whole

from .hub_inputs import find_shapes
from .language_models.models import default_dtype, unify_dtype
from .model.program_checks import names_in_pickle, require_harmless_program, weights_only

__all__ = ["load_file", "load_from_timm", "load_from_torchvision", "load_hugging_face", "names_of_library"]

#: From how many parameters on a model is left on the meta device: it is counted, and not run.
LARGE = 1_000_000_000


def load_file(spec: str, trust: bool = False) -> Any:
    """Return the model in a file: an exported program (``.pt2``) with its example inputs, or TorchScript.

    Raises `InputError` for a file that holds weights alone, and for one that may run code when it is read, such as
    TorchScript and a pickled model; with ``trust`` the latter is read.
    """
    path = Path(spec)
    if not path.is_file():
        raise InputError(f"there is no file {spec!r}")
    if path.suffix == ".pt2":
        require_whole(path)
        return _load_program(spec, path, trust)
    if _is_script(path):
        if not trust:
            raise make_refusal(
                spec,
                "is a TorchScript program: its operators can overwrite any file of yours, also while it is loaded; "
                "torch.export.save(..., 'model.pt2') writes a file that is checked instead",
            )
        require_whole(path)
        return LoadedModel(_read(spec, lambda: _load_script(path)), name=path.stem)
    content = _load_pickle(spec, path, trust)
    if trust and isinstance(content, torch.nn.Module):
        return LoadedModel(content, name=path.stem)
    count = len(content) if hasattr(content, "__len__") else 1
    raise InputError(
        f"{spec} holds weights alone ({count} entries), no model; give file.py:name of a function that builds the model"
    )


def _is_script(path: Path) -> bool:
    """Return whether a file is TorchScript, by the member that torch itself knows it by."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(PurePosixPath(name).name == "constants.pkl" for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _load_script(path: Path) -> Any:
    """Return a script; that torch calls scripts deprecated is no news to somebody who has one, and no error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+`")
        return torch.jit.load(str(path), map_location="cpu")


def _load_program(spec: str, path: Path, trust: bool) -> LoadedModel:
    """Return an exported program, with the inputs that it was exported with where the file has them."""
    if not trust:
        require_harmless_program(path)
    with nullcontext() if trust else weights_only():
        program = _read(spec, lambda: torch.export.load(path))
    examples = program.example_inputs
    return LoadedModel(program, ModelInputs(*examples[0], **examples[1]) if examples else None, name=path.stem)


def _load_pickle(spec: str, path: Path, trust: bool) -> Any:
    """Return what ``torch.save`` wrote; a pickled model finds the modules that lie beside it."""
    try:
        with find_namespace(path.parent).in_use() if trust else weights_only():
            return torch.load(path, map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        names = names_in_pickle(path.read_bytes())
        raise make_refusal(
            spec,
            f"holds a pickled model{f' (it names {names})' if names else ''}: reading it would run whatever code is in "
            "it; file.py:name of a function that builds the model runs no code but that, and "
            "torch.export.save(..., 'model.pt2') writes a file that runs none",
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(f"{spec} is no file of torch's: {type(error).__name__}: {error}") from error


def _read(spec: str, read: Callable[[], Any]) -> Any:
    """Return what ``read`` does; whatever it raises is an `InputError` about the file."""
    try:
        return read()
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(
            f"{spec} cannot be read: {type(error).__name__}: {str(error).strip().splitlines()[0]}"
        ) from error


def load_from_timm(spec: str) -> LoadedModel:
    """Return the model that timm builds under a name, without weights, and the shape of image that it was made for."""
    timm, name = library_for("timm", "timm"), spec.partition(":")[2]
    _require_known(spec, name, timm.list_models())
    with _same_weights_each_time():
        model = timm.create_model(name, pretrained=False)
    facts = getattr(model, "pretrained_cfg", None) or {}
    return LoadedModel(model, input_shape=tuple(facts.get("input_size", (3, 224, 224))), name=name)


def load_from_torchvision(spec: str) -> LoadedModel:
    """Return the model that torchvision builds under a name, without weights, and the shape of image that it takes."""
    library_for("torchvision", "torchvision")
    from torchvision import models  # type: ignore[import-not-found,import-untyped,unused-ignore]

    name = spec.partition(":")[2]
    _require_known(spec, name, models.list_models())
    try:
        size = models.get_model_weights(name).DEFAULT.transforms().crop_size[0]
    except (AttributeError, IndexError, TypeError, ValueError):  # detection models are made for no one size
        size = 224
    with _same_weights_each_time():
        return LoadedModel(models.get_model(name, weights=None), input_shape=(3, size, size), name=name)


def load_hugging_face(spec: str, trust: bool = False) -> LoadedModel:
    """Return the model of a configuration of transformers, without weights, and the shapes of inputs that fit it.

    The text is a folder with a ``config.json``, the type of a model (``bert``, ``llama``: its default configuration),
    or a name on the hub, whose configuration alone is downloaded. A model of a billion parameters or more stays on the
    meta device: it is counted, and not run. Raises `InputError` for a configuration whose code lies beside it, or which
    names code on the hub; with ``trust`` that code is run.
    """
    transformers, name = library_for("transformers", "transformers"), spec.partition(":")[2]
    config = _find_configuration(transformers, spec, name, trust)
    if not trust:
        _require_code_of_transformers(spec, config)
    build = _find_builder(transformers, config, trust)
    try:
        config, dtype = unify_dtype(config)
    except InputError as error:
        raise InputError(f"{spec!r}: {error}") from error
    try:
        with torch.device("meta"), default_dtype(dtype):
            model = build(config)
    except MemoryError:
        raise
    except Exception as error:  # the default configuration of ESM has no vocabulary, that of Nemotron no width
        raise InputError(
            f"{spec!r}: transformers cannot build a model of this configuration: {type(error).__name__}: "
            f"{' '.join(str(error).split())}; give a folder with a config.json that is whole"
        ) from error
    if sum(parameter.numel() for parameter in model.parameters()) < LARGE:
        with _same_weights_each_time(), default_dtype(dtype):
            model = build(config)
    return LoadedModel(model.eval(), input_shape=find_shapes(model, config, dtype), name=name)


def _find_builder(transformers: ModuleType, config: Any, trust: bool) -> Callable[[Any], Any]:
    """Return what builds the model of a configuration: the class that it names, or the usual one for its type."""
    classes = [getattr(transformers, item, None) for item in getattr(config, "architectures", None) or ()]
    if not classes:  # Funnel has two models for one configuration, and transformers asks the configuration for one
        usual = transformers.MODEL_MAPPING.get(type(config), None)
        classes = list(usual) if isinstance(usual, (list, tuple)) else []
    first = classes[0] if classes else None
    if isinstance(first, type) and issubclass(first, transformers.PreTrainedModel):
        return first
    return lambda config: transformers.AutoModel.from_config(config, trust_remote_code=trust)


def _require_code_of_transformers(spec: str, config: Any) -> None:
    """Raise `InputError` for a configuration that has code run which transformers does not come with."""
    code = getattr(config, "auto_map", None)
    kernels = [value for name, value in vars(config).items() if "attn_implementation" in name and "/" in str(value)]
    if code:
        raise make_refusal(spec, f"has code of its own ({', '.join(map(str, code.values()))})")
    if kernels:
        raise make_refusal(spec, f"has attention by code on the hub ({kernels[0]})")


def _find_configuration(transformers: ModuleType, spec: str, name: str, trust: bool) -> Any:
    """Return the configuration in a folder, the default one of a type of model, or that of a name on the hub."""
    remote = {"trust_remote_code": trust}
    if Path(name).exists():
        try:
            return _read(spec, lambda: transformers.AutoConfig.from_pretrained(name, local_files_only=True, **remote))
        except InputError as error:
            unknown = error.__cause__
            if isinstance(unknown, AttributeError) and unknown.obj is torch:  # transformers reads a dtype by its name
                raise InputError(
                    f"{spec!r}: its config.json names the dtype {unknown.name!r}, which torch does not have; write "
                    "float32, bfloat16 or float16 as dtype, or leave it out for float32"
                ) from unknown
            raise
    if name in transformers.CONFIG_MAPPING:
        return transformers.AutoConfig.for_model(name)
    try:
        return transformers.AutoConfig.from_pretrained(name, **remote)
    except MemoryError:
        raise
    except Exception as error:
        nearest = ", ".join(by_likeness(name, transformers.CONFIG_MAPPING)[:5])
        raise InputError(
            f"{spec!r}: there is no folder {name!r}, no type of model of that name (the nearest are {nearest}), and no "
            f"configuration of it can be had from the hub: {str(error).strip().splitlines()[0]}"
        ) from error


def names_of_library(name: str) -> list[str]:
    """Return the names of all models that a library builds; raises `InputError` if it is not installed."""
    library = library_for(name, name)
    if name == "transformers":
        return sorted(library.CONFIG_MAPPING)
    listing = library if name == "timm" else import_module("torchvision.models")
    return sorted(listing.list_models())


def _require_known(spec: str, name: str, names: list[str]) -> None:
    if name not in names:
        nearest = ", ".join(by_likeness(name, names)[:5])
        raise InputError(f"{spec!r}: there is no model {name!r}; the nearest are: {nearest}")


@contextmanager
def _same_weights_each_time() -> Iterator[None]:
    """Draw random weights from a seed of their own: what depends on them, such as routes to experts, is repeatable."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield
