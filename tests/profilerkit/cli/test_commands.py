"""Comparing, showing, diffing, checking and asking the doctor, in process."""

from __future__ import annotations

import json
import os
import re
from copy import copy
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest
from click.testing import CliRunner, Result

from profilerkit import ProfilerKitError, load
from profilerkit.cli import cli, main
from profilerkit.hooks.commands import load_command
from profilerkit.render import render

pytest.importorskip("torch", reason="torch is not installed")

MODELS = """
import torch

def stack(width):
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))

def teacher():
    return stack(8)

def student():
    return stack(2)

class Fails(torch.nn.Module):
    def forward(self, x):
        raise KeyError("half-way")
"""
STATIC = ("--input-shape", "4", "--metric", "macs", "--metric", "total_params")
#: By hand: 4 x 8 + 8 x 2 and 4 x 2 + 2 x 2 multiply-accumulates.
TEACHER, STUDENT = 48, 12


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "models_of_mine.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "models_of_mine.py"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def fine(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def save(models: str, name: str) -> str:
    fine("profile", f"{models}:{name}", *STATIC, "--output", f"{name}.json", "--quiet")
    return f"{name}.json"


def test_the_tree_shows_how_layers_are_made(models: str) -> None:
    tree = ("profile", f"{models}:teacher", *STATIC, "--format", "tree")
    assert "bias=True" not in fine(*tree)
    lines = fine(*tree, "--configuration").splitlines()
    assert any("0: Linear(in_features=4, out_features=8, bias=True)" in line for line in lines)
    report = save(models, "teacher")
    assert "2: Linear(in_features=8, out_features=2, bias=True)" in fine(
        "show", report, "--format", "tree", "--configuration"
    )


@pytest.mark.parametrize("command", ["profile", "show"])
def test_a_format_without_configurations_is_refused_before_anything_is_loaded(command: str, tmp_path: Path) -> None:
    result = run(command, str(tmp_path / "not_there.json"), "--configuration")
    assert result.exit_code == 2
    assert "format 'summary' does not show how layers are made; add --format tree" in " ".join(result.stderr.split())


def test_models_side_by_side(models: str) -> None:
    output = fine("compare", f"{models}:teacher", f"{models}:student", *STATIC)
    assert re.search(r"MACs\s+48 MACs\s+12 MACs\s+4x less, better", output)


def test_a_saved_report_beside_a_model(models: str) -> None:
    saved = save(models, "teacher")
    output = fine("compare", saved, f"{models}:student", *STATIC, "--format", "json")
    reports = json.loads(output)["reports"]
    values = [{one["key"]: one["value"] for one in report["statuses"]}["macs"] for report in reports]
    assert values == [TEACHER, STUDENT]


def test_files_are_written_in_the_form_of_their_suffix(models: str) -> None:
    outputs = [part for name in ("r.json", "r.md", "r.tex", "r.csv", "r.txt") for part in ("--output", name)]
    shown = fine("profile", f"{models}:teacher", *STATIC, *outputs)
    assert "48 MACs" in shown or "48" in shown
    assert load("r.json")["macs"] == TEACHER
    assert Path("r.md").read_text().startswith("### Sequential")
    assert "\\toprule" in Path("r.tex").read_text()
    assert Path("r.csv").read_text().startswith("model,backend,metric")
    assert "Elements of the distinct parameters" in Path("r.txt").read_text(), "files have the details"
    assert fine("profile", f"{models}:teacher", *STATIC, "--quiet", "--output", "again.json") == ""


def test_a_depth_of_nothing_holds_for_files_too(models: str) -> None:
    """``--depth 0`` is the model alone, and not the same as no depth."""
    fine("profile", f"{models}:teacher", *STATIC, "--depth", "0", "--output", "top.md", "--output", "top.txt")
    fine("profile", f"{models}:teacher", *STATIC, "--output", "all.md", "--output", "all.txt")
    for suffix in ("md", "txt"):
        top, whole = (Path(f"{name}.{suffix}").read_text() for name in ("top", "all"))
        assert "Linear" in whole
        assert "Linear" not in top


OUTPUTS = {
    "nowhere/r.json": "there is no folder 'nowhere' to write 'r.json' to",
    "r.docx": "'r.docx': the suffix names no format; use one of these, nearest first: .",
    ".": "is a folder; name a file in it",
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_where_nothing_can_be_written_is_said_before_anything_runs(name: str, models: str) -> None:
    result = run("profile", f"{models}:Fails", *STATIC, "--output", name)
    assert result.exit_code == 2
    assert OUTPUTS[name] in " ".join(result.stderr.split())


def test_a_folder_that_is_read_only_is_said_before_anything_runs(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    for options in (["profile", "--output", "r.json"], ["check", "--limit", "macs <= 1", "--output", "r.xml"]):
        result = run(*options, f"{models}:Fails", "--input-shape", "4")
        assert result.exit_code == 2
        assert "the folder '.' is read-only; write 'r." in " ".join(result.stderr.split())


def test_a_file_that_cannot_be_written_after_all_does_not_cost_the_result(
    models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run("profile", f"{models}:teacher", *STATIC, "--output", "r.json")
    assert result.exit_code == 2
    assert "MACs" in result.stdout
    assert result.stderr == "Error: cannot write r.json: No space left on device\n"
    both = run("profile", f"{models}:teacher", *STATIC, "--output", "r.json", "--output", "r.md").stderr
    reason = "No space left on device"
    assert both == f"Error: cannot write r.json: {reason}; cannot write r.md: {reason}\n"
    result = run("check", f"{models}:teacher", *STATIC, "--limit", "macs <= 1", "--output", "r.xml")
    assert (result.exit_code, result.stderr) == (2, "Error: cannot write r.xml: No space left on device\n")


def test_a_renderer_that_fails_on_a_file_does_not_cost_the_result(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_on_markdown(result: object, form: str, **options: object) -> str:
        if form == "markdown":
            raise KeyError("macs")
        return render(result, form, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("profilerkit.render.render", fail_on_markdown)
    result = run("profile", f"{models}:teacher", *STATIC, "--output", "r.md", "--output", "r.csv")
    assert result.exit_code == 3
    assert "MACs" in result.stdout
    assert Path("r.csv").exists()
    assert result.stderr == "Error: renderer 'markdown' raised KeyError: 'macs'\n"


@pytest.mark.parametrize("where", [["--output", "r.md"], ["--format", "markdown"]])
def test_a_file_that_a_renderer_misses_is_none_that_cannot_be_written(
    where: list[str], models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def miss_template(result: object, form: str, **options: object) -> str:
        if form == "markdown":
            Path("template.md").read_text()
        return render(result, form, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("profilerkit.render.render", miss_template)
    result = run("profile", f"{models}:teacher", *STATIC, *where)
    assert result.exit_code == 3
    assert result.stderr == (
        "Error: renderer 'markdown' raised FileNotFoundError: [Errno 2] No such file or directory: 'template.md'\n"
    )


def test_a_metric_that_there_is_not_is_a_usage_error(models: str) -> None:
    result = run("profile", f"{models}:teacher", "--input-shape", "4", "--metric", "mac")
    assert result.exit_code == 2
    assert "unknown metric 'mac'; this profiler knows, nearest first: macs" in result.stderr


def test_a_name_like_another_name_of_a_metric_names_that(models: str) -> None:
    """ "latency" is another name of execution_time, "params" of total_params."""
    for typed, meant in {"latncy": "latency", "param": "params"}.items():
        result = run("profile", f"{models}:teacher", "--input-shape", "4", "--metric", typed)
        assert f"unknown metric {typed!r}; this profiler knows, nearest first: {meant}, " in result.stderr


def test_show_of_a_model_names_the_command_that_profiles_it(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\x08\x0a")
    result = run("show", str(tmp_path / "net.onnx"))
    assert result.exit_code == 2
    assert "net.onnx is a model, and not a saved report; profile it: profilerkit profile " in result.stderr
    assert "cannot read absent.onnx: No such file" in run("show", "absent.onnx").stderr


def test_a_command_that_there_is_not_names_those_that_there_are() -> None:
    result = run("profil", "x")
    assert result.exit_code == 2
    assert "No such command 'profil'; there are, nearest first: profile, " in result.stderr


def test_a_table_of_many_models_goes_on_below_itself(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    items = [f"{models}:{name}" for name in ("teacher", "student", "teacher", "student")]
    output = fine("compare", *items, *STATIC)
    assert max(map(len, output.splitlines())) <= 80
    assert output.count("Comparison, continued") == 1
    assert output.count("\n MACs ") == 2, "which metric a row is of stands in both halves"
    cells = [cell for line in output.splitlines() if line.startswith(" MACs") for cell in re.split(" {2,}", line)[1:]]
    assert cells == ["48 MACs", "12 MACs", "48 MACs", "12 MACs", "4x less, better", "the same", "4x less, better"]


def test_long_names_are_folded_and_numbers_are_not(models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "Very" * 25
    Path("long.py").write_text(f"import torch\n{name} = type('{name}', (torch.nn.Linear,), {{}})(300, 200)\n")
    output = fine("compare", *[f"long.py:{name}"] * 2, "--input-shape", "300", "--metric", "macs", "--layers")
    assert max(map(len, output.splitlines())) <= 80
    assert re.search(r"MACs +60 kMACs +60 kMACs +the same", output)
    assert output.count("60.2 k") == 2, "parameters of the layer in both models"


def test_a_saved_report_is_shown_in_any_form(models: str) -> None:
    saved = save(models, "teacher")
    assert "└── 2: Linear" in fine("show", saved, "--format", "tree")
    assert re.search(r"MACs\s+48\s+MACs", fine("show", saved, "--layers"))
    assert "Layers with the most MACs" in fine("show", saved, "--top", "1")
    assert json.loads(fine("show", saved, "--format", "json")) == json.loads(Path(saved).read_text())


def test_a_file_that_is_no_report_is_a_usage_error(models: str) -> None:
    Path("broken.json").write_text('{"format": ', encoding="utf-8")
    for arguments in (("show", "broken.json"), ("diff", "broken.json", "broken.json"), ("show", "absent.json")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
    assert "broken.json is not a report of profilerkit: Input data was truncated" in " ".join(
        run("show", "broken.json").stderr.split()
    )
    both = fine("compare", f"{models}:teacher", f"{models}:student", *STATIC, "--format", "json")
    Path("both.json").write_text(both, encoding="utf-8")
    assert "holds a comparison; give the report of one model" in run("compare", "both.json", "both.json").stderr
    assert "holds a comparison; give the" in run("check", "both.json", "--limit", "macs <= 1").stderr


def test_what_changed_between_two_reports(models: str) -> None:
    old, new = save(models, "teacher"), save(models, "student")
    output = fine("diff", old, new)
    assert "Layers that differ between teacher and student" in output, "their files tell them apart"
    assert re.search(r"0\s+Linear\s+40\s+10\s+32\s+8\s+changed", output)
    assert re.search(r"1\s+ReLU\s+-\s+-\s+-\s+-\s+FLOPs 8", output)
    assert "No layers differ between teacher (1) and teacher (2)" in fine("diff", old, old)
    assert "ReLU" not in fine("diff", old, old)
    assert "ReLU" in fine("diff", old, old, "--layers")
    assert not re.search(r"changed|added|removed", fine("diff", old, old))


def test_metrics_that_are_asked_for_come_on_top_of_those_that_have_limits(models: str) -> None:
    command = ("check", f"{models}:teacher", "--input-shape", "4", "--limit", "macs <= 48")
    assert "ok         macs <= 48" in fine(*command, "--metric", "total_params")


def test_a_budget_that_is_kept_and_one_that_is_not(models: str) -> None:
    Path("budget.toml").write_text('macs = "<= 48"\n[layers."*"]\nparams = "<= 40"\n', encoding="utf-8")
    checked = ("check", f"{models}:teacher", "--input-shape", "4")
    assert fine(*checked, "--budget", "budget.toml").splitlines()[-1] == "4 limits: 4 passed"
    result = run(*checked, "--limit", "macs <= 40", "--limit", "total_params <= 1 k")
    assert result.exit_code == 1
    assert "FAILED     macs <= 40" in result.stdout
    assert "0 (Linear): 32 MACs, 66.67 %" in result.stdout
    quiet = run(*checked, "--limit", "macs <= 40", "--quiet")
    assert (quiet.exit_code, quiet.output) == (1, "")


def test_a_budget_for_a_ci_server(models: str) -> None:
    command = ("check", f"{models}:teacher", "--input-shape", "4", "--limit", "macs <= 40")
    result = run(*command, "--format", "junit", "--output", "junit.xml")
    assert (result.exit_code, result.output) == (1, "")
    (suite,) = ET.fromstring(Path("junit.xml").read_text(encoding="utf-8"))
    assert suite.get("failures") == "1"
    assert "| FAILED |" in run(*command, "--format", "markdown").stdout


def test_outputs_are_checked_beside_the_metrics(models: str) -> None:
    fine("compare", f"{models}:teacher", f"{models}:teacher", *STATIC, "--check-outputs", "--output", "both.json")
    comparison = load("both.json")
    assert list(comparison) == ["total_params", "macs", "output_difference", "relative_output_difference"]
    result = run("compare", f"{models}:teacher", f"{models}:student", *STATIC, "--check-outputs", "--isolate")
    assert result.exit_code == 2
    assert "--check-outputs runs the models in one process; leave out the options of isolation" in result.stderr


@pytest.mark.parametrize("command", ["compare", "diff"])
def test_metrics_that_were_not_requested_of_a_model_are_left_out_of_a_saved_report(command: str, models: str) -> None:
    """Else each of them has a row that says "not measured"."""
    saved = "all.json"
    fine("profile", f"{models}:teacher", "--input-shape", "4", "--static", "--output", saved, "--quiet")
    assert "Model Size" in run("show", saved).stdout
    result = run(command, saved, f"{models}:student", "--input-shape", "4", "--metric", "macs,params")
    assert result.exit_code == 0, result.output
    assert "not measured" not in result.stdout
    assert [word in result.stdout for word in ("Total Parameters", "MACs", "Model Size")] == [True, True, False]
    wrong = run(command, saved, saved, "--metric", "throughput")
    assert wrong.exit_code == 2
    assert "unknown metric 'throughput'; these reports know, nearest first: " in " ".join(wrong.stderr.split())


def test_a_budget_beside_a_baseline(models: str) -> None:
    saved = save(models, "teacher")
    assert run("check", f"{models}:student", *STATIC, "--baseline", saved, "--limit", "macs <= 0.25x").exit_code == 0
    result = run("check", saved, "--baseline", save(models, "student"), "--limit", "macs <= 1x")
    assert result.exit_code == 1
    assert "4x (48 MACs after 12 MACs)" in result.stdout
    timed = ("check", f"{models}:teacher", "--baseline", f"{models}:teacher", "--input-shape", "4")
    result = run(*timed, "--limit", "execution_time <= 50x", "--max-seconds", "0.2")
    assert result.exit_code == 0, result.output
    assert "not measured in turn" not in result.stdout


def test_a_baseline_is_recorded_and_compared_with(models: str) -> None:
    command = (
        "check",
        f"{models}:teacher",
        "--input-shape",
        "4",
        "--limit",
        "macs <= 1.1x",
        "--baseline",
        "new/b.json",
    )
    result = run(*command)
    assert (result.exit_code, "there is no baseline new/b.json; record one with --update" in result.stderr) == (2, True)
    assert fine(*command, "--update").startswith("recorded new/b.json for ")
    assert json.loads(Path("new/b.json").read_text(encoding="utf-8"))["environment"]["python"]
    assert "1x (48 MACs after 48 MACs)" in fine(*command)
    assert fine(*command, "--update", "--quiet") == ""
    Path("file").write_text("", encoding="utf-8")
    assert "cannot write" in run(*command[:-1], "file/b.json", "--update").stderr


def test_a_model_that_fails_leaves_the_baseline_as_it_was(models: str) -> None:
    """By hand: 4 x 8 + 8 x 2 = 48; the teacher cannot take inputs of 5."""
    command = ("check", f"{models}:teacher", "--metric", "macs", "--baseline", "b.json", "--update")
    assert "macs 48" in fine(*command, "--input-shape", "4")
    recorded = Path("b.json").read_bytes()
    result = run(*command, "--input-shape", "5")
    assert (result.exit_code, result.stdout, Path("b.json").read_bytes()) == (3, "", recorded)
    assert "nothing is recorded: macs of" in result.stderr


def test_a_baseline_of_other_inputs_or_options_is_refused(models: str) -> None:
    command = ("check", f"{models}:teacher", "--baseline", "b.json", "--limit", "training_memory <= 1x")
    fine(*command, "--input-shape", "4", "--update")
    told = fine(*command, "--input-shape", "4")
    assert "1x (" in told and "without an optimizer's state" in told
    for option, message in {
        "--input-shape=2,4": "ModelInputs(Tensor(1, 4)) in the baseline, now ModelInputs(Tensor(1, 2, 4))",
        "--input-shape=4:float16": "float32 in the baseline, now float16",
        "--optimizer=adam": "optimizer: not given in the baseline, now adam",
        "--batch-size=2": "now ModelInputs(Tensor(2, 4))",
    }.items():
        shape = () if option.startswith("--input-shape") else ("--input-shape", "4")
        result = run(*command, *shape, option)
        assert (result.exit_code, message in " ".join(result.stderr.split())) == (2, True), result.output
    fine(*command, "--input-shape", "4", "--update", "--optimizer", "adam")
    told = fine(*command, "--input-shape", "4", "--optimizer", "adam")
    assert "without an optimizer's state" not in told
    wrong = run(*command, "--input-shape", "4", "--optimizer", "adm")
    assert (wrong.exit_code, "Invalid value for '--optimizer': 'adm'" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("isolated", [(), pytest.param(("--isolate",), marks=pytest.mark.slow)])
def test_the_optimizer_of_the_command_line_is_counted(models: str, isolated: tuple[str, ...]) -> None:
    """By hand: 4 x 8 + 8 + 8 x 2 + 2 = 58 weights of 4 bytes, of which adam keeps two further copies."""
    command = ("profile", f"{models}:teacher", "--input-shape", "4", "--metric", "training_memory_parts", *isolated)
    for name, copies in (("adam", 2), ("sgd", 0)):
        content = json.loads(fine(*command, "--format", "json", "--optimizer", name))
        (parts,) = [record["value"] for record in content["statuses"]]
        assert parts["optimizer_state"] == copies * 58 * 4


def test_a_time_is_measured_again(models: str) -> None:
    command = ("check", f"{models}:teacher", "--input-shape", "4", "--max-seconds", "0.1", "--retries", "1")
    result = run(*command, "--limit", "execution_time <= 1 ns")
    assert (result.exit_code, "in measurement 2 of at most 2" in result.stdout) == (1, True)
    assert "measurement" not in run(*command, "--limit", "macs <= 1").stdout, "a count is the same again"


USAGE = {
    "update without a file": (["--update"], "--update records the baseline in a file: give it as --baseline"),
    "update of a model": (["--update", "--baseline", "net.py:build"], "--update records the baseline in a file"),
    "no budget": ([], "give a budget: --budget budget.toml, or --limit 'macs <= 5 G'"),
    "no limit": (["--limit", "macs"], "macs = '' is no limit"),
    "no file": (["--budget", "absent.toml"], "cannot read the budget absent.toml"),
    "no baseline": (["--limit", "macs <= 1x"], "macs <= 1x is relative: give --baseline, a saved report or a model"),
    "no form": (["--limit", "macs <= 1", "--format", "xml"], "'xml': there are console, markdown, junit"),
}


@pytest.mark.parametrize("name", USAGE)
def test_a_budget_that_cannot_be_read_is_a_usage_error(name: str, models: str) -> None:
    arguments, expected = USAGE[name]
    result = run("check", f"{models}:teacher", *arguments)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


UNCHECKABLE = {
    "unit": ("Fails", "macs <= 4 MiB", "the unit of macs is MACs"),
    "unit of a metric by another name": ("Fails", "latency <= 4 MiB", "the unit of latency is s"),
    "unit, without spaces": ("Fails", "macs<=4MiB", "the unit of macs is MACs"),
    "metric": ("Fails", "mcs <= 4", "unknown metric 'mcs'; this profiler knows, nearest first: macs, "),
    "no unit": ("teacher", "total_params <= 4 MiB", "total_params is a number without a unit"),
}


@pytest.mark.parametrize("name", UNCHECKABLE)
def test_a_limit_that_cannot_be_checked_is_a_usage_error_before_the_model_runs(name: str, models: str) -> None:
    model, limit, expected = UNCHECKABLE[name]
    result = run("check", f"{models}:{model}", "--input-shape", "4", "--limit", limit)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_a_budget_with_the_line_ends_of_windows(models: str) -> None:
    Path("budget.toml").write_bytes(b'macs = "<= 40"\r\n[layers."*"]\r\nparams = "<= 40"\r\n')
    result = run("check", f"{models}:teacher", "--input-shape", "4", "--budget", "budget.toml")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "4 limits: 3 passed, 1 failed")


def test_a_budget_calls_the_model_by_its_own_name(models: str) -> None:
    result = run("check", f"{models}:student", *STATIC, "--baseline", f"{models}:teacher", "--limit", "macs <= 1x")
    assert result.stdout.startswith("Budget of Sequential\n"), "and not Sequential (2)"


def test_where_an_error_came_from_is_said_on_request(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, shown in (([], False), (["--traceback"], True)):
        with pytest.raises(SystemExit) as caught:
            main([*flags, "profile", f"{models}:Fails", *STATIC])
        assert caught.value.code == 3
        assert ("Traceback" in capsys.readouterr().err) is shown


@pytest.mark.parametrize(
    ("error", "has_place"),
    [
        (MemoryError(), True),
        (KeyError("x"), True),
        (OSError(30, "Read-only file system", "zoo.db"), True),
        (ProfilerKitError("odd"), True),
        (click.UsageError("type something else"), False),
    ],
)
def test_where_any_error_of_a_command_came_from_is_said_on_request(
    error: Exception, has_place: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raise_error(**options: object) -> None:
        raise copy(error)  # an error keeps the places where it was raised before

    monkeypatch.setattr(load_command("list"), "callback", raise_error)
    for flags, is_traced in (([], False), (["--traceback"], has_place)):
        with pytest.raises(SystemExit):
            main([*flags, "list"])
        said = capsys.readouterr().err
        assert said.count("in raise_error") == is_traced
        assert "Error: " in said


@pytest.mark.heavy
def test_the_doctor_says_what_can_be_done_here() -> None:
    output = fine("doctor")
    assert re.search(r"torch\s+\d+\.\d+", output)
    offered, _, missing = output.partition("torch ")[2].partition("does not offer:")
    assert "times of single layers" in offered and "training counts and memory" in offered
    assert "the optimizer that a model is compiled with" in " ".join(missing.split())
    assert output.count("tensorflow ") <= 2, "a framework's version is said once, with its backend"
    assert re.search(r"cores\s+\d+", output)


def test_several_batch_sizes_are_read() -> None:
    from profilerkit.cli.profile_command import command

    read = {option.name: option for option in command.params}["batch_size"]
    with command.make_context("profile", ["x:y", "--batch-size", "1,8,32"], **cli.context_settings) as context:
        assert context.params["batch_size"] == (1, 8, 32)
    with command.make_context("profile", ["x:y", "--batch-size", "8"], **cli.context_settings) as context:
        assert context.params["batch_size"] == 8
    assert read is not None


def test_the_error_of_the_model_that_failed_is_shown(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The second one failed: what is traced is its error, not that there was none in the first."""
    with pytest.raises(SystemExit) as caught:
        main(["--traceback", "compare", f"{models}:teacher", f"{models}:Fails", *STATIC])
    assert caught.value.code == 3
    said = capsys.readouterr()
    assert "KeyError: 'half-way'" in said.err
    assert "Traceback" in said.err
    assert "not for the same batch size" not in said.out, "the one that failed has no value for any batch"


@pytest.mark.parametrize("command", ["compare", "diff"])
def test_each_model_that_failed_is_named_and_the_command_fails(models: str, command: str) -> None:
    result = run(
        command, f"{models}:Fails", f"{models}:Fails", *STATIC, "--metric", "macs", "--name", "a", "--name", "b"
    )
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1] == "Error: macs of a; macs of b failed"
