"""Options of ``profilerkit llm`` that take several values: separated by commas, or repeated."""

from __future__ import annotations

from inspect import signature
from typing import Any

import click
import pytest

from profilerkit_predict.commands.llm import command
from profilerkit_predict.language_models import llm


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ([], None),
        (["h100"], "h100"),
        (["h100,a100-80"], ["h100", "a100-80"]),
        (["h100", "a100-80"], ["h100", "a100-80"]),
        (["h100, l4", "t4"], ["h100", "l4", "t4"]),
    ],
)
@pytest.mark.parametrize("name", ["device", "dtype", "weights"])
def test_repeated_options_are_several_values(name: str, arguments: list[str], value: Any) -> None:
    given = [text for argument in arguments for text in (f"--{name}", argument)]
    with click.Context(command) as context:
        command.parse_args(context, ["hf:llama", *given])
    assert context.params[name] == value


def test_every_option_is_a_parameter_of_llm() -> None:
    """They reach it by name; the form and the file of the output are the command's own."""
    options = {option.name for option in command.params} - {"form", "output"}
    assert options <= set(signature(llm).parameters)
    assert {"models", "prompt", "parallel", "trust"} <= options
