"""The parts of pages: templates, styles and scripts from folders called ``page``, put into one file.

A page may load nothing: its content security policy names its style and its scripts by their digests, and allows no
others.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

#: The package whose folder has the parts that all pages share.
SHARED = __package__


@cache
def templates(package: str = SHARED) -> Environment:
    """Return the templates of a package's folder ``page``, and with them the frame that all pages share."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader

    loader = ChoiceLoader([PackageLoader(name, "page") for name in dict.fromkeys((package, SHARED))])
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def render_page(template: str, style: str, script: str, package: str = SHARED, **values: Any) -> str:
    """Return a page: a template that fills the frame, whose policy allows this style and script alone; "" for none."""
    hashes = {"style_hash": content_hash(style), "script_hash": content_hash(script) if script else ""}
    return templates(package).get_template(template).render(style=style, script=script, **hashes, **values)


@cache
def source(name: str, package: str = SHARED) -> str:
    """Return the text of a file in a package's folder ``page``."""
    return files(package).joinpath("page", name).read_text(encoding="utf-8").strip()


def join_scripts(sources: Sequence[str]) -> str:
    """Return scripts that build on each other as one script with private names, without comments (a fifth of them)."""
    text = "\n".join(('(() => {\n"use strict";', *sources, "})();"))
    return re.sub(r"^ *(?:(?://.*|/\*\*(?s:.*?)\*/)?\n)*", "", text, flags=re.MULTILINE)


def content_hash(text: str) -> str:
    """Return how a content security policy names a script or style that stands in the page itself."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def pack(values: Sequence[Any]) -> Any:
    """Return values as they are, or as the distinct values and their positions if this form is much shorter.

    >>> pack(["torch"] * 7 + ["keras"])
    {'of': ['torch', 'keras'], 'at': [0, 0, 0, 0, 0, 0, 0, 1]}
    """
    distinct = list(dict.fromkeys(values))
    if len(distinct) > len(values) // 2 or len(values) < 8:
        return list(values)
    positions = {value: index for index, value in enumerate(distinct)}
    return {"of": distinct, "at": [positions[value] for value in values]}
