"""Write what examples print into the pages: ``python docs/make_outputs.py [PAGE ...]``, such as ``README.rst``.

All python blocks of a file run in order, in one namespace and in a folder of their own. A comment before a block says
more about it: ``.. output`` is what the python block above it prints, ``.. file: NAME`` is written to that file instead
of run. In a console block every line ``$ profilerkit ...`` runs; what follows it is what it prints.

``.. needs: PACKAGE ...`` below the title of a section, or of a page, leaves its blocks out where a package is missing.

An output that differs only in measured times is left as it is. A test runs the pages too, and fails where one differs.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

DOCS = Path(__file__).parent
PAGES = [DOCS.parent / "README.rst", *sorted(DOCS.glob("*.rst"))]
#: The width of a terminal that the pages show.
COLUMNS = "100"

#: A line with one of these differs from run to run; only the words before its first number are compared.
VARYING = re.compile(
    r"\d ?(ns|µs|ms|s|samples/s)\b|Time  |Throughput|samples/s|MACs/s|0\.\d+ of the|"
    r"torch \d|transformers \d|profilerkit \d|\d threads?|run [0-9a-f]{12}"
)


#: What titles are underlined with, from the page's own to those of the innermost sections.
UNDERLINES = "=-~"


class Block(NamedTuple):
    """A code block of a page: its language, the comment before it, its first line, its code, what its section needs."""

    language: str
    comment: str
    line: int
    code: str
    needs: frozenset[str]

    @property
    def can_run(self) -> bool:
        """Whether all that its section needs is installed."""
        return all(find_spec(package) is not None for package in self.needs)


def find_blocks(text: str) -> Iterator[Block]:
    """Yield the code blocks of a page in reStructuredText."""
    lines = text.splitlines()
    needs: list[str] = []  # of the section that a line is in, and of those around it
    for number, line in enumerate(lines):
        if re.fullmatch(rf"([{re.escape(UNDERLINES)}])\1+", line) and lines[number - 1].strip():
            needs = [*needs[: UNDERLINES.index(line[0])], ""]
        elif line.startswith(".. needs: "):
            needs[-1] = line.removeprefix(".. needs: ")
        match = re.fullmatch(r"( *)\.\. code-block:: *(\w+)", line)
        if not match:
            continue
        inside = f"{match[1]} "
        end = number + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(inside)):
            end += 1
        option = re.compile(r" +:[\w-]+:|$")
        first = next(item for item in range(number + 1, end) if not option.match(lines[item]))
        before = next((one_line.strip() for one_line in reversed(lines[:number]) if one_line.strip()), "")
        comment = before.removeprefix(".. ") if re.match(r"\.\. (output|file: \S+)$", before) else ""
        code = textwrap.dedent("\n".join(lines[first:end])).strip("\n") + "\n"
        yield Block(match[2], comment, first + 1, code, frozenset(" ".join(needs).split()))


#: Parts of notes that are there or not as the times of one run are; long ones are wrapped.
OF_THIS_RUN = ("noisy", "Noisy", "busy machine", "was requested", "marks a ratio whose interval holds 1")


#: What the brackets of a ratio hold: an interval, or where a busy machine left too few samples their range.
IN_BRACKETS = re.compile(r"(?<=brackets hold the ).*(?= of the ratio)")

#: The noise or the interval of a number above, where a table has no room for both in one line.
FOLDED = re.compile(r" {20,}(±|\[)[^A-Za-z]*( to [^A-Za-z]*)?$")

#: What the rest of a sentence begins with.
_GOES_ON = frozenset("abcdefghijklmnopqrstuvwxyz0123456789±")


def rejoin_tables(output: str) -> str:
    """Return an output whose tables go on in one line each: how wide a time is shown decides whether one is split."""
    blocks: list[list[str]] = []
    for text in re.split(r"\n[ \t]*\n", output):
        lines = text.strip("\n").splitlines()
        if not (blocks and lines and lines[0].endswith(", continued")):
            blocks.append(lines)
            continue
        title, *before = blocks[-1]
        behind = [""] * (len(before) - len(lines) + 1) + lines[1:]  # a part without names of models has a line less
        first = [line.strip().partition("  ")[0] for line in before]
        rest = [line.strip().removeprefix(label) for line, label in zip(behind, first, strict=True)]
        blocks[-1] = [title, *(f"{line}  {more}" for line, more in zip(before, rest, strict=True))]
    return "\n\n".join("\n".join(block) for block in blocks)


def essence(output: str) -> list[str]:
    """Return the lines of an output without what may differ from run to run: times, widths of columns."""
    kept, goes_on = [], False
    for line in rejoin_tables(output).splitlines():
        of_this_run = any(words in line for words in OF_THIS_RUN)
        if of_this_run or (goes_on and line.lstrip()[:1] in _GOES_ON):
            goes_on = of_this_run and len(line) > 80  # the rest of the sentence is in the next line
            continue
        goes_on = False
        if FOLDED.match(line):
            continue
        line = IN_BRACKETS.sub("values", line)
        words = re.split(r"[\d≥-]", line)[0] if VARYING.search(line) else line
        if words.strip() and not re.fullmatch(r"[\s─-]+", words):
            kept.append(" ".join(words.split()))
    return [line for line in kept if line]


class Page:
    """Runs the blocks of one page.

    Attributes:
        differences: Each block that prints something else than the page says, with the code that would be true.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        self.differences: list[tuple[Block, str]] = []

    def run(self) -> None:
        """Run what can be run; what it imports from its own folder, and plugins that it registers, are forgotten."""
        try:
            with forget_formulas():
                for block in find_blocks(self.path.read_text(encoding="utf-8")):
                    if block.can_run:
                        self._run(block)
        finally:
            import_module("profilerkit.hooks.offers").forget()
            for written in Path.cwd().glob("*.py"):
                sys.modules.pop(written.stem, None)

    def _run(self, block: Block) -> None:
        if block.comment.startswith("file: "):
            Path(block.comment.removeprefix("file: ")).write_text(block.code, encoding="utf-8")
        elif block.comment == "output":
            if essence(self.printed) != essence(block.code):
                self.differences.append((block, self.printed))
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.code, str(self.path), "exec")
            with redirect_stdout(StringIO()) as printed:
                exec(code, self.namespace)
            self.printed = printed.getvalue()
        elif block.language == "console":
            self._console(block)

    def _console(self, block: Block) -> None:
        parts = re.split(r"^\$ ", block.code, flags=re.MULTILINE)
        true = [self._command(part) for part in parts]
        if true != parts:
            self.differences.append((block, "$ ".join(true)))

    def _command(self, part: str) -> str:
        """Run a command of profilerkit's, and return it with what it prints, as the page has it if that is true."""
        command, _, expected = part.partition("\n")
        if not command.startswith("profilerkit"):
            return part
        cli = import_module("profilerkit.cli").cli
        arguments, _, target = command.partition(" > ")
        result = CliRunner().invoke(cli, shlex.split(arguments)[1:], prog_name="profilerkit")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if target:
            Path(target).write_text(result.stdout, encoding="utf-8")
        if not expected.strip() or essence(result.output) == essence(expected):
            return part
        return f"{command}\n{result.output}"

    def correct(self) -> str:
        """Return the text of the page with what the blocks print."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        for block, true in reversed(self.differences):
            first, old = block.line - 1, block.code.splitlines()
            indent = re.match(" *", lines[first])
            inside = textwrap.indent(true.strip("\n"), indent[0] if indent else "").splitlines()
            lines[first : first + len(old)] = [line.rstrip() for line in inside]
        return "\n".join(lines) + "\n"


@contextmanager
def forget_formulas() -> Iterator[None]:
    """Forget at the end what formulas a page gave to the backends."""
    with ExitStack() as scopes:
        for package in ("profilerkit_torch", "profilerkit_tensorflow"):
            if find_spec(package.removeprefix("profilerkit_")) is not None:
                scopes.enter_context(import_module(f"{package}.costs").scoped_costs())
        yield


def importable_folders() -> list[str]:
    """Return the folders whose modules the examples import, as the tests have them."""
    settings = ConfigParser(interpolation=None)
    settings.read(DOCS.parent / "setup.cfg", encoding="utf-8")
    return settings["tool:pytest"]["pythonpath"].split()


def main(names: list[str]) -> None:
    os.environ["COLUMNS"] = COLUMNS
    sys.path[:0] = ["", *(str(DOCS.parent / folder) for folder in importable_folders())]
    for path in PAGES:
        if names and path.name not in names:
            continue
        page = Page(path)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            page.run()
            os.chdir(DOCS)
        if page.differences:
            path.write_text(page.correct(), encoding="utf-8")
            print(f"{path.name}: lines {', '.join(str(block.line) for block, _ in page.differences)}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
