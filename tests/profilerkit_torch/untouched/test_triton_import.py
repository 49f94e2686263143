"""Triton is not imported after a TensorFlow with which it crashes the process."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import pytest
from time_limits import run_python

from profilerkit_torch.untouched import triton_import

PROFILE = """
import tensorflow
import torch
from profilerkit import profile
print(profile(torch.nn.Linear(4, 2), torch.ones(1, 4), metrics=["macs"])["macs"])
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return what torch's question for Triton is answered with, in a process as it is before any question."""
    answers: list[bool] = []

    def has_triton_package() -> bool:
        try:
            import triton  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
        except ImportError:
            answers.append(False)
        else:
            answers.append(True)
        return answers[-1]

    monkeypatch.setattr(triton_import, "find_triton_question", lambda: has_triton_package)
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("torch._dynamo", "triton"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return answers


def offer(monkeypatch: pytest.MonkeyPatch, *symbols: str) -> None:
    process = SimpleNamespace(**dict.fromkeys(symbols, True))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: process)


def test_torch_notes_that_there_is_no_triton(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    offer(monkeypatch, "LLVMContextCreate")
    triton_import.answer_for_triton()
    assert asked == [False]
    assert "triton" not in sys.modules


def test_without_a_visible_llvm_torch_asks_itself(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    offer(monkeypatch)
    triton_import.answer_for_triton()
    assert asked == []


def test_an_interrupt_leaves_triton_to_be_imported(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    def interrupt() -> None:
        assert sys.modules["triton"] is None
        raise KeyboardInterrupt

    offer(monkeypatch, "LLVMContextCreate")
    monkeypatch.setattr(triton_import, "find_triton_question", lambda: interrupt)
    with pytest.raises(KeyboardInterrupt):
        triton_import.answer_for_triton()
    assert "triton" not in sys.modules


@pytest.mark.parametrize("loaded", ["torch._dynamo", "triton"])
def test_what_is_imported_stays(loaded: str, monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    offer(monkeypatch, "LLVMContextCreate")
    monkeypatch.setitem(sys.modules, loaded, ModuleType(loaded))
    triton_import.answer_for_triton()
    assert asked == []
    assert loaded in sys.modules


def test_without_tensorflow_nothing_is_done(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    offer(monkeypatch, "LLVMContextCreate")
    monkeypatch.delitem(sys.modules, "tensorflow")
    triton_import.answer_for_triton()
    assert asked == []


@pytest.mark.slow
def test_a_torch_model_is_profiled_after_tensorflow_was_imported() -> None:
    pytest.importorskip("tensorflow")
    done = run_python(PROFILE, check=False, seconds=300)
    assert (done.returncode, done.stdout.strip()) == (0, "8"), done.stderr[-2000:]
