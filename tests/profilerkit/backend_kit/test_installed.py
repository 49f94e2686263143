"""Which version of a framework is installed, found out without importing it."""

import sys
import types
from pathlib import Path

import pytest
from time_limits import run_python

from profilerkit.backend_kit.installed import declare_tested, describe_untested, find_version, require_version


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that cannot be imported, published under another name."""
    (tmp_path / "slowlib.py").write_text("raise AssertionError('never imported')")
    metadata = tmp_path / "slowlib_cpu-2.5.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slowlib-cpu\nVersion: 2.5.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_version_is_that_of_the_distribution(package: Path) -> None:
    assert find_version("slowlib", "slowlib-gpu", "slowlib-cpu") == "2.5.1"
    assert "slowlib" not in sys.modules


def test_a_package_without_metadata_has_an_unknown_version(package: Path) -> None:
    assert find_version("slowlib") == "of an unknown version"


def test_the_version_of_an_imported_package_is_the_modules(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "slowlib", types.SimpleNamespace(__version__="3.0"))
    assert find_version("slowlib", "slowlib-cpu") == "3.0"
    monkeypatch.setitem(sys.modules, "slowlib", types.SimpleNamespace())
    assert find_version("slowlib", "slowlib-cpu") == "of an unknown version"


@pytest.mark.parametrize("is_forbidden", [True, False])
def test_a_package_that_is_missing_or_blocked(
    package: Path, monkeypatch: pytest.MonkeyPatch, is_forbidden: bool
) -> None:
    name = "slowlib" if is_forbidden else "no_such_library"
    if is_forbidden:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"^No module named '{name}'$"):
        find_version(name, "slowlib-cpu")


def test_a_version_that_is_too_old() -> None:
    for version in ("2.10", "2.10.1", "3.0.0rc1", "11.0", "of an unknown version"):
        require_version("slowlib", version, (2, 10))
    for version in ("2.9.1+cpu", "1.14", "0.0"):
        with pytest.raises(ImportError, match=f"^slowlib {version[:3]}.* is too old, 2.10 or newer is needed$"):
            require_version("slowlib", version, (2, 10))


@pytest.mark.parametrize("version", ["2.10", "2.10.1", "2.14.1+cpu", "2.15.0", "2.15.1", "of an unknown version"])
def test_a_release_that_is_tested_is_not_named(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setitem(sys.modules, "slowlib", types.SimpleNamespace(__version__=version))
    declare_tested("slow", {"no_such_library": ("1.0", "2.0"), "slowlib": ("2.10", "2.15")})
    assert describe_untested("slow") == ""
    assert describe_untested("a backend that declares none") == ""


@pytest.mark.parametrize("version", ["2.9.1", "1.15", "2.16", "3.0.0.dev20260101", "2.16.0a0+git"])
def test_a_release_that_is_not_tested_is_named_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setitem(sys.modules, "slowlib", types.SimpleNamespace(__version__=version))
    declare_tested("slow", {"slowlib": ("2.10", "2.15")})
    assert (
        describe_untested("slow") == f"the slow backend is tested with slowlib 2.10 to 2.15, and {version} is installed"
    )
    declare_tested("slow", {"slowlib": ("2.15.2", "2.15.2")})
    assert describe_untested("slow") == f"the slow backend is tested with slowlib 2.15.2, and {version} is installed"


def test_the_list_of_what_is_installed_imports_no_framework() -> None:
    code = (
        "import sys, profilerkit.cli\n"
        "try:\n    profilerkit.cli.main(['list'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "found = {'torch', 'tensorflow', 'keras', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "print('imported', sorted(found))\n"
    )
    done = run_python(code)
    assert "imported []" in done.stdout + done.stderr
    assert "\nStatus keys\n" in done.stdout
