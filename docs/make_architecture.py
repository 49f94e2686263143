"""Draw the rooms of each package from its imports, and write their tables: ``python docs/make_architecture.py``.

A room is a folder of a package, or a file that lies in none. An arrow says that one room imports another, lazily too;
what is imported for type checkers alone is left out. Each picture is an SVG in ``docs/pictures``, laid out in layers:
a room lies above all that it imports. An arrow that follows from others is not drawn. The tables of
``docs/architecture-parts.rst`` are the docstrings of the rooms.

With ``--check`` nothing is written, and the exit code is 1 where a file is not up to date; a test does that too.
"""

from __future__ import annotations

import ast
import random
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(DOCS)]

from import_graph import Graph, circles, find_reached, graph_of_rooms  # noqa: E402
from make_tables import table  # noqa: E402

PAGE = DOCS / "architecture-parts.rst"
PACKAGES = {
    "profilerkit": ROOT / "profilerkit",
    **{path.name: path for path in sorted((ROOT / "plugins").glob("profilerkit_*"))},
    "profilerkit_torch": ROOT / "backends" / "profilerkit_torch",
    "profilerkit_tensorflow": ROOT / "backends" / "profilerkit_tensorflow",
    "profilerkit_jax": ROOT / "backends" / "profilerkit_jax",
    "profilerkit_onnx": ROOT / "backends" / "profilerkit_onnx",
    "profilerkit_litert": ROOT / "backends" / "profilerkit_litert",
    "profilerkit_openvino": ROOT / "backends" / "profilerkit_openvino",
}

# The rooms and their arrows -------------------------------------------------------------------------------------------


def arrows(package: str) -> Graph:
    """Return what each room of a package imports of the other rooms; `SystemExit` if they do so in a circle."""
    graph = graph_of_rooms(package, PACKAGES[package])
    if circular := circles(graph):
        sys.exit(f"rooms import each other in a circle: {', '.join(sorted(circular[0]))}")
    short = {name: name.removeprefix(f"{package}.") for name in graph}
    return {short[name]: {short[other] for other in others} for name, others in graph.items()}


def without_implied(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return a graph without the arrows that follow from others: a room that is reached over another one too."""
    return {
        name: {
            one_other
            for one_other in others
            if not any(one_other in find_reached(other, graph) for other in others - {one_other})
        }
        for name, others in graph.items()
    }


# Layout in layers -----------------------------------------------------------------------------------------------------

Layers = list[list[str]]
Links = list[tuple[str, str]]


class Layout(NamedTuple):
    """Where each room lies, and the points that each arrow passes."""

    centers: dict[str, tuple[int, int]]
    routes: dict[tuple[str, str], list[str]]


LABEL, GAP, STEP, HEIGHT, MARGIN = 7.6, 26, 74, 34, 24


def measure_width(name: str) -> float:
    """Return how wide a room's box is; an arrow that passes a layer takes a little place there too."""
    return 2 if "|" in name else LABEL * len(name) + 24


def ranks(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the layer of each room from below: one above the highest that it imports."""
    ranked: dict[str, int] = {}

    def rank(name: str) -> int:
        if name not in ranked:
            ranked[name] = 1 + max(map(rank, sorted(graph[name])), default=-1)
        return ranked[name]

    for name in sorted(graph):
        rank(name)
    return ranked


def layout(graph: Mapping[str, set[str]]) -> Layout:
    """Place the rooms: in layers, each in the order with the fewest crossings that was found, near what it imports."""
    height = ranks(graph)
    layers: Layers = [[] for _ in range(1 + max(height.values()))]
    for name in sorted(graph):
        layers[height[name]].append(name)
    routes: dict[tuple[str, str], list[str]] = {}
    for name, other in [(high, low) for high in sorted(graph) for low in sorted(graph[high])]:
        passed = range(height[name] - 1, height[other], -1)
        routes[name, other] = [name, *(f"{name}|{other}|{level}" for level in passed), other]
        for point, level in zip(routes[name, other][1:-1], passed, strict=True):
            layers[level].append(point)
    links = [link for route in routes.values() for link in pairwise(route)]
    layers = _fewest_crossings(layers, links)
    across = _spread(layers, links)
    left = min(across[name] - measure_width(name) / 2 for name in across)
    top = len(layers) - 1
    centers = {
        name: (round(across[name] - left + MARGIN), round((top - level) * STEP + HEIGHT / 2 + MARGIN))
        for level, names in enumerate(layers)
        for name in names
    }
    return Layout(centers, routes)


def _neighbors(links: Links) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    below: dict[str, list[str]] = {}
    above: dict[str, list[str]] = {}
    for high, low in links:
        below.setdefault(high, []).append(low)
        above.setdefault(low, []).append(high)
    return below, above


def crossings(layers: Layers, links: Links) -> int:
    """Return how many pairs of arrows cross."""
    index = {name: position for names in layers for position, name in enumerate(names)}
    level = {name: height for height, names in enumerate(layers) for name in names}
    by_level: dict[int, list[tuple[int, int]]] = {}
    for high, low in links:
        by_level.setdefault(level[low], []).append((index[high], index[low]))
    return sum(
        (one[0] - two[0]) * (one[1] - two[1]) < 0
        for pairs in by_level.values()
        for position, one in enumerate(pairs)
        for two in pairs[:position]
    )


def _fewest_crossings(layers: Layers, links: Links, trials: int = 30) -> Layers:
    """Return the layers in the best order of several: each from another start, improved by means of neighbors."""
    below, above = _neighbors(links)
    best, fewest = layers, crossings(layers, links)
    for seed in range(trials):
        tried = [random.Random(seed).sample(names, len(names)) for names in layers]
        for sweep in range(16):
            neighbors, order = (below, tried[1:]) if sweep % 2 == 0 else (above, tried[-2::-1])
            _sort_near_neighbors(tried, order, neighbors)
            count = crossings(tried, links)
            if count < fewest:
                best, fewest = [list(names) for names in tried], count
    return best


def _sort_near_neighbors(layers: Layers, order: Layers, neighbors: Mapping[str, list[str]]) -> None:
    """Sort some of the layers, one after the other, each room near the middle of its neighbors."""
    index = {name: position for names in layers for position, name in enumerate(names)}
    for names in order:
        means = {name: _mean(index, neighbors.get(name, [name])) for name in names}
        names.sort(key=lambda name: (means[name], index[name]))
        index.update({name: position for position, name in enumerate(names)})


def _mean(places: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(places[name] for name in names) / len(names)


def _spread(layers: Layers, links: Links, sweeps: int = 200) -> dict[str, float]:
    """Return how far right each room lies: as near to its neighbors as the others of its layer allow."""
    below, above = _neighbors(links)
    across: dict[str, float] = {}
    for names in layers:
        at = 0.0
        for name in names:
            across[name] = at + measure_width(name) / 2
            at += measure_width(name) + GAP
    for _ in range(sweeps):
        for names in (*layers, *layers[::-1]):
            pulled = [_pull(name, across, [*below.get(name, []), *above.get(name, [])]) for name in names]
            across.update(zip(names, _apart(names, pulled), strict=True))
    return across


def _pull(name: str, across: Mapping[str, float], neighbors: Sequence[str]) -> float:
    """Return where a room's neighbors pull it; the points of one arrow hold together, so that it runs straight."""
    weights = [1 if "|" not in f"{name}{other}" else 8 if "|" in name and "|" in other else 2 for other in neighbors]
    pulls = sum(weight * across[other] for weight, other in zip(weights, neighbors, strict=True))
    return pulls / sum(weights) if weights else across[name]


def _apart(names: Sequence[str], pulled: Sequence[float]) -> list[float]:
    """Return positions near the pulled ones, in order and not overlapping: groups that touch move as one."""
    offsets = [0.0]
    for one, two in pairwise(names):
        offsets.append(offsets[-1] + (measure_width(one) + measure_width(two)) / 2 + GAP)
    groups: list[tuple[float, int]] = []
    for position, offset in zip(pulled, offsets, strict=True):
        groups.append((position - offset, 1))
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (first, many), (second, more) = groups[-2:]
            groups[-2:] = [((first * many + second * more) / (many + more), many + more)]
    starts = [start for start, count in groups for _ in range(count)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


# The picture ----------------------------------------------------------------------------------------------------------

STYLE = """
    svg { color-scheme: light dark }
    .paper { fill: #ffffff } .room { fill: #e8f0fb; stroke: #3566a8 } .file { fill: #f6f6f6; stroke: #767676 }
    .arrow { fill: none; stroke: #5a6b7e; stroke-width: 1.3; marker-end: url(#down) }
    text { fill: #16202c; font: 13px ui-monospace, Menlo, Consolas, monospace; text-anchor: middle }
    #down path { fill: #5a6b7e }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #131416 } .room { fill: #1c2b40; stroke: #79a8e8 } .file { fill: #26282b; stroke: #9a9a9a }
      .arrow { stroke: #9fb0c3 } text { fill: #eef2f7 }
      #down path { fill: #9fb0c3 }
    }
"""
HEAD = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'


def picture(package: str) -> str:
    """Return the SVG of a package's rooms."""
    folder = PACKAGES[package]
    rooms = arrows(package)
    placed = layout(without_implied(rooms))
    width = round(max(x + measure_width(name) / 2 for name, (x, _) in placed.centers.items())) + MARGIN
    height = max(y for _, y in placed.centers.values()) + HEIGHT // 2 + MARGIN
    title = f"The parts of {package}; an arrow means that one part imports another"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{title}">',
        f"  <title>{title}</title>",
        f"  <style>{STYLE}  </style>",
        f'  <defs><marker id="down" {HEAD}><path d="M0 0L8 4L0 8z"/></marker></defs>',
        f'  <rect class="paper" width="{width}" height="{height}"/>',
        *(f'  <path class="arrow" d="{_path(placed, route)}"/>' for route in placed.routes.values()),
        *(_box(name, placed.centers[name], (folder / name).is_dir()) for name in sorted(rooms)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(name: str, center: tuple[int, int], is_folder: bool) -> str:
    x, y = center
    width = round(measure_width(name))
    kind, corner = ("room", 7) if is_folder else ("file", 0)
    return (
        f'  <rect class="{kind}" x="{x - width // 2}" y="{y - HEIGHT // 2}" width="{width}" height="{HEIGHT}" '
        f'rx="{corner}"/><text x="{x}" y="{y + 4}">{name}</text>'
    )


def _path(placed: Layout, route: Sequence[str]) -> str:
    """Return the way of an arrow: from below one box, past others in their layers, to above another."""
    points = [placed.centers[name] for name in route]
    start = (_port(placed, route[0], route[1], leaves=True), points[0][1] + HEIGHT // 2)
    end = (_port(placed, route[-1], route[-2], leaves=False), points[-1][1] - HEIGHT // 2)
    parts = [f"M{start[0]} {start[1]}"]
    last = start
    for x, y in points[1:-1]:
        top, bottom = y - HEIGHT // 2, y + HEIGHT // 2
        bend = (top - last[1]) // 2
        parts.append(f"C{last[0]} {last[1] + bend} {x} {top - bend} {x} {top}V{bottom}")
        last = (x, bottom)
    bend = (end[1] - last[1]) // 2
    parts.append(f"C{last[0]} {last[1] + bend} {end[0]} {end[1] - bend} {end[0]} {end[1]}")
    return "".join(parts)


def _port(placed: Layout, name: str, toward: str, *, leaves: bool) -> int:
    """Return where on its box an arrow begins or ends: side by side with the others, in the order of their ways."""
    mine = [
        route[1] if leaves else route[-2]
        for route in placed.routes.values()
        if (route[0] if leaves else route[-1]) == name
    ]
    mine.sort(key=lambda other: (placed.centers[other][0], other))
    space = min(22.0, (measure_width(name) - 20) / max(1, len(mine) - 1))
    return round(placed.centers[name][0] + (mine.index(toward) - (len(mine) - 1) / 2) * space)


# The tables -----------------------------------------------------------------------------------------------------------


def table_of_rooms(package: str) -> str:
    """Return the table of a package's rooms in reStructuredText: the first paragraph of each docstring."""
    rows = []
    places = {name.replace(".", "/"): PACKAGES[package] / name.replace(".", "/") for name in arrows(package)}
    for name, folder in sorted(places.items(), key=lambda item: (not item[1].is_dir(), item[0])):
        is_folder = folder.is_dir()
        path = folder / "__init__.py" if is_folder else folder.with_suffix(".py")
        first, *others = textwrap.wrap(summary(path), 84)
        rows += [(f"``{name}/``" if is_folder else f"``{name}.py``", first), *(("", line) for line in others)]
    return table(("part", "contents"), rows)


def summary(path: Path) -> str:
    """Return the first paragraph of a file's docstring, names in literals."""
    written = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    text = " ".join(written.partition("\n\n")[0].split())
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)


def page() -> str:
    """Return the text of the page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    for package in PACKAGES:
        text = _between(text, f"rooms of {package}", table_of_rooms(package))
    return _between(text, "files of the backends", table_of_backends())


def _between(text: str, name: str, made_anew: str) -> str:
    begin, end = f".. {name}: begin", f".. {name}: end"
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{made_anew}\n\n{end}{rest.split(end)[1]}"


# The files that backends share ----------------------------------------------------------------------------------------

#: The backends, and the rooms that they have in common.
BACKENDS = ("profilerkit_torch", "profilerkit_tensorflow", "profilerkit_jax", "profilerkit_onnx")
SHARED_ROOMS = (
    "",
    *("model", "trace", "training", "running", "layer_timing", "operator_timing", "costs", "untouched"),
)
#: Files of one name that stand in another room in one backend, and why.
ELSEWHERE = {
    ("profilerkit_torch", "costs/pricing"): "a run on real tensors is priced too, not only the static pass",
    ("profilerkit_torch", "trace/samples"): "a trace tells the layers that read a sample",
    ("profilerkit_tensorflow", "trace/observation"): "an eager run is observed where no graph can be traced",
}


def find_shared_files() -> dict[str, dict[str, Path]]:
    """Return the files that several backends have in a room of one name: by room and file, of each backend its path."""
    shared: dict[str, dict[str, Path]] = {}
    for room in SHARED_ROOMS:
        for package in BACKENDS:
            for path in sorted((PACKAGES[package] / room).glob("*.py")):
                if path.stem != "__init__":
                    shared.setdefault(f"{room}/{path.stem}".lstrip("/"), {})[package] = path
    return {name: paths for name, paths in shared.items() if len(paths) > 1}


def table_of_backends() -> str:
    """Return the table of the files that backends share, and the list of those that stand elsewhere in one."""
    titles = [package.removeprefix("profilerkit_") for package in BACKENDS]
    rows = ["   * - File", *(f"     - {title}" for title in titles), "     - Contents"]
    for name, paths in find_shared_files().items():
        shortest = min((summary(path).partition(". ")[0].rstrip(".") for path in paths.values()), key=len)
        rows += [f"   * - ``{name}.py``", *("     - x" if package in paths else "     -" for package in BACKENDS)]
        rows += textwrap.wrap(shortest, 110, initial_indent="     - ", subsequent_indent="       ")
    table_head = [".. list-table::", "   :header-rows: 1", "   :widths: 30 7 7 7 7 42", ""]
    notes = [
        "\n".join(textwrap.wrap(f"- ``{name}.py`` of ``{package}``: {reason}.", 118, subsequent_indent="  "))
        for (package, name), reason in ELSEWHERE.items()
    ]
    return "\n".join([*table_head, *rows, "", "Files of these names stand in another room in one backend:", "", *notes])


def made() -> dict[Path, str]:
    """Return every file that this script writes, with its content."""
    pictures = {DOCS / "pictures" / f"rooms_{package}.svg": picture(package) for package in PACKAGES}
    return {**pictures, PAGE: page()}


def main() -> None:
    stale = {
        path: text for path, text in made().items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    if "--check" in sys.argv:
        names = ", ".join(path.name for path in stale)
        sys.exit(f"{names} not up to date: run python docs/make_architecture.py" if stale else 0)
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
