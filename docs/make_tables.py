"""Write the tables of costs and metrics into the pages: ``python docs/make_tables.py``.

A table stands between two comments, ``.. table of NAME: begin`` and ``.. table of NAME: end``. With ``--check`` nothing
is written, and the exit code is 1 where a page is not up to date; a test does that too.
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from profilerkit.costs import Cost, complex_numbers, convention, loss, quantization, recurrent

DOCS = Path(__file__).parent
PerElements = Callable[[int], Cost]
Row = tuple[str, ...]


def constants() -> dict[str, int]:
    return {name: value for name, value in vars(convention).items() if name.isupper()}


def name_parts(operations: Callable[[], int]) -> str:
    """Return which elementary functions a number is the sum of, found by changing each of them by one."""
    parts = []
    before = operations()
    for name, value in constants().items():
        setattr(convention, name, value + 1)
        try:
            taken = operations() - before
        finally:
            setattr(convention, name, value)
        if taken:
            parts.append(f"{taken} {name.lower()}" if taken > 1 else name.lower())
    return ", ".join(parts).replace("_", " ")


def summary(formula: Any) -> str:
    """Return the formula that a docstring starts with, or the second one in it for a formula with an option set."""
    has_option = isinstance(formula, partial)
    doc = (formula.func if has_option else formula).__doc__ or ""
    literals = re.findall(r"``.+?``", doc.partition("\n\n")[0].replace("\n", " ")) if doc.startswith("``") else []
    return literals[has_option] if len(literals) > has_option else "\\ "


#: The other cells of a row that continues the first cell of the row above.
_CONTINUED = r"\ "


def table(headers: Row, rows: Iterable[Row]) -> str:
    """Return a table in reStructuredText: a simple one, or a grid if a first cell has several lines."""
    cells = [headers, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    if any(set(row[1:]) == {_CONTINUED} for row in cells):
        return _grid(cells, widths)
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join((rule, lines[0], rule, *lines[1:], rule))


def _grid(cells: list[Row], widths: list[int]) -> str:
    """Return a grid table, in which a first cell may have several lines."""
    rules = {char: "+".join(["", *(char * (width + 2) for width in widths), ""]) for char in "-="}
    lines = [rules["-"]]
    for row in cells:
        continues = set(row[1:]) == {_CONTINUED}
        if len(lines) > 1 and not continues:
            lines.append(rules["=" if len(lines) == 2 else "-"])
        shown = (row[0], *([""] * (len(row) - 1))) if continues else row
        lines.append("|".join(["", *(f" {cell:<{width}} " for cell, width in zip(shown, widths, strict=True)), ""]))
    return "\n".join((*lines, rules["-"]))


def of_operators(formulas: Iterable[tuple[str, PerElements]]) -> str:
    """Return the table of operators and what each of their elements takes; one row for those that are alike.

    A formula may stand behind several names of operators, with spaces between them.
    """
    alike: dict[tuple[str, str, str], list[str]] = {}
    for names, formula in formulas:
        flops = partial(_flops, formula)
        operators = alike.setdefault((str(flops()), name_parts(flops), summary(formula)), [])
        operators += [f"``{name}``" for name in names.split()]
    rows = [(", ".join(names), *facts) for facts, names in alike.items()]
    return table(("operator", "FLOPs", "made of", "formula"), _fold(rows))


def _flops(formula: PerElements) -> int:
    return formula(1).flops


def _fold(rows: Iterable[Row], width: int = 44) -> Iterator[Row]:
    """Yield the rows with the names in lines of a width at most; a line without a count continues the one above."""
    for names, *facts in rows:
        lines = [""]
        for name in names.split(", "):
            if lines[-1] and len(lines[-1]) + len(name) + 2 > width:
                lines.append("")
            lines[-1] += f", {name}" if lines[-1] else name
        yield (lines[0] + ("," if len(lines) > 1 else ""), *facts)
        for number, line in enumerate(lines[1:], 2):
            yield (f"{line}{',' if number < len(lines) else ''}", *(_CONTINUED for _ in facts))


def elementary() -> str:
    """Return the table of the constants, each with the comment that stands above it."""
    source = Path(convention.__file__ or "").read_text(encoding="utf-8")
    rows = []
    for comment, name in re.findall(r"((?:^#: .*\n)+)(\w+) = \d+", source, re.MULTILINE):
        text = " ".join(line.removeprefix("#: ") for line in comment.splitlines())
        rows.append((f"``{name}``", str(constants()[name]), text))
    return table(("name", "FLOPs", "what it is"), rows)


def complex_functions() -> str:
    """Return the table of the constants of complex numbers, each with the formula that it is a sum of."""
    rows = []
    for name, (formula, count) in complex_numbers.OPERATIONS.items():
        rows.append((f"complex ``{name}``", str(count()), name_parts(count), formula))
    return table(("name", "FLOPs", "made of", "formula"), rows)


def recurrent_gates() -> str:
    rows = []
    for kind in recurrent.GATES:
        forward, backward = partial(recurrent.gates, kind), partial(recurrent.gates_gradient, kind)
        rows.append((f"``{kind}``", str(forward()), name_parts(forward), str(backward()), name_parts(backward)))
    headers = ("layer", "FLOPs", "made of", "gradient", "made of")
    return table(headers, rows)


def torch_activations() -> str:
    from profilerkit_torch.costs import activation

    return of_operators({**activation._BY_OUTPUT, **activation._BY_INPUT}.items())


def torch_gelu() -> str:
    from profilerkit.costs import activation

    return of_operators(
        [("gelu", activation.gelu), ("gelu(approximate='tanh')", partial(activation.gelu, approximate=True))]
    )


def torch_gradients() -> str:
    from profilerkit.costs import activation
    from profilerkit_torch.costs import activation as torch_activation
    from profilerkit_torch.costs import loss as torch_loss

    gelu = {
        "gelu_backward": activation.gelu_gradient,
        "gelu_backward(approximate='tanh')": partial(activation.gelu_gradient, approximate=True),
    }
    return of_operators({**torch_activation._GRADIENTS, **gelu, **torch_loss._GRADIENTS}.items())


def torch_reductions() -> str:
    from profilerkit_torch.costs import reduction

    return of_operators(reduction._BY_INPUT.items())


def losses() -> str:
    return of_operators(
        [
            ("mse_loss", loss.mean_squared_error),
            ("huber_loss", loss.huber),
            ("smooth_l1_loss", loss.smooth_l1),
            ("binary_cross_entropy", loss.binary_cross_entropy),
            ("binary_cross_entropy_with_logits", loss.binary_cross_entropy_with_logits),
            ("nll_loss", loss.negative_log_likelihood),
            ("soft_margin_loss", loss.soft_margin),
            ("multi_margin_loss", loss.multi_margin),
            ("ctc_loss", lambda elements: loss.connectionist_temporal(elements, 1)),
        ]
    )


def quantized() -> str:
    return of_operators(
        [
            ("quantize_per_tensor", quantization.quantize),
            ("quantize_per_channel", quantization.quantize),
            ("quantize_per_tensor_dynamic", partial(quantization.quantize, finds_range=True)),
            ("fake_quantize", quantization.fake_quantize),
            ("dequantize", quantization.dequantize),
        ]
    )


def tensorflow_elementwise() -> str:
    from profilerkit_tensorflow.costs import registry

    return of_operators(_not_one(registry.OPERATORS.elementwise.items()))


def tensorflow_reductions() -> str:
    from profilerkit_tensorflow.costs import registry

    return of_operators(_not_one(registry.OPERATORS.reductions.items()))


def _not_one(formulas: Iterable[tuple[str, PerElements]]) -> Iterator[tuple[str, PerElements]]:
    """Yield what is more than one elementary function, internal names left out."""
    for name, formula in formulas:
        if not name.startswith("_") and ("," in (parts := name_parts(partial(_flops, formula))) or parts[:1].isdigit()):
            yield name, formula


def own_functions() -> list[Any]:
    """Return the functions that profilerkit's own plugins offer by default."""
    from profilerkit.hooks import offers
    from profilerkit.testing import FakeBackend

    return [offer.item for offer in offers.list_profiler_functions(FakeBackend()) if offer.plugin.is_own]


def keys_of_metrics() -> tuple[list[Any], list[Any]]:
    """Return the status keys of the metrics: those of an evaluation and by default, and those on demand."""
    from profilerkit_metrics import ComputeEvalMetric

    by_default: list[Any] = []
    on_demand: list[Any] = []
    for function in (*own_functions(), ComputeEvalMetric(lambda model, loader: 0.0)):
        (on_demand if function.ON_DEMAND else by_default).extend(function.list_keys())
    return by_default, on_demand


def metrics_in_short() -> str:
    """Return each metric with the sentence that it says of itself."""
    rows: list[Row] = []
    by_default, on_demand = keys_of_metrics()
    for key in (*by_default, *on_demand):
        sentence = (inspect.getdoc(type(key)) or "").partition("\n")[0]
        first, *others = textwrap.wrap(sentence, 88, break_on_hyphens=False)
        rows += [(f"``{key.NAME}``", first), *(("", line) for line in others)]
    first = on_demand[0].NAME
    request = f'``metrics=["{first}"]``'
    demand = f"The metrics from ``{first}`` on are computed only if you request them by name, as in {request}."
    return table(("key", "definition"), rows) + f"\n\n{demand}"


def facts_of_metrics() -> str:
    """Return the formula of each metric, what it leaves out, and where its definition is from."""
    lines = []
    for key in itertools.chain(*keys_of_metrics()):
        lines.append(f"``{key.NAME}``")
        for title, fact in (("Formula", key.FORMULA), ("Leaves out", key.OMISSIONS), ("Source", key.SOURCE)):
            wrapped = textwrap.wrap(f"| *{title}:* {fact}.", 114, subsequent_indent="  ", break_on_hyphens=False)
            lines += [f"    {line}" for line in wrapped]
        lines.append("")
    return "\n".join(lines).rstrip()


def reference_of_metrics() -> str:
    """Return an entry of the reference for each public name of the metrics, the functions last."""
    from profilerkit import ProfilerFunction
    from profilerkit_metrics.discovery import find_public_names

    entries: list[list[str]] = [[], []]
    for name, module in sorted(find_public_names().items()):
        value = getattr(import_module(module), name)
        is_class = isinstance(value, type)
        entry = f".. auto{'class' if is_class else 'data'}:: profilerkit_metrics.{name}\n"
        is_function = not is_class or issubclass(value, ProfilerFunction)
        entries[is_function].append(entry + ("   :special-members: __call__\n" if is_class and is_function else ""))
    keys, functions = map("\n".join, entries)
    return f"The metrics:\n\n{keys}\nThe functions that compute them:\n\n{functions}".rstrip()


def arguments_of_functions() -> str:
    """Return each argument that the functions of the metrics take from a caller, with what its ``Args:`` say of it."""
    from profilerkit.piping.function import PROVIDED, ArgumentBundle
    from profilerkit.piping.intrinsic import INTRINSIC

    offered = own_functions()
    functions = (*INTRINSIC, *offered)
    computing = [function for function in functions if not isinstance(function, ArgumentBundle)]
    computed = {key.NAME for function in computing for key in function.list_keys()}
    texts: dict[str, str] = {}
    for function in functions:
        _, _, section = (inspect.getdoc(type(function).__call__) or "").partition("\nArgs:\n")
        entries = re.findall(r"^    (\w+): (.+(?:\n        .+)*)", section.partition("\n\n")[0], re.MULTILINE)
        for name in function.parameters().keys() - computed - {*PROVIDED}:
            text = " ".join(dict(entries).get(name, "").split())
            texts[name] = texts.get(name) or ("" if text.startswith("That of") else text)
    if untold := sorted(name for name, text in texts.items() if not text):
        raise SystemExit(f"no function says under Args: what it does with {', '.join(untold)}")
    lines = []
    for name, text in sorted(texts.items()):
        wrapped = textwrap.wrap(text, 116, break_on_hyphens=False, break_long_words=False)
        lines += [f"``{name}``", *(f"    {line}" for line in wrapped)]
    return "\n".join(lines)


#: Each page, the names of its tables, and what makes them.
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "metrics.rst": {
        "metrics": metrics_in_short,
        "formulas of the metrics": facts_of_metrics,
        "elementary functions": elementary,
        "complex numbers": complex_functions,
        "recurrent gates": recurrent_gates,
        "activations": torch_activations,
        "gelu": torch_gelu,
        "reductions": torch_reductions,
        "losses": losses,
        "quantization": quantized,
        "TensorFlow's element-wise operators": tensorflow_elementwise,
        "TensorFlow's reductions": tensorflow_reductions,
    },
    "conventions.rst": {"gradients": torch_gradients},
    "api-profilerkit-metrics.rst": {"metrics": reference_of_metrics},
    "api-profiling.rst": {"arguments": arguments_of_functions},
}


def page_with_tables(page: str) -> str:
    """Return the text of a page with its tables made anew."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, make in PAGES[page].items():
        begin, end = f".. table of {name}: begin", f".. table of {name}: end"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"docs/{page} has no place for the table of {name}: {begin!r} and {end!r}")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{make()}\n\n{end}{rest.split(end)[1]}"
    return text


#: What type checkers read of the metrics, whose modules are found when they are used.
CORE_STUB = DOCS.parent / "profilerkit" / "__init__.pyi"
METRICS_STUB = DOCS.parent / "metrics" / "profilerkit_metrics" / "__init__.pyi"


def stub_of_core() -> str:
    """Return the public names of the core and of the plugins that it hands on, for type checkers."""
    import profilerkit

    return write_stub(profilerkit._MODULES, profilerkit.__all__)


def stub_of_metrics() -> str:
    """Return the public names of the metrics, for type checkers."""
    from profilerkit_metrics.discovery import find_public_names

    modules = {name: f".{module.rpartition('.')[2]}" for name, module in find_public_names().items()}
    return write_stub(modules, sorted(modules))


def write_stub(modules: Mapping[str, str], public: Iterable[str]) -> str:
    """Return a stub that imports each name from its module; ``public`` are the names of ``from package import *``."""
    lines = ["# Written by docs/make_tables.py.", ""]
    by_root = sorted(modules, key=lambda name: (modules[name].startswith("."), modules[name], name))
    for index, name in enumerate(by_root):
        if index and modules[name].startswith(".") and not modules[by_root[index - 1]].startswith("."):
            lines.append("")
        lines.append(f"from {modules[name]} import {name} as {name}")
    return "\n".join([*lines, "", "__all__ = [", *(f'    "{name}",' for name in public), "]", ""])


def written() -> dict[Path, str]:
    """Return what is written, by file."""
    pages = {DOCS / page: page_with_tables(page) for page in PAGES}
    return {**pages, CORE_STUB: stub_of_core(), METRICS_STUB: stub_of_metrics()}


def main() -> None:
    files = written()
    stale = {
        path: text for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    if "--check" in sys.argv:
        names = ", ".join(path.name for path in stale)
        sys.exit(f"tables of {names} are not up to date: run python docs/make_tables.py" if stale else 0)
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
