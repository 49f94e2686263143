"""Options of ``profilerkit llm`` that take several values: separated by commas, or repeated."""

from __future__ import annotations

from typing import Any

import click
import pytest

from profilerkit_predict.commands.llm import command


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
