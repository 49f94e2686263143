"""Private names are looked for by their paths."""

import sys
from types import ModuleType

import pytest

from profilerkit.backend_kit.private_names import find


def test_a_module_goes_before_what_its_package_has_under_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch._higher_order_ops.scan`` is a function, and a module that has ``generic_scan``."""
    package, module = ModuleType("package"), ModuleType("package.scan")
    vars(package)["scan"] = len
    vars(module)["generic_scan"] = max
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "package.scan", module)
    assert find("package.scan.generic_scan") is max
    assert find("package.scan") is len


def test_a_module_on_the_way_is_imported() -> None:
    assert find("xml.etree.ElementTree.parse") is __import__("xml.etree.ElementTree").etree.ElementTree.parse


@pytest.mark.parametrize("path", ["os._no_name", "os.path._no_name.further", "os._no_module.name"])
def test_what_is_not_there_is_none(path: str) -> None:
    assert find(path) is None


def test_a_package_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(ImportError):
        find("no_such_package.name")
