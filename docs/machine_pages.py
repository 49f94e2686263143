"""What the site has for readers that are programs: ``llms.txt``, a line for each page, and the index of public names.

A Sphinx extension. Both come from the pages themselves, at each build: no second list is kept by hand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: A directive for a public name with a docstring, whose first sentence the index has. Constants have none.
_ENTRY = re.compile(r"^\.\. (?:auto(?:class|function|exception|data)|function):: ([\w.]+)", re.MULTILINE)
#: The place of the index in the page of the reference.
_PLACE = ".. api index\n"


def write_index(folder: Path, page: str) -> str:
    """Return the page of the reference with a table for each page below it: the public names and their sentences."""
    tables = []
    for name in re.findall(r"^   (api-[\w-]+)$", page, re.MULTILINE):
        text = (folder / f"{name}.rst").read_text(encoding="utf-8")
        title = f":doc:`{text.splitlines()[0]} <{name}>`"  # in full, for the contents beside the page
        entries = "\n".join(f"   ~{documented}" for documented in _ENTRY.findall(text))
        heading = f"{title}\n{'-' * len(title)}"
        tables.append(f"{heading}\n\n.. autosummary::\n   :nosignatures:\n\n{entries}\n" if entries else heading)
    return page.replace(_PLACE, "\n".join(tables))


def insert_index(app: Any, page: str, source: list[str]) -> None:
    """Write the index into the page of the reference while it is read."""
    if page == "api":
        source[0] = write_index(Path(app.srcdir), source[0])


def cut_sentence(paragraph: str) -> str:
    """Return the first sentence of a paragraph, in one line."""
    return re.split(r"(?<=[.?!:]) ", " ".join(paragraph.split()), maxsplit=1)[0].rstrip(":")


def write_llms_txt(app: Any, failure: Exception | None) -> None:
    """Write ``llms.txt``: each part of the side bar with its pages, those inside them too, and a sentence each."""
    if failure is not None or app.builder.format != "html":
        return
    from docutils import nodes
    from sphinx.addnodes import toctree

    def describe(name: str) -> str:
        document = app.env.get_doctree(name)
        paragraph = next((node for node in document.findall(nodes.paragraph) if node.parent.tagname == "section"), None)
        sentence = cut_sentence(paragraph.astext()) if paragraph is not None else ""
        return f"- [{app.env.titles[name].astext()}]({address}_sources/{name}.rst.txt): {sentence}"

    def list_below(name: str) -> list[str]:
        return [name, *(page for child in app.env.toctree_includes.get(name, ()) for page in list_below(child))]

    address = app.config.html_baseurl
    start = app.env.get_doctree(app.config.root_doc)
    lead = next(start.findall(nodes.paragraph)).astext()
    lines = [f"# {app.config.project}", "", f"> {' '.join(lead.split())}"]
    for tree in start.findall(toctree):
        lines += ["", f"## {tree['caption']}", ""]
        lines += [describe(name) for page in tree["includefiles"] for name in list_below(page)]
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Connect both with the build."""
    app.connect("source-read", insert_index)
    app.connect("build-finished", write_llms_txt)
    return {"parallel_read_safe": True}
