"""Every form a report can be given: golden texts, a large model, and a model whose names are hostile."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_reports import HOSTILE_NAMES, STUDENT, TEACHER, Tags, layers, record
from slow_ones import slow_ones

from profilerkit import Comparison, Completeness, Report
from profilerkit.builtin import profilerkit_renderers
from profilerkit.foreign_text import visible
from profilerkit.render import latex, render
from profilerkit.render.grids import Grid
from profilerkit.render.layer_time_grids import layer_time_grid
from profilerkit.render.time_stacks import read_seconds
from profilerkit.results.saving import parse
from profilerkit.times.layer_times import LayerTime, layer_time_table
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table

GOLDEN = Path(__file__).parent / "golden"
#: The forms that are text and say all that a report says; a browser test of its own looks at pages.
FORMS = [info.name for info in profilerkit_renderers() if info.is_text]


RESULTS: dict[str, Report | Comparison] = {"report": TEACHER, "comparison": Comparison(TEACHER, (STUDENT,))}


#: They hold times alone, or nodes of files, and these reports have none: test_traces.py and test_model_explorer.py.
ELSEWHERE = ("speedscope", "chrome-trace", "model-explorer")


def text_forms() -> list[str]:
    return [form for form in FORMS if form not in ("json", "html", *ELSEWHERE)]


@pytest.mark.parametrize("form", text_forms())
@pytest.mark.parametrize("kind", RESULTS)
def test_same_input_same_output(form: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts were read and found right when they were written down; they are not to change by themselves."""
    monkeypatch.setenv("COLUMNS", "100")
    drawn = render(RESULTS[kind], form, details=True)
    assert drawn == render(RESULTS[kind], form, details=True)
    assert drawn.rstrip("\n") == (GOLDEN / f"{kind}.{form}").read_text(encoding="utf-8").rstrip("\n")


def hostile() -> Report:
    """Return a report with names that each form could trip over, and values that are no numbers."""
    given = [("", HOSTILE_NAMES[0], 0, 0)]
    given += [(name.replace(".", ""), name, 1, 1) for name in HOSTILE_NAMES]
    odd = {
        "nan": record("nan", math.nan, "nan"),
        "inf": record("inf", math.inf, "inf", base_unit="s"),
        "text": record("text", HOSTILE_NAMES[0], HOSTILE_NAMES[0]),
        "gone": record("gone", None, "", completeness=Completeness.FAILED, missing=HOSTILE_NAMES),
        "part": record("part", 1, "1 <b>", "<b>", completeness=Completeness.PARTIAL, missing=HOSTILE_NAMES),
    }
    named = {key: replace(one, friendly_name=f"{key} {HOSTILE_NAMES[1]}") for key, one in odd.items()}
    facts: dict[str, Any] = {
        "layers": layers(*given),
        "notes": HOSTILE_NAMES,
        "environment": {"host": HOSTILE_NAMES[0]},
    }
    return Report("\n".join(HOSTILE_NAMES[:2]), "fake", "m.M", named, **facts)


@pytest.mark.parametrize("form", FORMS)
def test_hostile_names_are_drawn_as_they_are(form: str) -> None:
    both = Comparison(hostile(), (replace(hostile(), name="other"),))
    for result in (hostile(), both):
        drawn = render(result, form, details=True)
        assert "\x1b" not in drawn
        assert "\r" not in drawn


def test_markdown_lets_no_name_through() -> None:
    drawn = render(hostile(), "markdown", details=True)
    assert Tags(drawn).found == set()
    rows = [line for line in drawn.splitlines() if line.startswith("|")]
    tables = [table.splitlines() for table in drawn.split("\n\n") if table.startswith("|")]
    assert rows
    for table in tables:
        bars = {line.replace("\\|", "").count("|") for line in table}
        assert len(bars) == 1, "every row has as many cells as its table has columns"
    assert "](javascript" not in drawn


def test_csv_is_read_back_and_holds_no_formula() -> None:
    for form in ("csv", "layers-csv"):
        rows = list(csv.reader(io.StringIO(render(hostile(), form))))
        assert {len(row) for row in rows} == {len(rows[0])}
        assert not any(cell.startswith("=") for row in rows for cell in row)
    kinds = [row[2] for row in csv.reader(io.StringIO(render(hostile(), "layers-csv")))][2:]
    assert kinds == [f"'{name}" if name.startswith("=") else visible(name) for name in HOSTILE_NAMES]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32, np.float64, Fraction])
def test_a_number_of_another_type_is_a_number_in_csv(kind: Callable[[int], Any]) -> None:
    """A spreadsheet takes text for no number, and a minus sign at the beginning of text for a formula."""
    number = kind(-3)
    metric = replace(TEACHER, statuses={"spare": record("spare", number, "-3")})
    layer = {"path": "", "type": "Net", "depth": 0, "spare": number}
    for result, form in ((metric, "csv"), (replace(TEACHER, layers=LayerTable([layer])), "layers-csv")):
        cells = [row.get("value") or row.get("spare") for row in csv.DictReader(io.StringIO(render(result, form)))]
        assert [float(cell or 0) for cell in cells] == [-3]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_a_time_of_another_type_is_drawn(kind: Callable[[int], Any]) -> None:
    assert (read_seconds(kind(2)), read_seconds(kind(-2))) == (2.0, 0.0)


def test_csv_has_values_in_base_units() -> None:
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(render(TEACHER, "csv")))}
    assert (rows["macs"]["value"], rows["macs"]["unit"]) == (str(8 * 16 + 16 * 4), "MACs")
    times = TEACHER["execution_time"]
    assert [float(rows["execution_time"][name]) for name in ("value", "low", "high")] == [times.median, *times.interval]
    assert (rows["energy"]["value"], rows["energy"]["completeness"]) == ("", "unavailable")
    compared = list(csv.DictReader(io.StringIO(render(RESULTS["comparison"], "csv"))))
    assert [row["enhancement"] for row in compared if row["metric"] == "macs"] == ["", "4.0"]


def test_json_is_what_is_saved() -> None:
    for result in RESULTS.values():
        back = parse(render(result, "json").encode(), "it")
        assert render(back, "json") == render(result, "json")
        assert str(back) == str(result)
    assert json.loads(render(hostile(), "json"))["statuses"][1]["value"] == {"type": "float", "value": "inf"}


def test_layers_are_shown_to_a_depth_and_the_largest_alone() -> None:
    deep = replace(
        TEACHER,
        layers=layers(
            ("", "Net", 0, 0),
            ("a", "Block", 0, 0),
            ("a.x", "Linear", 2, 8),
            ("a.y", "Linear", 2, 9),
            ("b", "Linear", 1, 4),
        ),
    )
    assert "x" not in [line.split()[0] for line in render(deep, "table", depth=1).splitlines() if line]
    assert "a.y" not in render(deep, "table", depth=2)
    top = render(deep, "table", top=2).partition("Layers with the most MACs")[2]
    assert top.index("a.y") < top.index("a.x")
    assert " b " not in top
    mixed = layers(("", "Net", 0, 0), ("a", "Block", 0, 9), ("a.x", "Linear", 2, 5), ("b", "Linear", 1, 4))
    own = render(replace(TEACHER, layers=mixed), "table", top=2).partition("Layers with the most MACs of their own")[2]
    assert [(words[0], words[-1]) for words in map(str.split, own.splitlines()[3:5])] == [("a", "18"), ("a.x", "10")]
    tree = render(deep, "tree", depth=1)
    assert "└── b: Linear" in tree
    assert "x: Linear" not in tree
    assert "a: Block" in render(deep, "markdown", depth=1).replace("&emsp;a | Block", "a: Block")


def test_a_tree_has_shares_times_and_what_was_not_called() -> None:
    """Half of the time in the first layer: 4 ms for 256 FLOPs are 64 kFLOP/s."""
    times = LayerTable(
        {
            "path": path,
            "type": "T",
            "depth": 0,
            "is_leaf": True,
            "calls": 1,
            "forward_seconds": seconds,
            "backward_seconds": None,
        }
        for path, seconds in (("", 0.008), ("first", 0.004), ("act", 0.0), ("second", 0.004))
    )
    timed = record("layer_times", times, "4 layers")
    rows = [dict(row, calls=0) if row["path"] == "act" else row for row in TEACHER.layers or ()]
    drawn = render(replace(TEACHER, statuses={"layer_times": timed}, layers=LayerTable(rows)), "tree")
    (first,) = (line for line in drawn.splitlines() if "first" in line)
    assert "144 params (67.9 %), 128 MACs (66.7 %), 256 FLOPs (66.7 %), 4 ms forward (50.0 %), 64 kFLOP/s" in first
    (act,) = (line for line in drawn.splitlines() if "act" in line)
    assert act.endswith("not called")
    assert "the model was not traced" in render(replace(TEACHER, layers=None), "tree")


def deep_report(count: int) -> Report:
    """Return a report of many layers, ten in each block."""
    rows = [dict((TEACHER.layers or [])[0])]
    for place in range(count):
        block = f"blocks_{place // 10}"
        if place % 10 == 0:
            rows.append({**rows[0], "path": block, "type": "Block", "depth": 1, "is_leaf": False})
        rows.append({**rows[0], "path": f"{block}.{place % 10}", "type": "Linear", "depth": 2, "is_leaf": True})
    return replace(TEACHER, layers=LayerTable(rows))


@pytest.mark.heavy
@pytest.mark.parametrize("form", slow_ones(FORMS, ["summary", "table"]))
def test_ten_thousand_layers(form: str) -> None:
    drawn = render(deep_report(10_000), form, details=True)
    assert len(drawn) > (40 if form in ("operators", "model-explorer") else 100)
    if form in text_forms() and form not in ("csv", "depths", "operators"):  # these are sums
        assert drawn.count("Linear") == 10_000


def test_a_model_nested_deeper_than_python_recurses() -> None:
    path, rows = "", [dict((TEACHER.layers or [])[0])]
    for place in range(1500):
        path = f"{path}.in" if path else "in"
        rows.append({**rows[0], "path": path, "depth": place + 1, "is_leaf": place == 1499})
    drawn = render(replace(TEACHER, layers=LayerTable(rows)), "tree")
    assert drawn.count("in: Net") == 1500


def compile_latex(drawn: str, folder: Path) -> str:
    """Return what LaTeX says of a page with a drawn result; fails where it refuses it."""
    preamble = "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}"
    (folder / "page.tex").write_text(f"{preamble}\n{drawn}\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
@pytest.mark.parametrize("kind", ["hostile", "comparison", "long"])
def test_latex_compiles(kind: str, tmp_path: Path) -> None:
    result: Any = {"hostile": hostile(), "comparison": RESULTS["comparison"], "long": deep_report(300)}[kind]
    drawn = render(result, "latex", details=True)
    compile_latex(drawn, tmp_path)
    assert (tmp_path / "page.pdf").stat().st_size > 1000


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
@pytest.mark.parametrize("rows", [3, 60])
def test_latex_of_a_wide_table_fits_the_page(rows: int, tmp_path: Path) -> None:
    """A table of layers with settings: 100 letters in eight columns, where a line of an article has some 70."""
    titles = ("Layer", "Type", "Settings", "Output shape", "Calls", "Params", "MACs", "FLOPs")
    cells = ("self_attn", "NonDynamicallyQuantizableLinear", "in 64, out 128", "[1, 8, 128]", "1", "100.4 k", "811 k")
    grid = Grid("Layers", titles, ((*cells, "1.665 M"),) * rows, frozenset(range(4, 8)), depths=(3,) * rows)
    assert "Overfull" not in compile_latex(latex.table(grid), tmp_path)


def test_the_first_letter_of_a_row_of_latex_is_no_part_of_the_end_of_the_row_above() -> None:
    r"""TeX reads a star or a bracket after a row's two backslashes as theirs."""
    drawn = latex.table(Grid("Layers", ("Layer",), (("*args",), ("* 2",), ("[2]",), ("last",))))
    assert re.findall(r"\\\\\s+(\S)", drawn) == ["\\", "{", "{", "l", "\\"], "a rule, the rows below the first, a rule"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
@pytest.mark.parametrize("letters", [4, 400])
def test_latex_of_a_table_is_as_wide_as_its_letters_or_a_line(letters: int, tmp_path: Path) -> None:
    """The table alone is what stands in the box that is scaled."""
    drawn = latex.table(Grid("Layers", ("Layer", "Type"), (("a" * letters, "b"),)))
    scaled = drawn[drawn.index("\\resizebox") : drawn.index("\n\\end{table}")]
    alone = scaled[scaled.index("\\begin{tabular}") : -1]
    boxes = "".join(f"\\setbox0\\hbox{{{box}}}\\typeout{{wide \\the\\wd0}}\n" for box in (scaled, alone))
    said = compile_latex(f"{boxes}\\typeout{{wide \\the\\linewidth}}x", tmp_path)
    width, natural, line = map(float, re.findall(r"wide ([\d.]+)pt", said))
    assert width == pytest.approx(min(natural, line), abs=0.1)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_of_times_of_layers_fits_the_page(tmp_path: Path) -> None:
    """Forward and backward, each with its noise, its share and the time of the layer itself: some 140 letters."""
    paths = ("", "encoder", "encoder.attention", "encoder.attention.query_projection")
    samples = (14.13e-6, 47.73e-6, 13.9e-6)
    times = layer_time_table([LayerTime(path, "ScaledDotProductAttention", 3, samples, samples) for path in paths])
    drawn = latex.table(layer_time_grid("Layer Times", times, 10))
    assert "Overfull" not in compile_latex(drawn, tmp_path)
    assert drawn.count("query\\_projection") == drawn.count("\\caption") == 1
    assert all(drawn.count(f"{title} & ") + drawn.count(f"{title} \\\\") == 1 for title in ("Forward", "Own backward"))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_of_metrics_with_long_names_fits_the_page(tmp_path: Path) -> None:
    grid = Grid(
        "Metrics",
        ("Metric", "Description"),
        (("Relative Output Difference", "The largest " * 20),),
        kind="descriptions",
    )
    assert "Overfull" not in compile_latex(latex.table(grid), tmp_path)


TIMES = layer_time_table([LayerTime("", "Net", 1, (1.0, 3.0)), LayerTime("first", "Linear", 1, (2.0, 2.0))])


def test_the_times_of_some_layers_do_not_hide_those_of_all() -> None:
    tables = {"slowest": TIMES.top(1, by="own_forward_seconds"), "layer_times": TIMES}
    both = replace(TEACHER, statuses={key: record(key, table, "layers") for key, table in tables.items()})
    assert [both.layerwise[path]["forward_seconds"] for path in ("", "first")] == [4.0, 2.0]


@pytest.mark.parametrize("table", [TIMES.by_type(), TIMES.iterations], ids=["types", "passes"])
def test_times_of_types_and_of_single_passes_are_not_the_times_of_layers(table: LayerTable) -> None:
    """The layer took two seconds in the median; a type has no path, and the last of the passes is not the median."""
    alone = replace(TEACHER, statuses={"mine": record("mine", table, "a table")})
    for form in FORMS:
        assert render(alone, form, **({"details": True} if form in ("summary", "markdown") else {}))
    assert "forward_seconds" not in alone.layerwise.columns
    beside = replace(alone, statuses={**alone.statuses, "layer_times": record("layer_times", TIMES, "2 layers")})
    assert beside.layerwise["first"]["forward_seconds"] == 2.0


def test_every_renderer_draws_a_vision_transformer() -> None:
    pytest.importorskip("torch")
    import torch

    from models import vit_b_16
    from profilerkit import profile

    report = profile(vit_b_16(), torch.zeros(1, 3, 224, 224), metrics=["macs", "total_params"])
    for form in FORMS:
        drawn = render(report, form, details=True)
        assert "17.56" in drawn or "17563828224" in drawn or form in ("layers-csv", "operators", *ELSEWHERE)


@pytest.mark.parametrize("form", ["table", "summary", "markdown", "latex"])
def test_that_no_layer_differs_is_said_in_every_form(form: str) -> None:
    drawn = render(Comparison(TEACHER, (replace(TEACHER, name="Copy"),)), form, changes=True)
    assert "No layers differ between Teacher and Copy" in drawn


def test_csv_has_no_enhancement_of_a_bound() -> None:
    """At most 192 MACs are no number of times more or less than 48."""
    partial = replace(TEACHER.status("macs"), completeness=Completeness.PARTIAL, missing=("a branch",))
    bound = replace(TEACHER, statuses={**TEACHER.statuses, "macs": partial})
    for both in (Comparison(bound, (STUDENT,)), Comparison(STUDENT, (bound,))):
        rows = [row for row in csv.DictReader(io.StringIO(render(both, "csv"))) if row["model"] == both.others[0].name]
        enhancements = {row["metric"]: row["enhancement"] for row in rows}
        assert enhancements["macs"] == ""
        assert float(enhancements["total_params"]) == both.enhancement("total_params")


def test_operators_that_are_bounds_are_said_to_be() -> None:
    """192 MACs are counted of an operator whose branch may not run."""
    partial = replace(TEACHER.status("macs"), completeness=Completeness.PARTIAL, missing=("a branch",))
    operators = Table([{"operator": "mm", "layer": "first", "macs": 192, "flops": 384}])
    bound = replace(TEACHER, operators=operators, statuses={"macs": partial})
    assert "Teacher: Macs is a lower bound; not counted: a branch" in render(bound, "operators")
    assert "lower bound" not in render(replace(TEACHER, operators=operators), "operators")


@pytest.mark.parametrize("details", [False, True])
def test_a_comparison_says_where_tables_of_metrics_are(details: bool) -> None:
    """They are not shown side by side."""
    timed = replace(TEACHER, statuses={"kernels": record("kernels", Table([{"kernel": "mm"}]), "1 kernel")})
    both = Comparison(timed, (replace(timed, name="Other"),))
    note = "Tables are shown of one model: comparison.reports[0].to_text(details=True)."
    assert note in render(both, "summary", details=details)
    assert note not in render(Comparison(TEACHER, (STUDENT,)), "summary", details=details)
    assert "mm" in both.reports[0].to_text(details=True)
