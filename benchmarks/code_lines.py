"""Count the lines of code of each package, of its tests and of the rest: ``python benchmarks/code_lines.py [COMMIT]``.

A line of code has a token that is no comment and no docstring. With a commit, the files of that commit are counted.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("backends", "metrics")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """Return how many lines of a Python file have code.

    >>> code_lines('"A docstring."\\n\\n# A comment.\\nx = (\\n    1,  # another\\n)\\n')
    3
    """
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def find_part(path: str) -> str:
    """Return the row of a file: its package, the folder of its tests, or its folder at the root."""
    folders = path.split("/")[:-1] or ["."]
    if folders[0] == "tests" and (len(folders) == 1 or folders[1] == "support"):
        return "/".join(folders)
    return "/".join(folders[: 2 if folders[0] in (*SOURCES, "tests", "examples") else 1])


def files(commit: str | None) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each Python file that git tracks, now or at a commit."""
    listed = ["ls-files"] if commit is None else ["ls-tree", "-r", "--name-only", commit]
    for path in filter(lambda name: name.endswith(".py"), git(*listed).splitlines()):
        yield path, (ROOT / path).read_text(encoding="utf-8") if commit is None else git("show", f"{commit}:{path}")


def git(*command: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print a row for each part, then the sums of source, tests and everything."""
    counts: Counter[str] = Counter()
    for path, text in files(sys.argv[1] if len(sys.argv) > 1 else None):
        counts[find_part(path)] += code_lines(text)
    source = sum(lines for part, lines in counts.items() if part.startswith(("profilerkit", *SOURCES)))
    tests = sum(lines for part, lines in counts.items() if part.startswith("tests"))
    for part, lines in sorted(counts.items()):
        print(f"{part:<36} {lines:>8,}")
    for name, lines in {"source": source, "tests": tests, "source and tests": source + tests}.items():
        print(f"{name:<36} {lines:>8,}")


if __name__ == "__main__":
    main()
