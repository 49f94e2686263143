"""Where the sources of the project lie, and what stands in them."""

import ast
import configparser
import gc
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"


def packages() -> dict[str, Path]:
    """Return every import package of the project that lies in its source roots."""
    roots = [ROOT, ROOT / "metrics", ROOT / "backends", ROOT / "plugins"]
    found = {path.parent.name: path.parent for root in roots for path in root.glob("profilerkit*/__init__.py")}
    assert found
    return found


@cache
def read_tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file, read once in a process; nobody may change it.

    Trees stay, and are many objects: they are kept out of each later search for garbage, which takes most of the time.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    gc.freeze()
    if is_enabled:
        gc.enable()
    return tree


@cache
def walk(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return the nodes of a tree, listed once in a process: tests of the house go through them a dozen times."""
    nodes = tuple(ast.walk(tree))
    gc.freeze()
    return nodes


def oldest_release(extra: str) -> str:
    """Return the lower bound of the first requirement of an extra in setup.cfg."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    bound = re.match(r"\s*[\w-]+>=([\d.]+)", settings["options.extras_require"][extra])
    if bound is None:
        raise LookupError(f"the extra {extra!r} has no lower bound")
    return bound[1]
