"""No file of PyTorch's runs code unless the user trusts it: each way in which one can has a file that does."""

from __future__ import annotations

import logging
import os
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from malicious_files import (
    Net,
    Touch,
    has_a_file_for_each_weight,
    honest_program,
    is_new_layout,
    programs,
    script,
    scripts,
)
from time_limits import run_python
from torch import nn

from profilerkit import InputError, profile
from profilerkit.cli import cli
from profilerkit.models.loaders import load_model
from profilerkit.process.restoring import restored
from profilerkit_torch.model.file_checks import Finding, require_operator
from profilerkit_torch.model.pickles import refuse_code

WAYS = [
    "example inputs",
    "weights of an earlier layout",
    "constants of an earlier layout",
    "a weight",
    "a constant",
    "example inputs in capitals",
    "an object of torch's",
    "an opaque object",
    "a size",
    "a function",
    "an operator that writes a file",
    "an operator that maps a file",
    "any overload of it",
    "an operator of another package",
    "a higher-order operator",
    "an attribute of the operators",
    "a part of a name unknown",
    "the key of a part",
    "the name of a node",
    "the name of an input",
    "the module of a structure",
    "the module of an enumeration",
    "state_dict in the layout of torch 2.7",
    "constants in the layout of torch 2.7",
    "example_inputs in the layout of torch 2.7",
]
#: What only the layout of torch 2.8 and newer has; and of that, what 2.8 itself has not.
NEW_LAYOUT, NEWER_LAYOUT = WAYS[:8], WAYS[3:8]
#: Refused as well, though it takes more than to load and profile them: the name of a node is written into code that
#: nothing here calls, and torch 2.13 itself refuses the others when it has read the rest.
NOT_RUN = (
    "an object of torch's",
    "a function",
    "the name of a node",
    "an operator that writes a file",
    "an operator that maps a file",
    "any overload of it",
    "an operator of another package",
    "a higher-order operator",
    "an attribute of the operators",
    "a part of a name unknown",
    "the key of a part",
    *(() if is_new_layout() else ("the module of an enumeration",)),
)


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what is not there unless code of a file has run."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(logging, "raiseExceptions", False)  # torch's own warning of what it unpickles is misformatted
    return tmp_path / "marker"


def test_every_way_has_a_test(marker: Path, tmp_path: Path) -> None:
    assert list(programs(marker, tmp_path)) == WAYS


@pytest.mark.parametrize("way", WAYS)
def test_a_program_runs_no_code_unless_it_is_trusted(way: str, marker: Path, tmp_path: Path) -> None:
    if (way in NEW_LAYOUT and not is_new_layout()) or (way in NEWER_LAYOUT and not has_a_file_for_each_weight()):
        pytest.skip("this release neither writes nor reads that layout")
    path = programs(marker, tmp_path)[way](tmp_path / "net.pt2")
    with pytest.raises(InputError, match=r"net\.pt2 .*it could run any code.*--trust .*trust=True") as raised:
        load_model(str(path))
    assert not marker.exists()
    if "pickle" in str(raised.value) or "tensors" in str(raised.value):
        assert "posix.mkdir" in str(raised.value), "what was found is named"
    try:
        loaded = load_model(str(path), trust=True)
        profile(loaded.model, torch.ones(3, 4), metrics="macs")
    except Exception as error:  # what is left of the program after that
        assert not isinstance(error, AssertionError) or "attr_kind" in str(error) or torch.__version__ < "2.13"
    finally:
        sys.modules.pop("touching_module", None)
    if torch.__version__ < "2.13" and not marker.exists():
        return  # 2.8 to 2.12 read some of these in another way, and 2.8 none of 2.7
    assert marker.exists() == (way not in NOT_RUN), "the file would not have run code: the test shows nothing"


def test_no_operator_that_reaches_a_file_is_allowed() -> None:
    """Of all operators that torch has registered, those with a text that is no choice of a computation are refused."""
    schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(("aten::", "prims::"))]
    texts = {
        argument.name
        for schema in schemas
        if _is_allowed(f"torch.ops.{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}")
        for argument in schema.arguments
        if "str" in str(argument.type)
    }
    assert texts <= CHOICES, "a new text of an operator: it may be the name of a file"
    assert not _is_allowed("torch.ops.aten._print.default"), "it would write to the terminal"
    assert _is_allowed("torch.ops.aten.add.Tensor") and _is_allowed("torch.ops.aten.gelu.default")


#: Read one by one in torch's documentation: each chooses among ways to compute, or is the text of an error.
CHOICES = {
    *("UPLO", "activation", "algorithm", "api_name", "approximate", "assert_msg", "device_type", "driver", "equation"),
    *("indexing", "interpolation", "mode", "norm", "ord", "p", "pad_mode", "padding", "padding_side", "reduce"),
    *("rounding_mode", "side"),
}


def _is_allowed(target: str) -> bool:
    try:
        require_operator(target)
    except Finding:
        return False
    return True


class Various(nn.Module):
    """What exports write that is more than layers: branches, structures, modes, sizes, mutations."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"a-b": nn.Linear(8, 8), "c d": nn.Linear(8, 8)})
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor, *, scale: float, names: dict[str, torch.Tensor]) -> Any:
        self.calls.add_(1)
        with torch.no_grad():
            y = self.layers["c d"](self.layers["a-b"](x))
        y = torch.cond(y.sum() > 0, lambda t: t + 1, lambda t: t - 1, (y,))
        z = self.attention(y, y, y)[0] * scale + names["bias of it"]
        half = x.shape[1] // 2 + max(x.shape[0], 3)
        return defaultdict(list, {"a b": z}), OrderedDict(sizes=[torch.zeros(half), (z.reshape(-1),)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("decomposed", [False, True])
def test_an_honest_program_is_loaded(decomposed: bool, tmp_path: Path) -> None:
    """Nothing that an export writes is taken for something else."""
    sizes = {"x": {1: torch.export.Dim.AUTO}, "scale": None, "names": {"bias of it": None}}
    given = {"scale": 2.0, "names": {"bias of it": torch.ones(8)}}
    program = torch.export.export(Various().eval(), (torch.ones(2, 6, 8),), given, dynamic_shapes=sizes, strict=False)
    program = program.run_decompositions() if decomposed else program
    torch.export.save(program, tmp_path / "various.pt2")
    loaded = load_model(str(tmp_path / "various.pt2"))
    assert loaded.inputs.args[0].shape == (2, 6, 8)
    assert profile(loaded.model, loaded.inputs, metrics="macs")["macs"] > 2 * 6 * 8 * 8


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
    """Reading weights alone from it, or a program, is refused by torch: no way leads to its own reading of scripts."""
    path = script(marker, tmp_path / name)
    with pytest.raises(InputError, match="cannot be read" if name.endswith("2") else "is a TorchScript program"):
        load_model(str(path))
    if not name.endswith("2"):
        assert not marker.exists()
        load_model(str(path), trust=True).model(torch.ones(1))
        assert marker.exists()


def test_a_pickled_model_is_loaded_where_it_is_trusted(marker: Path, tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    assert load_model(str(tmp_path / "model.pt"), trust=True).model.in_features == 2
    torch.save(Touch(marker), tmp_path / "evil.pt")
    with pytest.raises(InputError, match=r"evil\.pt holds a pickled model \(it names posix.mkdir\).*--trust"):
        load_model(str(tmp_path / "evil.pt"))
    assert not marker.exists()


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
    assert load_model(str(honest_program(tmp_path / "net.pt2"))).name == "net"
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


@pytest.mark.skipif(not is_new_layout(), reason="this release reads no compiled code from a program")
def test_compiled_code_is_refused(tmp_path: Path) -> None:
    from malicious_files import rewritten

    path = rewritten(
        honest_program(tmp_path / "net.pt2"), lambda members: members.update({"data/aotinductor/model/net.so": b"ELF"})
    )
    with pytest.raises(InputError, match=r"holds compiled code \(data/aotinductor/model/net\.so\)"):
        load_model(str(path))


@pytest.mark.skipif(not is_new_layout(), reason="an archive of an earlier layout has no such files")
def test_names_that_lead_out_of_the_archive_write_nothing(tmp_path: Path) -> None:
    """Files of the user's beside a model are text in memory: nothing of an archive is unpacked."""
    from malicious_files import rewritten

    inside = tmp_path / "inside"
    inside.mkdir()
    outside = {f"extra/{above}escaped": b"here" for above in ("", "../", "../../", f"{tmp_path}/")}
    path = rewritten(honest_program(inside / "net.pt2"), lambda members: members.update(outside))
    assert load_model(str(path)).name == "net"
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["inside", "net.pt2"]


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
