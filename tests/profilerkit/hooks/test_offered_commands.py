"""Commands that plugins add to the command line."""

from typing import Any

import click
import pytest
from click.testing import CliRunner
from plugin_fixtures import make_offering, make_raising

from profilerkit import CommandInfo
from profilerkit.cli import cli, emit, main


@click.command("weigh", help="Print a weight.")
@click.option("--layers", type=int, default=1)
def weigh(layers: int) -> None:
    emit(f"{layers} layers")


def info(name: str = "weigh", load: Any = lambda: weigh, *examples: str) -> CommandInfo:
    return CommandInfo(name, load, f"What {name} does.", examples)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments))
    return result.exit_code, result.output or str(result.exception)


def test_a_command_of_a_package_is_used_like_ours(install: Any, core: None) -> None:
    install(
        "scales",
        "profilerkit-scales",
        commands=make_offering(info("weigh", lambda: weigh, "profilerkit weigh --layers 3")),
    )
    assert "  weigh         What weigh does.\n" in run("--help")[1]
    assert run("weigh", "--layers", "3") == (0, "3 layers\n")
    assert "Example:\n    profilerkit weigh --layers 3\n" in run("weigh", "--help")[1]
    assert "nearest first: weigh, " in run("weight")[1]


def test_a_command_is_imported_when_it_is_used(install: Any, core: None) -> None:
    install("scales", commands=make_offering(info("weigh", make_raising(ImportError("no scales here")))))
    assert run("--help")[0] == 0
    code, output = run("weigh")
    assert code == 1
    assert output.startswith("command 'weigh' of plugin 'scales'")
    assert "cannot be used (ImportError: no scales here" in output


def test_an_error_of_a_command_names_its_plugin(install: Any, core: None, capsys: pytest.CaptureFixture[str]) -> None:
    install("scales", commands=make_offering(info("weigh", lambda: click.Command("weigh", callback=lambda: 1 // 0))))
    with pytest.raises(SystemExit):
        main(["weigh"])
    assert "ZeroDivisionError: integer division or modulo by zero; raised by plugin 'scales'" in capsys.readouterr().err


def test_what_is_no_command_is_said(install: Any, core: None) -> None:
    install("scales", commands=make_offering(info("weigh", lambda: len)))
    assert "its load returned <built-in function len>, which is no command; " in run("weigh")[1]


def test_without_plugins_there_are_our_commands(install: Any, core: None) -> None:
    install("scales", "profilerkit-scales", commands=make_offering(info()))
    code, output = run("--no-plugins", "--help")
    assert code == 0
    assert "weigh" not in output
    assert all(f"  {name} " in output for name in ("profile", "check", "audit", "llm"))
    assert run("--no-plugins", "weigh")[0] == 2
    assert run("weigh")[0] == 0
