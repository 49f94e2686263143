"""Sphinx's settings: ``make docs``."""

import inspect
import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

project = "profilerkit"
author = "The profilerkit developers"
copyright = f"2026, {author}"
release = version = installed_version("profilerkit")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
# Its tables stand in the index of the reference alone; the pages are written by hand.
autosummary_generate = False
exclude_patterns = ["_build"]
# Docstrings name things in single backticks.
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# Signatures say it already.
autodoc_typehints = "signature"
autoclass_content = "class"
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["page.css"]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_title = f"profilerkit {release}"
# The colors of a report's page.
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fbf", "color-brand-content": "#1f5fbf"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}
html_logo = html_favicon = "_static/logo.svg"
# Where the site stands, as Read the Docs says; links in llms.txt begin with it.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
# The sources are what llms.txt leads to; a reader needs no link to them.
html_show_sourcelink = False
highlight_language = "none"
# Furo's own underlines the names of modules, which look like links then.
pygments_dark_style = "github-dark"
# Commands are copied without their prompt and what they print; outputs are not copied.
copybutton_prompt_text = "$ "
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"


def without_representations(app, what, name, obj, options, signature, returns):
    """Replace defaults such as <factory>: Sphinx cannot parse them, and then shows ~module. before every type."""
    return signature and re.sub(r"<(?:[^<>]|<[^<>]*>)+>", "...", signature), returns


def forget_bound_signature(app, obj, bound_method):
    """Take away what Sphinx leaves on the function of a bound method: the next method of it would lose a parameter."""
    if inspect.ismethod(obj):
        vars(obj.__func__).pop("__signature__", None)


def setup(app):
    """Make signatures valid, and keep Napoleon from reading "Lower is better: ..." in an attribute as its type."""
    written = {}

    def remember(app, what, name, obj, options, lines):
        written[name] = list(lines)

    def restore(app, what, name, obj, options, lines):
        if what in ("attribute", "data", "property"):
            lines[:] = written[name]

    sys.path.insert(0, str(Path(__file__).parent))  # of the process that builds
    app.setup_extension("machine_pages")
    app.connect("autodoc-before-process-signature", forget_bound_signature, priority=600)
    app.connect("autodoc-process-signature", without_representations)
    app.connect("autodoc-process-docstring", remember, priority=400)
    app.connect("autodoc-process-docstring", restore, priority=600)


# Fields of dataclasses are described with their class: as entries of their own, "type" would be one of them.
napoleon_use_ivar = True
