"""Each capability is asked for by the one function that finds what plugins add, wherever it is asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

import pytest
from source_tree import packages, read_tree, walk

from profilerkit import protocols
from profilerkit.hooks.backend_additions import list_capabilities
from profilerkit.testing import FakeBackend

CAPABILITIES = {capability.protocol.__name__: capability.protocol for capability in list_capabilities()}
ASKING = {"find_capability", "require_capability"}


def list_mentions(functions: set[str]) -> Iterator[str]:
    """Yield the names of the capabilities that the library gives to a function, outside of the kit for tests."""
    for path in chain.from_iterable(folder.rglob("*.py") for folder in packages().values()):
        if path.parent.name == "testing":
            continue
        for node in walk(read_tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                for part in chain.from_iterable(map(ast.walk, node.args)):
                    name = getattr(part, "id", getattr(part, "attr", ""))
                    if name in CAPABILITIES:
                        yield name


def test_every_capability_is_asked_for() -> None:
    assert set(list_mentions(ASKING)) == CAPABILITIES.keys()


def test_none_is_looked_for_in_the_backend_alone() -> None:
    assert set(list_mentions({"isinstance", "hasattr", "issubclass"})) == set()
    assert not hasattr(protocols, "implements")


@pytest.mark.parametrize("name", CAPABILITIES)
def test_what_a_plugin_adds_is_found(name: str) -> None:
    methods = dict.fromkeys(vars(CAPABILITIES[name])["__abstractmethods__"], lambda self, *args: None)
    added = type("Added", (), methods)()
    backend = FakeBackend()
    other = protocols.find_capability(backend, CAPABILITIES[name])
    backend.extensions = (object(), added)
    assert protocols.find_capability(backend, CAPABILITIES[name]) is (added if other is None else backend)
