"""Write what editors know of the arguments that go to functions by name: ``python docs/make_keywords.py``.

The functions of the metrics, and what every profiler has, are the only place where these arguments are defined: each
with a type, and with a sentence under ``Args:``. From them this writes ``profilerkit/arguments/keywords.py``, and the
overloads of the functions that pass such arguments on. A test holds the files equal to what is written here.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from profilerkit.arguments.rules import RULES, SEVERAL
from profilerkit.piping.function import ProfilerFunction
from profilerkit.piping.intrinsic import INTRINSIC
from profilerkit.piping.options import BUNDLES
from profilerkit.piping.registry import PROVIDED
from profilerkit.plugging import offers
from profilerkit.testing import FakeBackend

ROOT = Path(__file__).parent.parent
#: The functions and methods with overloads, by the file that defines them.
OVERLOADED: dict[str, tuple[str, ...]] = {
    "profilerkit/api.py": ("profile", "compare"),
    "profilerkit/computing.py": ("Computing.compute_status", "Computing.compute", "Computing.compute_each"),
    "profilerkit/isolation/api.py": ("isolated", "isolated_comparison"),
    "profilerkit/profiler.py": ("Profiler.compute_network_status", "Profiler.compare"),
    "profilerkit/times/watching.py": ("Watch.report",),
}
#: Those that have no arguments of their own for ``NAMED``, and pass them on too.
PASSES_NAMED_ON = ("Computing.", "Profiler.")
#: The arguments that these functions have themselves.
NAMED = ("batch_size", "device")
BEGIN = "# The arguments of {name} for editors, written by docs/make_keywords.py: begin"
END = "# The arguments of {name} for editors: end"


# The arguments --------------------------------------------------------------------------------------------------------


@cache
def functions() -> tuple[ProfilerFunction, ...]:
    """Return what every profiler has, and what profilerkit's own plugins offer for a backend."""
    offered = offers.functions_offered(FakeBackend())
    return (*BUNDLES, *INTRINSIC, *(offer.item for offer in offered if offer.plugin.is_own))


def keys(value_type: str | None = None) -> list[str]:
    """Return the names of the status keys that people ask for: all, or those of one `Metric.VALUE_TYPE`."""
    asked = functions()[len(BUNDLES) + len(INTRINSIC) :]
    bounded = (key for function in asked for key in function.bounded_keys())
    return sorted({key.NAME for key in bounded if value_type in (None, getattr(key, "VALUE_TYPE", ""))})


@cache
def documented(function: type[ProfilerFunction]) -> Mapping[str, str]:
    """Return the sentences under ``Args:`` of a function, by argument."""
    _, heading, section = (inspect.getdoc(function.__call__) or "").partition("\nArgs:\n")
    entries = (
        re.findall(r"^    (\w+): (.+(?:\n        .+)*)", section.partition("\n\n")[0], re.MULTILINE) if heading else []
    )
    return {name: " ".join(text.split()) for name, text in entries}


#: What a function says of an argument that another one documents.
_ELSEWHERE = "That of"


def options() -> dict[str, tuple[str, str]]:
    """Return each argument that a caller may pass by name, with its type and what it is for."""
    bundles = {key.NAME for bundle in BUNDLES for key in bundle.bounded_keys()}
    computed = {key.NAME for function in functions() for key in function.bounded_keys()} - bundles
    types: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for function in functions():
        module = sys.modules[type(function).__module__]
        for name, parameter in function.parameters().items():
            if name not in computed and name not in PROVIDED:
                types.setdefault(name, []).extend(_members(parameter.annotation, module))
                text = documented(type(function)).get(name, "")
                texts[name] = texts.get(name) or ("" if text.startswith(_ELSEWHERE) else text)
    for name, several in SEVERAL.items():
        types[name] += types[several.argument]
    untold = sorted(name for name, text in texts.items() if not text)
    if untold:
        raise SystemExit(f"no function says under Args: what it does with {', '.join(untold)}")
    return {name: (_union(_allowed(name, types[name])), texts[name]) for name in sorted(types)}


def _allowed(name: str, members: list[str]) -> list[str]:
    """Return the types of an argument; None is one where the argument's rule, if there is one, allows it."""
    return members if name not in RULES or RULES[name].optional else [each for each in members if each != "None"]


def _members(annotation: str, module: Any) -> Iterator[str]:
    """Yield the types of which an annotation is the union; a `Literal` of the module's own is spelled out."""
    for part in re.split(r" \| (?![^\[]*\])", annotation):
        value = getattr(module, part, None)
        if get_origin(value) is Literal:
            yield f"Literal[{', '.join(map(_quoted, get_args(value)))}]"
        else:
            yield part


def _union(members: Iterable[str]) -> str:
    each = dict.fromkeys(members)
    return " | ".join([*(name for name in each if name != "None"), *(["None"] if "None" in each else [])])


def _quoted(text: str) -> str:
    return f'"{text}"'


def imports(annotations: Iterable[str]) -> list[str]:
    """Return the import statements for the names in annotations, as the modules of the functions have them."""
    names = {name for text in annotations for name in re.findall(r"\b[A-Za-z]\w*", re.sub(r'"[^"]*"', "", text))}
    sources: dict[str, str] = {}
    for function in functions():
        module = sys.modules[type(function).__module__]
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom):
                source = resolve_name("." * node.level + (node.module or ""), module.__package__ or "")
                sources.update({alias.name: source for alias in node.names if alias.name in names})
            elif isinstance(node, ast.Import):
                sources.update({alias.name: "" for alias in node.names if alias.name in names})
    by_source: dict[str, list[str]] = {}
    for name, source in sources.items():
        by_source.setdefault(_relative(source), []).append(name)
    lines = {source: ", ".join(sorted(members, key=str.swapcase)) for source, members in by_source.items()}
    plain = [f"import {name}" for name in sorted(by_source.pop("", []))]
    standard = [source for source in sorted(by_source) if not source.startswith(".")]
    relative = [source for source in sorted(by_source) if source.startswith(".")]
    imported = [f"from {source} import {lines[source]}" for source in standard if source != "typing"]
    return [*plain, *imported, "", *(f"from {source} import {lines[source]}" for source in relative)]


def _relative(source: str) -> str:
    """Return a module of profilerkit's as a file in ``profilerkit/arguments`` imports it."""
    return f".{source.removeprefix('profilerkit')}" if source.startswith("profilerkit.") else source


# The module -----------------------------------------------------------------------------------------------------------

MODULE = '''"""The arguments that go to functions by name, and the names that are known, for editors and `help`.

Written by docs/make_keywords.py from the functions of the metrics; do not change it by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
{imports}

__all__ = [
    "ComputeOptions",
    "FigureKind",
    "FloatKey",
    "FormName",
    "IntKey",
    "KeyName",
    "MeasurementKey",
    "ProfileOptions",
]

#: The status keys of the metrics that profilerkit comes with; plugins may add others.
KeyName: TypeAlias = Literal[
{keys}
]
#: Those of them whose complete value is an `int`.
IntKey: TypeAlias = Literal[
{ints}
]
#: Those of them whose complete value is a `float`.
FloatKey: TypeAlias = Literal[
{floats}
]
#: Those of them whose complete value is a `Measurement`.
MeasurementKey: TypeAlias = Literal[
{measurements}
]
#: The forms that a report is written in; plugins may add others.
FormName: TypeAlias = Literal[
{forms}
]
#: The kinds of figures.
FigureKind: TypeAlias = Literal[
{kinds}
]


class ProfileOptions(TypedDict, total=False):
    """What `profile` and the like pass to functions by name, beside their own arguments.

    Args:
{texts}
    """

{profile}

class ComputeOptions(ProfileOptions, total=False):
    """What the methods of a `Profiler` pass to functions by name: two more than `ProfileOptions` has."""

{compute}'''


def module() -> str:
    """Return the text of ``profilerkit/arguments/keywords.py``."""
    from profilerkit.figures import KINDS

    every = options()
    statements = imports(annotation for annotation, _ in every.values())
    builtin = [offer.item.name for offer in offers.offered_renderers() if offer.plugin.is_own]
    return MODULE.format(
        imports=textwrap.indent("\n".join(statements), "    "),
        keys=_listed(keys()),
        ints=_listed(keys("int")),
        floats=_listed(keys("float")),
        measurements=_listed(keys("Measurement")),
        forms=_listed(sorted(builtin)),
        kinds=_listed(sorted(KINDS)),
        texts="\n".join(_entries(every, [name for name in every if name not in NAMED])),
        profile=_fields(every, [name for name in every if name not in NAMED]),
        compute=_fields(every, NAMED),
    )


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f'    "{name}",' for name in names)


def _fields(every: Mapping[str, tuple[str, str]], names: Iterable[str]) -> str:
    lines = []
    for name in names:
        annotation, text = every[name]
        lines += [f"    {name}: {annotation}", *textwrap.wrap(f'"""{text}"""', 116, **_DOCSTRING)]
    return "\n".join(lines) + "\n"


def _entries(every: Mapping[str, tuple[str, str]], names: Iterable[str]) -> Iterator[str]:
    indents: dict[str, Any] = {"initial_indent": " " * 8, "subsequent_indent": " " * 12}
    for name in names:
        yield from textwrap.wrap(f"{name}: {every[name][1]}", 116, break_on_hyphens=False, **indents)


_DOCSTRING: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    ", "break_on_hyphens": False}


# The overloads --------------------------------------------------------------------------------------------------------


def overloads(text: str, name: str) -> str:
    """Return the overloads of a function: with the well-known arguments alone, and with those of plugins beside them.

    The second one names the arguments too: a wrong value for one of them would be taken for a plugin's otherwise.
    A method is called ``Class.method``.
    """
    *classes, short = name.split(".")
    nodes = ast.parse(text).body
    if classes:
        (nodes,) = [node.body for node in nodes if isinstance(node, ast.ClassDef) and node.name == classes[0]]
    (node,) = [
        node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == short and not _is_overload(node)
    ]
    kind, left_out = ("ComputeOptions", ()) if name.startswith(PASSES_NAMED_ON) else ("ProfileOptions", NAMED)
    declared, further = (
        [*_parameters(node.args)],
        [f"{key}: {options()[key][0]} = ..." for key in options() if key not in left_out],
    )
    lines = ["# fmt: off"]
    star = [] if "*" in declared or node.args.vararg else ["*"]
    for last in ([f"**options: Unpack[{kind}]"], [*star, *further, "**of_plugins: Any"]):
        whole = ", ".join(
            parameter.replace(" ", "\0") for parameter in [*declared, *last]
        )  # no line ends inside of one
        width = 112 if classes else 116
        parameters = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
        wrapped = [f"    {line}".replace("\0", " ") for line in parameters]
        result = ast.unparse(node.returns or ast.Constant(None))
        lines += ["@overload", f"def {short}(", *wrapped, f") -> {result}: ..."]
    return textwrap.indent("\n".join([*lines, "# fmt: on"]), "    " if classes else "")


def _is_overload(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    """Yield the parameters of a function as an overload has them."""
    required = len(arguments.args) - len(arguments.defaults)
    for index, each in enumerate(arguments.args):
        if each.arg == "self":
            yield "self"
            continue
        yield f"{each.arg}: {ast.unparse(each.annotation or ast.Name('Any'))}{'' if index < required else ' = ...'}"
    if arguments.vararg or arguments.kwonlyargs:
        yield f"*{arguments.vararg.arg}: Any" if arguments.vararg else "*"
    for each in arguments.kwonlyargs:
        yield f"{each.arg}: {ast.unparse(each.annotation or ast.Name('Any'))} = ...".replace("'", '"')


def with_overloads(path: str) -> str:
    """Return the text of a file with the overloads of its functions made anew."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for name in OVERLOADED[path]:
        begin, end = BEGIN.format(name=name), END.format(name=name)
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"{path} has no place for the overloads of {name}: {begin!r} and {end!r}")
        before, rest = text.split(begin)
        indent = "    " if "." in name else ""
        text = f"{before}{begin}\n{overloads(text, name)}\n{indent}{end}{rest.split(end)[1]}"
    return text


def written() -> dict[Path, str]:
    """Return what is written, by file."""
    texts = {ROOT / path: with_overloads(path) for path in OVERLOADED}
    return {ROOT / "profilerkit" / "arguments" / "keywords.py": module(), **texts}


def main() -> None:
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
