"""The command line, in process and as a user's own process."""

import functools
import json
import os
import re
import sys
import types
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from slow_ones import slow_ones
from time_limits import run_program

pytest.importorskip("torch", reason="torch is not installed")

from click.testing import CliRunner
from hook_plugins import lasting_for_a_test

from profilerkit import (
    Backend,
    Comparison,
    ExternalProfilerFunction,
    InputError,
    LoaderInfo,
    Metric,
    ProfilerFunction,
    RegistrationConflictError,
    RendererInfo,
    Report,
    hookimpl,
)
from profilerkit.cli import cli, main
from profilerkit.cli.list_command import find_location
from profilerkit.costs import Cost
from profilerkit.hooks import offers as plugins
from profilerkit.hooks.commands import list_commands
from profilerkit.hooks.infos import BackendInfo
from profilerkit.hooks.manager import list_infos, manager
from profilerkit_torch.costs.registry import COSTS

MODEL = """
import torch

def build():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 3)

    def forward(self, ids):
        return self.table(ids)

ready = build()

def half():
    return build().half()

class Unpacks(torch.nn.Module):
    def forward(self, x):
        batch, channels, width = x.shape

class Broken(torch.nn.Module):
    def __init__(self):
        raise RuntimeError("not today")

class Strange(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.multilabel_margin_loss(x, torch.zeros(x.shape, dtype=torch.long))
"""


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    path = tmp_path / "my_models.py"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


def test_help_names_every_command() -> None:
    code, output = run("--help")
    assert code == 0, output
    assert all(info.name in output for info in list_commands().values())
    for info in list_commands().values():
        assert run(info.name, "--help")[0] == 0
    assert run("no-such-command")[0] == 2


def test_list_says_what_comes_from_where() -> None:
    code, output = run("list")
    assert code == 0
    assert "profilerkit_torch.plugin" in output
    assert output.count("\n  macs                       Multiply-accumulates of matrix products") == 1, (
        "once for all backends"
    )
    assert "Also: latency, time." in output
    assert "  json                       all results, for other programs and for 'show'\n" in output
    assert "  module                     package.module:name\n" in output
    assert not re.search(r"\.py:\d", output), "places are for --verbose"


class Shout(Metric):
    """A metric of another package."""

    NAME = "shout"


class ComputeShout(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[Metric]:
        return Shout

    def __call__(self) -> int:
        return 7


def load_from_hub(spec: str) -> Any:
    import torch

    if spec == "hub:none":
        raise InputError("the hub has no model 'none'")
    return torch.nn.Linear(3, 2)


def is_in_hub(spec: str) -> bool:
    return spec.startswith("hub:")


def cost_of_shouting(*shapes: Any, out: Any) -> Cost:
    return Cost(0, 1)


def draw(result: Report) -> str:
    if "macs" not in result:
        raise KeyError("macs")
    return f"{result.name} shouts {result['macs']}"


def load_renderer() -> Any:
    return draw


class Plugin:
    """A plugin of the package my-shouts that uses every hook a package may have a use for."""

    @hookimpl
    def profilerkit_profiler_functions(self, backend: Backend) -> list[ProfilerFunction]:
        return [ComputeShout()]

    @hookimpl
    def profilerkit_status_keys(self) -> list[type[Metric]]:
        return [Shout]

    @hookimpl
    def profilerkit_op_costs(self, backend: Backend) -> dict[str, Any] | None:
        return {"mylib::shout": cost_of_shouting} if backend.name == "torch" else None

    @hookimpl
    def profilerkit_renderers(self) -> list[RendererInfo]:
        return [RendererInfo("shout", load_renderer, "capital letters")]

    @hookimpl
    def profilerkit_model_loaders(self) -> list[LoaderInfo]:
        return [LoaderInfo("hub", is_in_hub, load_from_hub, "hub:NAME")]


@pytest.fixture
def shouting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the plugin beside what is installed."""
    module = types.ModuleType("my_shouts")
    vars(module)["plugin"] = Plugin()
    monkeypatch.setitem(sys.modules, "my_shouts", module)
    point = metadata.EntryPoint("shouts", "my_shouts:plugin", "profilerkit")
    vars(point)["dist"] = types.SimpleNamespace(name="my-shouts", version="3.1")
    installed = tuple(metadata.entry_points(group="profilerkit"))
    monkeypatch.setattr(metadata, "entry_points", lambda group: (*installed, point))
    plugins.forget()
    with lasting_for_a_test(COSTS):
        yield
    plugins.forget()


def test_list_verbose_shows_the_package_file_and_line_of_everything(shouting: None) -> None:
    code, output = run("list", "--verbose")
    assert code == 0, output
    lines = output.splitlines()
    source = Path(__file__).read_text(encoding="utf-8").splitlines()

    def place(start: str, definition: str) -> None:
        """The line below the one that begins so names the plugin, its package, and where the definition is."""
        below = lines[
            next(number for number, line in enumerate(lines) if line.split()[: len(start.split())] == start.split()) + 1
        ]
        expected = f"plugin 'shouts' of my-shouts 3.1, {__file__}:{source.index(definition) + 1}"
        assert below.strip() == expected

    assert "  shouts                     my-shouts 3.1  (my_shouts:plugin)" in lines
    place("ComputeShout shout", "class ComputeShout(ProfilerFunction):")
    place("shout A metric of another package.", "class Shout(Metric):")
    place("shout capital letters", "def load_renderer() -> Any:")
    place("hub hub:NAME", "def load_from_hub(spec: str) -> Any:")
    place("mylib::shout", "def cost_of_shouting(*shapes: Any, out: Any) -> Cost:")
    assert re.search(
        r"^  torch +torch \d.*\n +plugin 'torch' of profilerkit [\d.]+, .*profilerkit_torch.plugin.py:\d+$",
        output,
        re.M,
    )
    assert "Cost formulas of plugins for the torch backend" in lines
    assert "Cost formulas of plugins for the tensorflow backend" not in lines


def test_places_of_what_has_none_and_of_instances() -> None:
    assert find_location(len) == "location unknown"
    assert find_location(ComputeShout()) == find_location(ComputeShout)
    assert find_location(functools.partial(draw)) == find_location(draw)
    wrapped = ExternalProfilerFunction(lambda model, data: 0, Shout)
    assert find_location(wrapped).startswith(f"{__file__}:"), "where the callable is, and not the class that wraps it"


def test_list_names_what_is_switched_off(shouting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    off = "  shouts                     my-shouts 3.1  (my_shouts:plugin), switched off\n"
    code, output = run("--no-plugins", "list")
    assert code == 0
    assert off in output
    assert "hub:NAME" not in output
    assert "hub:NAME" in run("list")[1], "the option is for one call"
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "my-shouts")
    plugins.forget()
    assert off in run("list")[1]


def test_list_without_a_backend_shows_the_status_keys_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    of_backends = {offer.plugin.name for offer in list_infos(BackendInfo)}
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", ",".join(of_backends))
    plugins.forget()
    try:
        code, output = run("list")
    finally:
        plugins.forget()
    assert code == 0
    assert "Backends\n\nStatus keys\n" in output
    assert "  macs                       Multiply-accumulates of matrix products" in output


def test_a_renderer_and_a_loader_of_another_package(shouting: None) -> None:
    code, output = run("profile", "hub:any", "--input-shape", "3", "--metric", "macs", "--format", "shout")
    assert (code, output) == (0, "Linear shouts 6\n")


def test_without_plugins_it_is_neither_known_nor_used(shouting: None) -> None:
    code, output = run("--no-plugins", "profile", "hub:any", "--input-shape", "3", "--format", "shout")
    assert code == 2
    assert "no renderer 'shout'; installed, nearest first: " in " ".join(output.split())
    assert "(plugins switched off: shouts" in " ".join(output.split())
    for metric, expected in (("shout", 2), ("macs", 3)):  # no such metric; no backend takes the model
        with pytest.raises(SystemExit) as caught:
            main(["--no-plugins", "profile", "json:JSONDecoder", "--format", "json", "--metric", metric])
        assert caught.value.code == expected


def test_what_plugins_do_wrong_is_said_in_a_line(shouting: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the hub has no model 'none'" in run("profile", "hub:none")[1]
    assert run("profile", "hub:none")[0] == 2
    with pytest.raises(SystemExit) as caught:
        main(["profile", "hub:any", "--format", "shout", "--metric", "shout"])
    assert caught.value.code == 3
    assert "renderer 'shout' of plugin 'shouts' of my-shouts 3.1 raised KeyError: 'macs'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_warning_of_a_plugin_is_said_in_a_line(model_file: str, tmp_path: Path) -> None:
    """A process of its own, with an installed package whose plugin cannot be imported and storage that fails."""
    metadata_folder = tmp_path / "bad_plugin-1.0.dist-info"
    metadata_folder.mkdir()
    (metadata_folder / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-plugin\nVersion: 1.0\n")
    (metadata_folder / "entry_points.txt").write_text("[profilerkit]\nbad = no_such_module\nstore = bad_store\n")
    store = "import profilerkit\n@profilerkit.hookimpl\ndef profilerkit_report_created(report): raise OSError('full')\n"
    (tmp_path / "bad_store.py").write_text(store)
    script = str(Path(sys.executable).parent / "profilerkit")
    command = ["profile", f"{model_file}:build", "--input-shape", "4", "--metric", "macs"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run_program([script, *command], env=environment)
    assert "MACs" in done.stdout, "the result is not lost"
    assert done.stderr.splitlines() == [
        "Warning: plugin 'bad' of bad-plugin 1.0 cannot be loaded (ModuleNotFoundError: No module named "
        "'no_such_module') and is left out; update or uninstall that package; to do without it, set "
        "PROFILERKIT_DISABLE_PLUGINS=bad, or run profilerkit --no-plugins",
        "Warning: hook profilerkit_report_created of plugin 'store' of bad-plugin 1.0 raised OSError: full; "
        "profilerkit goes on without it; to do without it, set PROFILERKIT_DISABLE_PLUGINS=store, or run profilerkit "
        "--no-plugins",
    ]
    alone = [script, "--no-plugins", *command]
    assert run_program(alone, env=environment).stderr == ""
    environment["PROFILERKIT_DISABLE_PLUGINS"] = "bad-plugin"
    off = run_program([script, *command], env=environment)
    assert off.stderr == ""


def test_a_conflict_of_plugins_is_said_in_a_line(
    shouting: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = types.SimpleNamespace(profilerkit_renderers=hookimpl(lambda: [RendererInfo("shout", load_renderer)]))
    manager().register(twin, name="twin")
    for arguments in (["list"], ["profile", "hub:any", "--format", "shout"]):
        with pytest.raises(RegistrationConflictError):
            run(*arguments)
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 3
        message = (
            "two plugins offer renderer 'shout': 'shouts' of my-shouts 3.1 and 'twin' of no package (registered by"
        )
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("isolated", slow_ones([(), ("--isolate",)], [("--isolate",)]))
def test_plugins_see_the_names_that_were_typed(isolated: tuple[str, ...], shouting: None, model_file: str) -> None:
    created: list[list[str]] = []

    def note(report: Report | Comparison) -> None:
        created.append([one.name for one in getattr(report, "reports", [report])])

    manager().register(types.SimpleNamespace(profilerkit_report_created=hookimpl(note)), name="store")
    options = ("--input-shape", "4", "--metric", "params", *isolated)
    spec = f"{model_file}:build"
    assert run("profile", spec, "--name", "one", *options)[0] == 0
    assert run("compare", spec, spec, "--name", "old", "--name", "new", *options)[0] == 0
    assert created == [["one"], ["old", "new"]]


def test_formats_are_completed_from_the_hook(shouting: None) -> None:
    from click.shell_completion import ShellComplete

    completed = ShellComplete(cli, {}, "profilerkit", "_PROFILERKIT_COMPLETE")
    found = completed.get_completions(["profile", "x:y", "--format"], "")
    assert {"table", "json", "markdown", "shout"} <= {difference.value for difference in found}
    assert [
        get_completion.value for get_completion in completed.get_completions(["profile", "x:y", "--format"], "sh")
    ] == ["shout"]
    metrics = [
        get_completion.value for get_completion in completed.get_completions(["profile", "x:y", "--metric"], "total")
    ]
    assert metrics == ["total_params"]


@pytest.mark.parametrize("name", ["build", "ready"])
def test_profile_a_file(model_file: str, name: str) -> None:
    code, output = run(
        "profile", f"{model_file}:{name}", "--input-shape", "4", "--batch-size", "2", "--max-seconds", "0.1"
    )
    assert code == 0, output
    assert "96" in output, "2 * (4 * 8 + 8 * 2) MACs"
    assert "batch of 2" in output


def test_times_are_measured_on_as_many_threads_as_requested(model_file: str) -> None:
    options = ("--input-shape", "4", "--max-seconds", "0.1", "--num-threads", "1")
    code, output = run("profile", f"{model_file}:build", *options)
    assert code == 0, output
    assert "on 1 thread" in output
    code, output = run("compare", f"{model_file}:build", f"{model_file}:build", *options)
    assert code == 0, output
    assert "on 1 thread" in output
    code, output = run("profile", f"{model_file}:build", *options, "--static")
    assert code == 0, output


def test_profile_as_json_and_with_named_inputs(model_file: str) -> None:
    arguments = ["--input-shape", "ids=5:int64", "--metric", "macs", "--metric", "total_params", "--format", "json"]
    code, output = run("profile", f"{model_file}:Words", *arguments, "--batch-size", "3")
    assert code == 0, output
    data = json.loads(output)
    assert {status["key"]: status["value"] for status in data["statuses"]} == {"total_params": 30, "macs": 0}
    assert data["batch_size"] == 3


def test_a_sample_can_be_one_number(model_file: str) -> None:
    arguments = ["--input-shape", "ids=():int64", "--batch-size", "5", "--metric", "macs", "--layers"]
    code, output = run("profile", f"{model_file}:Words", *arguments)
    assert code == 0, output
    assert "Input: ids=Tensor(5,), int64" in output
    assert "[5, 3]" in output


@pytest.mark.parametrize("form", [(), ("--isolate",)], ids=["here", "isolated"])
@pytest.mark.parametrize(("shape", "dtype"), [("4", "float16"), ("4:float16", "float16")])
def test_a_converted_model_takes_inputs_in_its_own_dtype(
    model_file: str, shape: str, dtype: str, form: tuple[str, ...]
) -> None:
    """Half precision meets float32 only in an error of torch, or in a count on shapes that no run confirms."""
    arguments = ["--input-shape", shape, "--metric", "macs_by_dtype", "--format", "json", *form]
    code, output = run("profile", f"{model_file}:half", *arguments)
    assert code == 0, output
    assert json.loads(output)["statuses"][0]["value"] == {dtype: 4 * 8 + 8 * 2}


def test_a_dtype_that_is_typed_is_kept_for_a_converted_model(model_file: str) -> None:
    _, output = run("profile", f"{model_file}:half", "--input-shape", "4:float32", "--metric", "macs")
    assert "Input: Tensor(1, 4), float32" in output


def test_an_error_of_python_in_a_models_file_is_the_models(model_file: str) -> None:
    """The file's module is named below one of ours, and is not ours."""
    code, output = run("profile", f"{model_file}:Unpacks", "--input-shape", "4", "--metric", "macs")
    assert code == 3
    text = " ".join(output.split())
    assert "the model raised ValueError: not enough values to unpack (expected 3, got 2)" in text
    assert "fault of the backend" not in text


def test_layers(model_file: str) -> None:
    code, output = run("profile", f"{model_file}:build", "--input-shape", "4", "--metric", "macs", "--layers")
    assert code == 0
    assert "Layers" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "does not say where the model is; give package.module:name, path/to/file.py:name"),
        (["no/such"], "there is no file 'no/such'; give package.module:name, "),
        (["/"], "the folder '/' holds no model that can be loaded; give package.module:name, "),
        (["/dev/null"], "the file '/dev/null' is no model that can be loaded; give package.module:name, "),
        (["any.json"], "'any.json' is no model; if it is a saved report, 'profilerkit show' prints it"),
        (["no_such_package:model"], "cannot import 'no_such_package'"),
        (["missing.py:model"], "there is no file 'missing.py'"),
        (["FILE:reedy"], "has no 'reedy'; it has, nearest first: ready, "),
        (["missing.py"], "there is no file 'missing.py'; give missing.py:name of a model or of what builds one"),
        (["FILE"], "is a file, and no model in it; give "),
        (["FILE:"], "my_models.py:name of a model or of what builds one; its classes and functions are: "),
        (["FILE:build", "--input-shape", "1,x"], "'1,x' is no shape; give 3,224,224"),
        (
            ["FILE:build", "--input-shape", "9999999999,3"],
            "'9999999999,3' is no shape; a size is at most 2,147,483,647",
        ),
        (["FILE:build", "--input-shape", "3x32x32"], "'3x32x32' is no shape; give 3,32,32 (of one sample)"),
        (["FILE:build", "--input-shape", "[3, 32, 32]"], "is no shape; give 3,32,32 (of one sample)"),
        (
            ["FILE:build", "--input-shape", "(1, 3, 32, 32)"],
            "is no shape; give 1,3,32,32 (of one sample), or 3,32,32 if the first is the batch",
        ),
        (["FILE:build", "--input-shape", "(0, 4)"], "'(0, 4)' is no shape; give 3,224,224"),
        (["FILE:build", "--input-shape", "0,4"], "'0,4' is no shape; give 3,224,224"),
        (["FILE:build", "--input-shape", "1,-4"], "'1,-4' is no shape; give 3,224,224"),
        (["FILE:build", "--max-seconds", "0"], "0.0 is not in the range x>0"),
        (["FILE:build", "--max-seconds", "nan"], "nan: give a number above zero, such as 1.5"),
        (["FILE:build", "--max-seconds", "inf"], "inf: give a number above zero, such as 1.5"),
        (["FILE:build", "--num-threads", "0"], "0 is not in the range x>=1"),
        (["FILE:build", "--depth", "99999999999"], "99999999999: give at most 2,147,483,647"),
        (["FILE:build", "--batch-size", "1,99999999999"], "99999999999: give at most 2,147,483,647"),
        (["FILE:build", "--input-shpae", "1,4"], "Did you mean "),
        (["FILE:build", "--input-shape", "a=4", "--input-shape", "4"], "name all inputs or none of them"),
        (["FILE:build", "--input-shape", "a=4", "--input-shape", "a=8"], "the input 'a' is given twice; give it once"),
        (["FILE:build", "--input-shape", "a=4,b=4"], "'a=4,b=4' has several names; give each input as a text of its"),
        (["FILE:build", "--batch-size", "0"], "--batch-size': 0: give a whole number from 1"),
        (["FILE:build", "--batch-size", "1x"], "'1x': give a whole number from 1, or several: 1,8,32"),
        (["FILE:build", "--format", "jsn"], "no renderer 'jsn'; installed, nearest first: json, "),
    ],
)
def test_usage_errors(arguments: list[str], message: str, model_file: str) -> None:
    code, output = run("profile", *(argument.replace("FILE", model_file) for argument in arguments))
    assert code == 2
    assert message in " ".join(output.replace("│", " ").split())


def test_a_file_that_is_no_python_is_said_to_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("def build(:\n")
    code, output = run("profile", "broken.py")
    assert code == 2
    message = "'broken.py' is a file that cannot be read as Python; mend it, and give broken.py:name of a model"
    assert message in " ".join(output.replace("│", " ").split())


def test_exit_codes(model_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = run(
        "profile", f"{model_file}:Strange", "--input-shape", "3", "--batch-size", "3", "--metric", "macs", "--strict"
    )
    assert code == 1
    assert "is partial" in output
    needing_a_run = ("macs", "flops", "memory_footprint", "execution_time", "throughput")
    computed = [word for key in needing_a_run for word in ("--metric", key)]
    for arguments, message in [
        (["build", "--input-shape", "4", "--device", "warp", "--strict"], "torch knows no device 'warp'"),
        (["build", "--input-shape", "4", "--device", "warp"], "Error: torch knows no device 'warp'"),
        (
            ["build", "--input-shape", "5", *computed],
            "macs, flops, memory_footprint, execution_time, throughput of Sequential fa",
        ),
        (["build", *computed], "macs, flops, memory_footprint, execution_time, throughput of Sequential failed"),
        (["Broken"], "my_models.py:Broken raised RuntimeError: not today"),
    ]:
        with pytest.raises(SystemExit) as caught:
            main(["profile", f"{model_file}:{arguments[0]}", *arguments[1:]])
        assert caught.value.code == 3
        assert message in capsys.readouterr().err
    code, output = run("profile", f"{model_file}:build", "--metric", "total_params")
    assert (code, "58" in output) == (0, True), "parameters need no inputs"


def test_a_file_that_cannot_be_imported_is_said_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken_file.py").write_text("raise ValueError('half written')", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["profile", f"{tmp_path}/broken_file.py:model"])
    assert caught.value.code == 3
    assert "broken_file.py raised ValueError: half written" in capsys.readouterr().err


def test_a_module_on_the_path(model_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(model_file).parent)
    monkeypatch.syspath_prepend(str(Path(model_file).parent))
    code, output = run("profile", "my_models:build", "--input-shape", "4", "--metric", "macs")
    assert code == 0, output


@pytest.mark.slow
def test_the_installed_script_prints_the_table_alone(model_file: str) -> None:
    script = Path(sys.executable).parent / "profilerkit"
    command = [str(script), "profile", f"{model_file}:build", "--input-shape", "4", "--metric", "macs"]
    done = run_program(command)
    assert done.stdout.startswith("Sequential  (torch)")
    assert done.stderr == "", "no progress bar in a pipe"
    version = run_program([str(script), "--version"])
    assert version.stdout.startswith("profilerkit, version 0.")


def test_a_key_can_be_left_out(model_file: str) -> None:
    command = ["profile", f"{model_file}:build", "--input-shape", "4"]
    code, output = run(*command, "--leave-out", "throughput", "--leave-out", "execution_time")
    assert code == 0, output
    assert "MACs" in output
    assert "Execution Time" not in output
    code, output = run(*command, "--leave-out", "throughputs")
    assert code == 2
    assert "nearest first: throughput" in output


@pytest.mark.parametrize(
    ("arguments", "begun", "offered"),
    [
        (["profile", "--metric"], "trainable", ["trainable_params"]),
        (["profile", "--metric"], "lat", ["latency"]),
        (["profile", "--metric"], "macs,trainable", ["macs,trainable_params"]),
        (["profile", "--metric"], "trac", []),
        (["profile", "--on"], "h100-s", ["h100-sxm"]),
    ],
)
def test_names_are_completed_also_after_a_comma(arguments: list[str], begun: str, offered: list[str]) -> None:
    from click.shell_completion import ShellComplete

    items = ShellComplete(cli, {}, "profilerkit", "_PROFILERKIT_COMPLETE").get_completions(arguments, begun)
    assert [item.value for item in items if item.type == "plain"] == offered
