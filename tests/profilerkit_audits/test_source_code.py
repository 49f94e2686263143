"""The code that a key of a row compares: what changes it, and what does not."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from profilerkit_audits import modules
from profilerkit_audits.source_code import read_code


@pytest.fixture(autouse=True)
def caches() -> Iterator[None]:
    """The packages that are installed are looked up once in a process; here they change."""
    modules.has_version.cache_clear()
    modules._find_distributions.cache_clear()
    yield
    modules.has_version.cache_clear()
    modules._find_distributions.cache_clear()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def install(site: Path, package: str, editable: bool) -> None:
    """Have a package installed in a folder, by the files that an installer writes."""
    facts = site / f"{package}-1.0.dist-info"
    write(facts / "METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    write(facts / "top_level.txt", f"{package}\n")
    write(facts / "RECORD", "")
    if editable:
        write(facts / "direct_url.json", json.dumps({"url": "file:///here", "dir_info": {"editable": True}}))


Layout = Callable[[Path, pytest.MonkeyPatch], Path]


def beside(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    write(folder / "net.py", "import sizes\n")
    return write(folder / "sizes.py", "WIDTH = 3\n")


def in_a_subpackage(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    write(folder / "net.py", "from zoo import blocks\n")
    write(folder / "zoo/__init__.py", "")
    write(folder / "zoo/blocks/__init__.py", "from .deep import sizes\n")
    write(folder / "zoo/blocks/deep/__init__.py", "")
    return write(folder / "zoo/blocks/deep/sizes.py", "WIDTH = 3\n")


def package_above(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Importing ``zoo.blocks`` runs ``zoo/__init__.py`` too."""
    write(folder / "net.py", "import zoo.blocks\n")
    write(folder / "zoo/blocks.py", "")
    return write(folder / "zoo/__init__.py", "WIDTH = 3\n")


def inside_a_function(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    write(folder / "net.py", "def build():\n    if True:\n        from sizes import WIDTH\n")
    return write(folder / "sizes.py", "WIDTH = 3\n")


def on_the_path(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    write(folder / "net.py", "import from_elsewhere\n")
    patch.syspath_prepend(str(folder / "elsewhere"))
    write(folder / "elsewhere/from_elsewhere/__init__.py", "from . import sizes\n")
    return write(folder / "elsewhere/from_elsewhere/sizes.py", "WIDTH = 3\n")


def in_editable_form(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    write(folder / "net.py", "from editable_zoo.sizes import WIDTH\n")
    install(folder / "site", "editable_zoo", editable=True)
    patch.syspath_prepend(str(folder / "site"))
    patch.syspath_prepend(str(folder / "source"))
    write(folder / "source/editable_zoo/__init__.py", "")
    return write(folder / "source/editable_zoo/sizes.py", "WIDTH = 3\n")


def among_metadata(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """What building a package leaves beside its sources, which are on the path."""
    write(folder / "net.py", "from built_zoo.sizes import WIDTH\n")
    patch.syspath_prepend(str(folder / "source"))
    write(folder / "source/built_zoo.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: built_zoo\nVersion: 1.0\n")
    write(folder / "source/built_zoo.egg-info/top_level.txt", "built_zoo\n")
    write(folder / "source/built_zoo/__init__.py", "")
    return write(folder / "source/built_zoo/sizes.py", "WIDTH = 3\n")


def compiled(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Python takes the compiled module, and not the source beside it."""
    write(folder / "net.py", "import sizes\n")
    write(folder / "sizes.py", "WIDTH = 5\n")
    return write(folder / f"sizes{EXTENSION_SUFFIXES[0]}", "WIDTH = 3\n")


def package_of_the_same_name(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Python takes the package, and not the module."""
    write(folder / "net.py", "import sizes\n")
    write(folder / "sizes.py", "WIDTH = 5\n")
    return write(folder / "sizes/__init__.py", "WIDTH = 3\n")


@pytest.mark.parametrize(
    "layout",
    [
        *(beside, in_a_subpackage, package_above, inside_a_function, on_the_path, in_editable_form, among_metadata),
        *(compiled, package_of_the_same_name),
    ],
)
def test_a_change_of_own_code_is_seen(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = layout(tmp_path, monkeypatch)
    before = read_code("net.py:build", tmp_path).digest
    assert before == read_code("net.py:build", tmp_path).digest != ""
    write(changed, "WIDTH = 4\n")
    assert read_code("net.py:build", tmp_path).digest != before
    write(changed, "WIDTH = 3\n")
    assert read_code("net.py:build", tmp_path).digest == before


@pytest.mark.parametrize("changed", ["zoo/__init__.py", "zoo/net.py"])
def test_a_module_is_compared_with_its_packages(changed: str, tmp_path: Path) -> None:
    """A folder that is called as the function has nothing to do with it."""
    write(tmp_path / "zoo/__init__.py", "")
    write(tmp_path / "zoo/net.py", "")
    write(tmp_path / "build/lib/net.py", "")
    before = read_code("zoo.net:build", tmp_path).digest
    write(tmp_path / changed, "WIDTH = 4\n")
    after = read_code("zoo.net:build", tmp_path).digest
    assert len({before, after, ""}) == 3
    write(tmp_path / "build/lib/net.py", "WIDTH = 4\n")
    assert read_code("zoo.net:build", tmp_path).digest == after


def test_a_module_of_an_editable_package_is_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = in_editable_form(tmp_path, monkeypatch)
    before = read_code("editable_zoo.sizes:build", tmp_path)
    write(changed, "import torch\n")
    after = read_code("editable_zoo.sizes:build", tmp_path)
    assert before.digest != after.digest
    assert [set(code.imports) for code in (before, after)] == [set(), {"torch"}], "by which a version is compared"


def test_an_installed_package_is_told_by_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "net.py", "import fixed_zoo\n")
    install(tmp_path / "site", "fixed_zoo", editable=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    changed = write(tmp_path / "site/fixed_zoo/__init__.py", "WIDTH = 3\n")
    before = read_code("net.py:build", tmp_path)
    assert before.imports == {"fixed_zoo"}
    write(changed, "WIDTH = 4\n")
    assert read_code("net.py:build", tmp_path) == before
    assert dict(modules.find_versions(frozenset({"fixed_zoo"}))) == {"fixed_zoo": "1.0"}


@pytest.mark.parametrize("spec", ["hf:tiny", "hf:./tiny", "tiny"])
def test_a_folder_is_compared_by_its_files(spec: str, tmp_path: Path) -> None:
    """The sizes of ``hf:FOLDER`` are those of its config.json."""
    write(tmp_path / "tiny/config.json", json.dumps({"hidden_size": 8}))
    before = read_code(spec, tmp_path).digest
    write(tmp_path / "tiny/config.json", json.dumps({"hidden_size": 16}))
    after = read_code(spec, tmp_path).digest
    assert len({before, after, ""}) == 3


def test_names_of_libraries_have_no_files(tmp_path: Path) -> None:
    assert read_code("hf:bert", tmp_path).digest == ""
    assert "transformers" in read_code("hf:bert", tmp_path).imports


def test_what_code_opens_and_asks_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and each audit that reuses rows say so; if this is seen some day, they must change too."""
    write(tmp_path / "net.py", "import json, os\nWIDTH = json.load(open('cfg.json')), os.environ.get('WIDTH')\n")
    write(tmp_path / "cfg.json", "3")
    before = read_code("net.py:build", tmp_path)
    write(tmp_path / "cfg.json", "4")
    monkeypatch.setitem(os.environ, "WIDTH", "4")
    assert read_code("net.py:build", tmp_path) == before
    assert "json" not in before.imports
    assert "json" in sys.stdlib_module_names


@pytest.mark.parametrize(("model", "weights"), [("net.onnx", "net.onnx.data"), ("net.xml", "net.bin")])
def test_weights_in_a_file_beside_the_model_are_part_of_it(tmp_path: Path, model: str, weights: str) -> None:
    write(tmp_path / model, "the network")
    write(tmp_path / weights, "0")
    write(tmp_path / "other.bin", "0")
    before = read_code(model, tmp_path).digest
    write(tmp_path / "other.bin", "1")
    assert read_code(model, tmp_path).digest == before
    write(tmp_path / weights, "1")
    assert read_code(model, tmp_path).digest != before


def test_a_function_of_an_own_module_is_no_package(tmp_path: Path) -> None:
    write(tmp_path / "net.py", "import torch\nfrom sizes import width\n")
    write(tmp_path / "sizes.py", "def width(): return 3\n")
    assert read_code("net.py:build", tmp_path).imports == {"torch"}
