"""The page about other tools' conventions: what it quotes follows from a trace and the rules, to the unit.

The tools themselves are asked by ``benchmarks/conventions.py``; here their numbers are those that the page quotes.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from source_tree import ROOT

PAGE = (ROOT / "docs" / "conventions.rst").read_text(encoding="utf-8")
MODELS = ("Sample", "ResNet-18", "ViT-B/16")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return import_module("conventions")


def read_quoted(model: str) -> list[str]:
    """Return the lines that the page quotes for a model, the first being ours."""
    output = PAGE[PAGE.index("   Sample: ") : PAGE.index("ResNet-18 has nothing")]
    parts = re.split(r"^(?=   \S+: [\d,]+ MACs, [\d,]+ FLOPs$)", output, flags=re.MULTILINE)
    part = next(one_part for one_part in parts if one_part.startswith(f"   {model}: "))
    return [line.removeprefix("   ") for line in part.splitlines() if line.strip()]


@pytest.mark.parametrize("model", MODELS)
def test_the_quoted_numbers_of_other_tools_follow_from_ours(model: str, benchmark: Any) -> None:
    """Each tool's number is the sum of what its rule counts for the operators that we find."""
    head, *lines = read_quoted(model)
    trace = benchmark.trace_model(model)
    assert head == f"{model}: {trace.macs:,} MACs, {trace.flops:,} FLOPs"
    rows = list(benchmark.list_rows(trace))
    expected = []
    for tool in benchmark.CONVENTIONS:
        number = next(re.match(rf"{tool}: ([\d,]+) ", line) for line in lines if line.startswith(f"{tool}: "))
        assert number is not None
        expected += benchmark.lines(tool, int(number[1].replace(",", "")), rows)
    assert lines == expected
    assert sum(line.startswith("  = ") for line in lines) == len(benchmark.CONVENTIONS)


def test_a_difference_that_is_not_explained_is_said(benchmark: Any) -> None:
    rows = list(benchmark.list_rows(benchmark.trace_model("Sample")))
    explained, off = (list(benchmark.lines("thop", number, rows))[-1] for number in (364_664, 364_665))
    assert explained == f"  = {364_664 - 655_480:+,}"
    assert off == "  NOT EXPLAINED: +1"


def test_a_tool_that_is_not_there_is_said(benchmark: Any, tmp_path: Path) -> None:
    missing = tmp_path / "python"
    missing.write_text("#!/bin/sh\necho 'No module named thop' >&2; exit 1\n", encoding="utf-8")
    missing.chmod(0o755)
    assert benchmark.ask_tool("thop", "Sample", str(missing)) == (None, "No module named thop")


def test_torchs_own_counter_has_the_quoted_number(benchmark: Any) -> None:
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the page quotes torch 2.13: torch 2.15 counts 614,640, as it has formulas for more operators")
    ask, _ = import_module("convention_tools").TOOLS["FlopCounterMode"]
    assert ask(*import_module("convention_models").built("Sample")) == 352_496


def test_the_page_shows_the_model_that_the_tools_were_asked_about(benchmark: Any) -> None:
    models = import_module("convention_models")
    for shown in (models.Attention, models.Sample):
        assert textwrap.indent(inspect.getsource(shown).strip(), "   ") in PAGE


def test_every_rule_is_on_the_page(benchmark: Any) -> None:
    """The page shows the file from the first rule to the table of all."""
    source = (ROOT / "benchmarks" / "convention_rules.py").read_text(encoding="utf-8")
    shown = source[source.index("def flop_counter_mode") : source.index("class Convention")]
    for name, convention in benchmark.CONVENTIONS.items():
        assert f"def {convention.rule.__name__}(" in shown, name
