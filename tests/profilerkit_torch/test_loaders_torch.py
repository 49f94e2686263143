"""Models by name or file."""

from __future__ import annotations

import json
import socket
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from profilerkit import InputError, LoadedModel
from profilerkit.models.loaders import find_loader, load_model


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(x)
        return out


@pytest.mark.parametrize(
    ("spec", "loader"),
    [
        ("hf:org/model.pt", "hf"),
        ("hf:org/model.onnx", "hf"),
        ("timm:x.pt", "timm"),
        ("package.module:net.pt", "module"),
        ("folder/file.py:net.pt", "file"),
        ("MODEL.PT", "torch"),
        ("runs/12:30/model.pt2", "torch"),
        ("./hf:model.pt", "torch"),
    ],
)
def test_a_text_that_names_a_library_or_a_module_is_no_path_of_a_file(spec: str, loader: str) -> None:
    assert find_loader(spec).item.name == loader


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # of torch 2.10, in its own loading
def test_an_exported_program_with_its_inputs(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Net(), (torch.ones(3, 4),)), tmp_path / "net.pt2")
    loaded = load_model(str(tmp_path / "net.pt2"), trust=True)
    assert isinstance(loaded, LoadedModel)
    assert isinstance(loaded.model, torch.export.ExportedProgram)
    assert loaded.name == "net"
    assert loaded.inputs.args[0].shape == (3, 4)


def test_a_script_is_read_though_torch_calls_scripts_deprecated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch 2.14 warns at each reading; warnings are errors here, as under ``python -W error``."""
    torch.jit.script(Net()).save(str(tmp_path / "net.pt"))
    read = torch.jit.load

    def load(*args: Any, **kwargs: Any) -> Any:
        warnings.warn("`torch.jit.load` is deprecated. Please switch to `torch.export`.", FutureWarning, stacklevel=2)
        return read(*args, **kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(torch.jit, "load", load)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_model(str(tmp_path / "net.pt"), trust=True)
    assert isinstance(loaded.model, torch.jit.ScriptModule)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript(tmp_path: Path) -> None:
    torch.jit.script(Net()).save(str(tmp_path / "net.pt"))
    loaded = load_model(str(tmp_path / "net.pt"), trust=True)
    assert isinstance(loaded.model, torch.jit.ScriptModule)
    assert loaded.model(torch.ones(1, 4)).shape == (1, 2)


def test_weights_alone_are_no_model(tmp_path: Path) -> None:
    torch.save(Net().state_dict(), tmp_path / "weights.pth")
    with pytest.raises(
        InputError, match=r"weights\.pth holds weights alone \(2 entries\), no model; give file\.py:name"
    ):
        load_model(str(tmp_path / "weights.pth"))


def test_a_pickled_model_is_not_read(tmp_path: Path) -> None:
    """Reading it would run code: what torch's own safe reading refuses is refused."""
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(
        InputError,
        match=r"model\.pt holds a pickled model \(it names torch.nn.modules.linear.Linear.*reading it would run",
    ):
        load_model(str(tmp_path / "model.pt"))


def test_files_that_are_none_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file 'absent.pt2'"):
        load_model("absent.pt2")
    (tmp_path / "text.pt").write_text("hello", encoding="utf-8")
    (tmp_path / "text.pt2").write_text("hello", encoding="utf-8")
    with pytest.raises(InputError, match=r"text\.pt (is no file of torch's|holds a pickled)"):
        load_model(str(tmp_path / "text.pt"))
    with pytest.raises(InputError, match=r"text\.pt2 cannot be read: "):
        load_model(str(tmp_path / "text.pt2"), trust=True)


def test_timm_models_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def create_model(name: str, pretrained: bool) -> nn.Module:
        asked.append((name, pretrained))
        model = Net()
        model.pretrained_cfg = {"input_size": (3, 288, 288)}  # type: ignore[assignment]
        return model

    timm = types.SimpleNamespace(list_models=lambda: ["resnet50", "vit_base"], create_model=create_model)
    monkeypatch.setitem(sys.modules, "timm", timm)
    loaded = load_model("timm:resnet50")
    assert (asked, loaded.input_shape, loaded.name) == ([("resnet50", False)], (3, 288, 288), "resnet50")
    assert load_model("timm:resnet50.a1_in1k").name == asked[-1][0] == "resnet50.a1_in1k"
    with pytest.raises(InputError, match="there is no model 'resnet5'; the nearest are: resnet50, vit_base"):
        load_model("timm:resnet5")


def test_torchvision_models_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = types.SimpleNamespace(
        DEFAULT=types.SimpleNamespace(transforms=lambda: types.SimpleNamespace(crop_size=[299]))
    )
    clips = type("VideoResNet", (Net,), {"__module__": "torchvision.models.video.resnet"})
    models = types.SimpleNamespace(
        list_models=lambda: ["inception_v3", "detector", "clips"],
        get_model=lambda name, weights: clips() if name == "clips" else Net(),
        get_model_weights=lambda name: types.SimpleNamespace() if name == "detector" else weights,
    )
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))
    assert load_model("torchvision:inception_v3").input_shape == (3, 299, 299)
    assert load_model("torchvision:detector").input_shape == (3, 224, 224)
    assert load_model("torchvision:clips").input_shape == (3, 16, 299, 299)


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_a_library_that_is_not_there_is_said(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=f"{library}: needs the package '{library}', which cannot be imported"):
        load_model(f"{library}:resnet50")


@pytest.fixture
def transformers() -> Any:
    return pytest.importorskip("transformers")


def small_bert(folder: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    facts = {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "vocab_size": 50,
        "max_position_embeddings": 64,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**facts, **sizes}), encoding="utf-8")


def test_a_folder_with_a_configuration(transformers: Any, tmp_path: Path) -> None:
    small_bert(tmp_path / "tiny")
    loaded = load_model(f"hf:{tmp_path / 'tiny'}")
    assert type(loaded.model).__name__ == "BertForMaskedLM"
    assert loaded.input_shape == {"input_ids": ((64,), "int64")}
    assert not any(parameter.is_meta for parameter in loaded.model.parameters())


def test_random_weights_are_the_same_each_time(transformers: Any, tmp_path: Path) -> None:
    """What depends on them, such as the experts that words go to, is the same in two audits; no draw is taken."""
    small_bert(tmp_path / "tiny")
    before = torch.get_rng_state()
    first, second = (load_model(f"hf:{tmp_path / 'tiny'}").model.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(before, torch.get_rng_state())


def test_the_type_of_a_model(transformers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large models stay without values."""
    from profilerkit_torch import hub_models

    monkeypatch.setattr(hub_models, "LARGE", 1000)
    shapes = {"distilbert": {"input_ids": ((128,), "int64")}, "vit": {"pixel_values": ((3, 224, 224), "float32")}}
    for name, expected in shapes.items():
        loaded = load_model(f"hf:{name}")
        assert loaded.input_shape == expected
        assert all(parameter.is_meta for parameter in loaded.model.parameters())
    whisper = load_model("hf:whisper").input_shape
    assert whisper == {"input_features": ((80, 3000), "float32"), "decoder_input_ids": ((128,), "int64")}


@pytest.mark.parametrize("message", ["the hub cannot be reached", ""])
def test_a_configuration_that_is_nowhere(
    transformers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, message: str
) -> None:
    def unreachable(name: str, **options: Any) -> Any:
        raise OSError(message)

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", unreachable)
    with pytest.raises(InputError, match=rf"no type of model of that name \(the nearest are bert.*{message}"):
        load_model("hf:bertt")
    with pytest.raises(InputError, match=r"cannot be read: OSError"):
        load_model(f"hf:{tmp_path}")


@pytest.mark.parametrize(
    ("is_resolved", "proxies", "is_local"),
    [(True, {}, False), (False, {}, True), (False, {"https": "proxy:80"}, False)],
)
def test_the_hub_is_not_asked_again_and_again_where_its_address_cannot_be_found(
    transformers: Any, monkeypatch: pytest.MonkeyPatch, is_resolved: bool, proxies: dict[str, str], is_local: bool
) -> None:
    from profilerkit_torch import hub_models

    def resolve(host: str, port: None) -> list[object]:
        if not is_resolved:
            raise socket.gaierror(-2, "Name or service not known")
        return [host]

    def load(name: str, **options: Any) -> Any:
        asked.append(options["local_files_only"])
        raise OSError("not here")

    asked: list[bool] = []
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(hub_models, "getproxies", lambda: proxies)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", load)
    with pytest.raises(InputError, match="not here"):
        load_model("hf:bertt")
    assert asked == [is_local]
