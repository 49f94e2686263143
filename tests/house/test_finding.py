"""Readers of the documentation find a page: in the side bar, by a search, and without what the theme refuses."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.glob("*.rst") if path.name != "index.rst")
#: What people search for, and the page that must come first: a main entry of the index has the highest score of all.
SEARCHED = {
    "ONNX": "onnx",
    "VRAM": "fits-my-gpu",
    "GPU memory": "fits-my-gpu",
    "latency": "timing",
    "throughput": "timing",
    "LLM": "language-models",
    "distributed": "any-model",
    "quantization": "quantized",
    "slow": "layer-times",
    "fvcore": "conventions",
    "MLflow": "logging",
}


def list_search_words(page: str) -> list[str]:
    """Return the main entries of the index that stand at the top of a page."""
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    entries = re.findall(r"^\.\. index::(.*(?:\n   .*)*)", text, re.MULTILINE)
    return [word.strip() for entry in entries for word in re.findall(r"! ([^,\n]+)", entry)]


@pytest.mark.parametrize("word", SEARCHED)
def test_the_index_leads_to_the_page_that_people_search_for(word: str) -> None:
    assert word in list_search_words(SEARCHED[word])


def test_a_word_leads_to_one_page() -> None:
    words = Counter(word.lower() for path in PAGES for word in list_search_words(path.stem))
    assert [word for word, times in words.items() if times > 1] == []


def list_pages_below(path: Path) -> list[str]:
    """Return the pages that stand below a page in the side bar."""
    trees = re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", f"{path.read_text(encoding='utf-8')}\n", re.MULTILINE)
    return [page for tree in trees for page in re.findall(r"^   (?:[^:\n].* <)?([\w/-]+)>?$", tree, re.MULTILINE)]


def test_each_page_stands_in_the_side_bar_once() -> None:
    places = Counter(page for path in DOCS.glob("*.rst") for page in list_pages_below(path))
    assert places == Counter([*(path.stem for path in PAGES), "decisions/index"])


def test_the_side_bar_can_be_read_at_a_glance() -> None:
    """What is not a task of its own stands below one, folded away."""
    assert len(list_pages_below(DOCS / "index.rst")) <= 28


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.rst")), ids=lambda path: path.stem)
def test_no_page_has_a_table_of_contents_of_its_own(path: Path) -> None:
    assert ".. contents::" not in path.read_text(encoding="utf-8"), (
        "Furo shows the contents of a page beside it, and an error in red for a second table"
    )


@pytest.mark.parametrize("path", sorted(DOCS.glob("api-*.rst")), ids=lambda path: path.stem)
def test_names_that_are_written_out_belong_to_no_other_module(path: Path) -> None:
    """Sphinx puts the current module before a name: ``profilerkit.profilerkit_torch.get_topk``."""
    module = "None"
    for line in path.read_text(encoding="utf-8").splitlines():
        if directive := re.match(r"\.\. (?:currentmodule|automodule):: (\S+)", line):
            module = directive[1]
        if re.match(r"\.\. (?:function|data|class)::", line):
            assert module == "None", line
