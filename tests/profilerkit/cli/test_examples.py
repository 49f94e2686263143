"""The examples in the help of each command: there are some, they are shown, and they are parsed without an error."""

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from profilerkit.cli import cli
from profilerkit.cli.loading import name_spec
from profilerkit.cli.measuring import Request
from profilerkit.hooks.commands import list_commands


def test_every_command_has_examples() -> None:
    assert all(info.examples for info in list_commands().values())


@pytest.mark.parametrize("line", [line for info in list_commands().values() for line in info.examples])
def test_an_example_is_shown_and_can_be_parsed(line: str) -> None:
    program, name, *arguments = shlex.split(line)
    assert program == "profilerkit"
    assert f"  {line}\n" in CliRunner().invoke(cli, [name, "--help"], terminal_width=200).output
    (command,) = (info.load() for info in list_commands().values() if info.name == name)
    command.make_context(name, arguments, resilient_parsing=True, **cli.context_settings)
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in arguments if word.startswith("--")} <= options


def test_the_example_of_a_language_model_runs() -> None:
    """Its other words decide whether it can: a model takes so many tokens, and a device is known or not."""
    pytest.importorskip("transformers")
    (lines,) = (info.examples for info in list_commands().values() if info.name == "llm")
    for line in lines:
        result = CliRunner().invoke(cli, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
        assert result.output.count("h100-sxm") == 4  # two types of weights, two batch sizes


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("nets.py:student", "student"),
        ("folder/nets.py:student", "student"),
        ("torchvision:resnet18", "resnet18"),
        ("net.onnx", "net"),
        ("folder/net.onnx", "net"),
        ("hf:folder/with/model", "model"),
        ("hf:Qwen/Qwen2.5-0.5B", "Qwen2.5-0.5B"),
        ("saved-v1.5/", "saved-v1.5"),
        ("runs/12:30/net.onnx", "net"),
    ],
)
def test_what_was_typed_heads_the_columns(
    spec: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A point in the name of a folder, or of a model on the hub, is no suffix."""
    monkeypatch.chdir(tmp_path)
    Path("saved-v1.5").mkdir()
    Path("runs/12:30").mkdir(parents=True)
    Path("runs/12:30/net.onnx").touch()
    assert name_spec(spec) == name


def test_names_are_one_for_each_model() -> None:
    assert [job.name for job in Request().make_jobs(["a:b", "saved.json"])] == [None, None]
    assert [job.name for job in Request(name=("old", "new")).make_jobs(["a:b", "c:d"])] == ["old", "new"]
    with pytest.raises(click.BadParameter, match="1 name for 2 models; give one for each"):
        Request(name=("old",)).make_jobs(["a:b", "c:d"])
