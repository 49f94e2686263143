"""The networks of docs/other-tools.rst: profilerkit counts each multiply-accumulate that is worked out by hand."""

from __future__ import annotations

from importlib import import_module

import pytest
from source_tree import ROOT

from profilerkit import profile

torch = pytest.importorskip("torch")


def test_every_network_of_the_page_counts_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    cases = import_module("other_tools").CASES
    assert {name: case.macs for name, case in cases.items()} == {
        "attention": 131_072,
        "causal": 131_072,
        "LSTM": 61_440,
        "encoder": 1_179_648,
        "transposed": 12_288,
        "shared": 768,
    }
    for name, case in cases.items():
        status = profile(case.build(), torch.zeros(case.shape), metrics=["macs"]).status("macs")
        assert (status.value, status.completeness.value) == (case.macs, "complete"), name
