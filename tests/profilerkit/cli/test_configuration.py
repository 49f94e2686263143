"""``[tool.profilerkit]`` of ``pyproject.toml``: what it sets, what wins over it, and what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from profilerkit import ArgumentError, profile
from profilerkit.cli import cli
from profilerkit.cli.configuration import configure_command, read_configuration
from profilerkit.hooks.commands import list_commands, load_command
from profilerkit.piping.requests import Preference
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the configuration of the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = tmp_path / "pyproject.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.mark.heavy  # all frameworks are imported, to say which are there
def test_without_a_table_nothing_is_configured(write: Write) -> None:
    write("[tool.other]\nkey = 1\n")
    assert read_configuration().path is None
    assert run("doctor").exit_code == 0


def test_the_nearest_file_with_the_table_counts(write: Write, tmp_path: Path) -> None:
    path = write("[tool.profilerkit]\ndevice = 'cpu'\n")
    inner = tmp_path / "package" / "deeper"
    inner.mkdir(parents=True)
    (inner / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert read_configuration(inner).path == path.resolve()
    (inner / "pyproject.toml").write_text("[tool.profilerkit]\nnum_threads = 2\n")
    assert read_configuration(inner).profile_arguments == {"num_threads": Preference(2)}


NEAREST = "which is no key; there are, nearest first:"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.profilerkit]\ndevise = 'cpu'", f"[tool.profilerkit] has 'devise', {NEAREST} device, "),
        ("[tool.profilerkit]\nform = 'json'", f"[tool.profilerkit] has 'form', {NEAREST}"),
        ("[tool.profilerkit.chek]\nlimit = []", "chek] is named after no command; there are, nearest first: check, "),
        ("[tool.profilerkit.profile]\nformt = 'csv'", f"[tool.profilerkit.profile] has 'formt', {NEAREST} format, "),
        ("[tool.profilerkit]\ntrust = true", "has 'trust', which must be given at each call: --trust"),
        ("[tool.profilerkit.profile]\noutput = 'x.md'", "has 'output', which must be given at each call: --output"),
        ("[tool.profilerkit.check]\nupdate = true", "has 'update', which must be given at each call: --update"),
        ("[tool.profilerkit.check]\nbaseline = 'evil.py:f'", "has 'baseline', which must be given at each call: "),
        ("[tool]\nprofilerkit = 1", "tool.profilerkit is no table; write [tool.profilerkit]"),
        ("[tool.profilerkit\n", "is no TOML: "),
    ],
)
def test_what_is_wrong_names_the_file_the_key_and_what_there_is(write: Write, text: str, words: str) -> None:
    path = write(text)
    result = run("check" if ".check]" in text else "profile", "net.py:build")
    assert result.exit_code == 2
    assert str(path) in result.output.replace("\n", "")
    assert words in result.output


@pytest.mark.heavy  # all frameworks are imported, to say which are there
def test_the_doctor_works_with_a_wrong_configuration_and_says_what_is_wrong(write: Write) -> None:
    write("[tool.profilerkit]\ndevise = 'cpu'")
    assert f"[tool.profilerkit] has 'devise', {NEAREST} device, " in run("doctor").output


#: Options that may run code or overwrite files, beside those whose help says that they write a path.
DANGEROUS = ("trust", "output", "model", "baseline", "update", "address")


def is_dangerous(option: click.Option) -> bool:
    writes = isinstance(option.type, click.Path) and "write" in (option.help or "").lower()
    return writes or option.opts[-1].lstrip("-") in DANGEROUS


@pytest.mark.parametrize("name", list_commands())
def test_no_command_can_be_told_to_run_code_or_to_overwrite_files(write: Write, name: str) -> None:
    command = load_command(name)
    assert command is not None
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    for option in (option.opts[-1].lstrip("-") for option in options if is_dangerous(option)):
        write(f"[tool.profilerkit.{name}]\n{option} = 'x'\n")
        with pytest.raises(click.UsageError, match=f"has '{option}', which must be given at each call: --{option}"):
            configure_command(command)


def test_a_value_that_an_option_does_not_take_names_both(write: Write) -> None:
    path = write("[tool.profilerkit]\nnum-threads = 0\n")
    result = run("profile", "net.py:build")
    assert result.exit_code == 2
    assert "Invalid value for '--num-threads': 0 is not in the range x>=1." in result.output
    assert f"([tool.profilerkit] of {path.resolve()} says so)" in result.output
    typed = run("profile", "net.py:build", "--num-threads", "-1")
    assert "says so" not in typed.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("num-threads = 1.5", "Invalid value for '--num-threads': '1.5' is not a valid integer range."),
        ("num-threads = true", "Invalid value for '--num-threads': 'True' is not a valid integer range."),
        ("num-threads = [1]", "num-threads = [1] is no single value; --num-threads takes one"),
        ("device = ['cpu']", "device = ['cpu'] is no single value; --device takes one"),
        ("optimizer = {name = 'adam'}", "[tool.profilerkit.optimizer] is named after no command"),
        ("[tool.profilerkit.profile]\ndepth = [1]", "depth = [1] is no single value; --depth takes one"),
    ],
)
def test_a_value_is_read_as_if_it_were_typed(write: Write, text: str, words: str) -> None:
    """A fraction is not cut off, and a list is no crash."""
    write(f"[tool.profilerkit]\n{text}\n")
    result = run("profile", "net.py:build")
    assert (result.exit_code, words in result.output.replace("\n", "")) == (2, True), result.output


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("['1', '2']", ("1", "2")),
        ("[1, 2]", ("1", "2")),
        ("'ab'", "Takes 2 values but 1 was given."),
        ("[1, 2, 3]", "Takes 2 values but 3 were given."),
    ],
)
def test_an_option_of_two_values_takes_a_list_of_two(write: Write, value: str, result: tuple[str, str] | str) -> None:
    """``audit --diff`` takes two runs: a text is one value, and not its letters."""
    write(f"[tool.profilerkit.audit]\ndiff = {value}\n")
    command = load_command("audit")
    assert command is not None
    try:
        found = command.make_context("audit", ["plan.toml"], default_map=configure_command(command)).params["diff"]
    except click.BadParameter as error:
        found = error.message
    assert found == result


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("num-threads = '2'", "num_threads", 2),
        ("max-seconds = '0.5'", "max_seconds", 0.5),
        ("max-seconds = 1", "max_seconds", 1.0),
        ("optimizer = 'adam'", "optimizer", "adam"),
        ("device = 0", "device", "0"),
    ],
)
def test_a_test_of_the_project_gets_what_a_command_gets(write: Write, line: str, name: str, value: object) -> None:
    """The pytest fixture ``budget`` reads ``profile_arguments``."""
    write(f"[tool.profilerkit]\n{line}\n")
    command = load_command("profile")
    assert command is not None
    typed = command.make_context("profile", ["net.py:build"], default_map=configure_command(command)).params[name]
    found = read_configuration().profile_arguments[name]
    found = found.value if isinstance(found, Preference) else found
    assert [(type(read), read) for read in (typed, found)] == [(type(value), value)] * 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("num-threads = 1.5", r"num-threads = 1\.5: '1\.5' is not a valid integer range"),
        ("max-seconds = 0", r"max-seconds = 0: 0\.0 is not in the range x>0"),
        ("optimizer = 'adamm'", "optimizer = 'adamm': .*adam"),
        ("device = ['cpu']", "device = .* is no single value; --device takes one"),
    ],
)
def test_a_test_of_the_project_refuses_what_a_command_refuses(write: Write, line: str, words: str) -> None:
    path = write(f"[tool.profilerkit]\n{line}\n")
    with pytest.raises(ArgumentError, match=f"{re.escape(str(path.resolve()))}: {words}"):
        _ = read_configuration().profile_arguments


def test_in_a_folder_that_was_deleted_nothing_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert read_configuration().path is None


@pytest.mark.heavy
def test_the_doctor_shows_it(write: Write) -> None:
    path = write("[tool.profilerkit]\nnum_threads = 2\n[tool.profilerkit.profile]\nformat = 'table'\n")
    lines = [" ".join(line.split()) for line in run("doctor").output.splitlines()]
    begin = lines.index("Configuration")
    assert lines[begin + 1 : begin + 4] == [f"file {path.resolve()}", "num-threads 2", "profile.format table"]


def test_an_option_of_the_same_name_that_means_something_else_is_not_set(write: Write) -> None:
    """``llm --device`` is the device to predict for, and no device to run on."""
    write("[tool.profilerkit]\ndevice = 'cpu'\n")
    commands = {name: load_command(name) for name in ("profile", "check", "llm", "show")}
    defaults = {name: configure_command(command) for name, command in commands.items() if command is not None}
    assert defaults == {"profile": {"device": "cpu"}, "check": {"device": "cpu"}, "llm": {}, "show": {}}


def test_help_works_whatever_is_configured(write: Write) -> None:
    write("[tool.profilerkit]\nnum-threads = 2\n")
    assert run("profile", "--help").exit_code == 0


def test_a_call_in_python_does_not_depend_on_the_folder(write: Write) -> None:
    write("[tool.profilerkit]\nnum-threads = 0\ndevise = 1\n")
    report = profile(FakeModel(), FakeTensor((1, 3)), backend=FakeBackend())
    assert "num_threads" not in report.arguments


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("")

    def refuse(*args: object, **kwargs: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ArgumentError, match="cannot read .*pyproject.toml: Permission denied"):
        read_configuration(tmp_path)


NETWORK = """
import torch

def build():
    return torch.nn.Linear(4, 8)
"""


@pytest.fixture
def network(write: Write, tmp_path: Path) -> str:
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(NETWORK, encoding="utf-8")
    return "net.py:build"


def read_report(tmp_path: Path) -> dict[str, str]:
    arguments: dict[str, str] = json.loads((tmp_path / "report.json").read_text())["arguments"]
    return arguments


MEASURE = ("--input-shape", "4", "--metric", "execution_time", "--max-seconds", "0.05", "--output", "report.json")


@pytest.mark.heavy
def test_the_file_sets_options_and_the_command_line_wins(network: str, write: Write, tmp_path: Path) -> None:
    write("[tool.profilerkit]\nnum-threads = 1\ndevice = 'cpu'\nmax_seconds = 9.0\n")
    assert run("profile", network, *MEASURE).exit_code == 0
    assert read_report(tmp_path) == {"num_threads": "1", "device": "cpu", "max_seconds": "0.05"}
    assert run("profile", network, "--num-threads", "2", *MEASURE).exit_code == 0
    assert read_report(tmp_path)["num_threads"] == "2"


@pytest.mark.heavy
def test_what_the_file_sets_is_no_mistake_where_nothing_takes_it(network: str, write: Write) -> None:
    """Counts have no threads: typed, that is said; in a file for all commands it is meant for those that have."""
    write("[tool.profilerkit]\nnum-threads = 1\n")
    counts = ("profile", network, "--input-shape", "4", "--metric", "macs", "--strict")
    assert run(*counts).exit_code == 0
    typed = run(*counts, "--num-threads", "1")
    assert typed.exit_code == 2
    assert "nothing that is requested takes an argument 'num_threads'" in typed.output


@pytest.mark.heavy
def test_a_table_is_for_its_command_alone(network: str, write: Write) -> None:
    write("[tool.profilerkit]\nmetric = ['macs']\ninput-shape = '4'\n[tool.profilerkit.profile]\nformat = 'csv'\n")
    result = run("profile", network)
    assert result.exit_code == 0, result.output
    assert "macs" in result.stdout and "total_params" not in result.stdout
    assert "," in result.stdout.splitlines()[0], "CSV"
    compared = run("compare", network, network)
    assert compared.exit_code == 0, compared.output
    assert "Comparison" in compared.stdout, "no CSV"
