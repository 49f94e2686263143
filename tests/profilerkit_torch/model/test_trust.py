"""No file of PyTorch's runs code unless the user trusts it: each way in which one can has a file that does."""

from __future__ import annotations

import logging
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from malicious_files import Net, Touch, honest_program, script, scripts
from time_limits import run_python
from torch import nn

from profilerkit import InputError
from profilerkit.cli import cli
from profilerkit.models.loaders import load_model
from profilerkit.process.restoring import restored
from profilerkit_torch.loaders import refuse_code


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what is not there unless code of a file has run."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(logging, "raiseExceptions", False)  # torch's own warning of what it unpickles is misformatted
    return tmp_path / "marker"


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # of torch 2.10, in its own loading
def test_a_program_is_loaded_where_it_is_trusted(tmp_path: Path) -> None:
    """Torch makes code of names in it: no program is read without, however honest."""
    path = str(honest_program(tmp_path / "net.pt2"))
    with pytest.raises(InputError, match=r"net\.pt2 is a program of torch\.export.*--trust .*trust=True"):
        load_model(path)
    assert load_model(path, trust=True).inputs.args[0].shape == (3, 4)


SCRIPTS = [
    "the operator",
    "blanks and line breaks",
    "getattr",
    "an escaped character",
    "two texts in a row",
    "the namespace of operators",
    "getattr of getattr",
    "another method",
    "a layer inside",
]
REFUSED = r"net\.pt is a TorchScript program.* can overwrite any file.*--trust .*trust=True"


def test_every_script_has_a_test(marker: Path) -> None:
    assert list(scripts(marker)) == SCRIPTS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", SCRIPTS)
def test_torchscript_overwrites_no_file_unless_it_is_trusted(way: str, marker: Path, tmp_path: Path) -> None:
    path = scripts(marker)[way](tmp_path / "net.pt")
    with pytest.raises(InputError, match=REFUSED):
        load_model(str(path))
    assert not marker.exists()
    load_model(str(path), trust=True)
    assert marker.exists(), "the file would not have written: the test shows nothing"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.ts", "net.torchscript", "net.pt2"])
def test_torchscript_is_refused_under_any_name(name: str, marker: Path, tmp_path: Path) -> None:
    """Reading weights alone from it is refused by torch: no way leads to its own reading of scripts."""
    path = script(marker, tmp_path / name)
    what = "a program of torch.export" if name.endswith("2") else "a TorchScript program"
    with pytest.raises(InputError, match=f"is {what}"):
        load_model(str(path))
    assert not marker.exists()
    if name.endswith("2"):
        with pytest.raises(InputError, match="cannot be read"):
            load_model(str(path), trust=True)
    else:
        load_model(str(path), trust=True).model(torch.ones(1))
        assert marker.exists()


def test_a_pickled_model_is_loaded_where_it_is_trusted(marker: Path, tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    assert load_model(str(tmp_path / "model.pt"), trust=True).model.in_features == 2
    torch.save(Touch(marker), tmp_path / "evil.pt")
    with pytest.raises(InputError, match=r"evil\.pt holds a pickled model \(it names posix.mkdir\).*--trust"):
        load_model(str(tmp_path / "evil.pt"))
    assert not marker.exists()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("settings", [{"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}], ids=str)
def test_no_name_is_given_that_is_not_in_the_file(settings: dict[str, Any], tmp_path: Path) -> None:
    """Torch names nothing in a pickle of another protocol, or of torch before 1.6: it may be of tensors alone."""
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt", **settings)
    with pytest.raises(InputError, match=r"holds a pickled model, or a pickle that torch does not read safely: read"):
        load_model(str(tmp_path / "model.pt"))


@pytest.mark.parametrize(
    "pickle", [b"\x80\x02cos\n", b"\x80\x02cos\nsystem\nX\x01\x00"], ids=["in a name", "in a length"]
)
def test_a_pickle_that_is_cut_off_is_refused(pickle: bytes, tmp_path: Path) -> None:
    """Torch's search for names raised an error of its own, instead of the refusal."""
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    with zipfile.ZipFile(tmp_path / "model.pt") as whole, zipfile.ZipFile(tmp_path / "cut.pt", "w") as cut:
        for name in whole.namelist():
            cut.writestr(name, pickle if name.endswith("data.pkl") else whole.read(name))
    with pytest.raises(InputError, match=r"cut\.pt holds a pickled model, or a pickle that torch does not read safely"):
        load_model(str(tmp_path / "cut.pt"))


def test_a_pickled_model_finds_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "net_beside.py").write_text("import torch\nclass Net(torch.nn.Linear): ...", encoding="utf-8")
    code = "import torch, net_beside; torch.save(net_beside.Net(2, 2), 'model.pt')"
    run_python(code, cwd=tmp_path)
    assert type(load_model(str(tmp_path / "model.pt"), trust=True).model).__name__ == "Net"
    assert "net_beside" not in sys.modules


def test_the_safe_reading_cannot_be_switched_off_from_outside(
    marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.save(Touch(marker), tmp_path / "evil.pt")
    with pytest.raises(InputError, match="pickled model"):
        load_model(str(tmp_path / "evil.pt"))
    assert not marker.exists()
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_the_environment_comes_back_where_the_end_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    block = refuse_code()
    with restored():
        block.__enter__()
        assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" not in os.environ
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_the_command_line_trusts_what_it_is_told_to(tmp_path: Path) -> None:
    torch.save(Net().fc, tmp_path / "model.pt")
    command = ["profile", str(tmp_path / "model.pt"), "--input-shape", "4", "--metric", "macs", "--format", "csv"]
    refused = CliRunner().invoke(cli, command)
    assert (refused.exit_code, "--trust" in refused.stderr) == (2, True)
    assert ",macs,8," in CliRunner().invoke(cli, [*command, "--trust"]).stdout


def test_configurations_that_name_code_are_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "code.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'marker')!r})", encoding="utf-8")
    own = '{"model_type": "bert", "auto_map": {"AutoConfig": "code.Config"}, "architectures": ["BertModel"]}'
    other = '{"model_type": "none_of_ours", "auto_map": {"AutoConfig": "code.Config"}}'
    for text, message in ((own, r"has code of its own \(code\.Config\); .*--trust"), (other, "contains custom code")):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            load_model(f"hf:{tmp_path}")
    small = transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    small.architectures = ["pipeline"]  # a function of the library's, and no model
    small.save_pretrained(tmp_path)
    assert type(load_model(f"hf:{tmp_path}").model).__name__ == "BertModel"
    assert not (tmp_path / "marker").exists()
