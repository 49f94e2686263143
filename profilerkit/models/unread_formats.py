"""Formats of models that are known, and that nothing here reads: what a file is, and what to profile instead."""

from __future__ import annotations

from os import PathLike, fsdecode
from pathlib import Path

__all__ = ["describe_unread"]

_ENGINE = "a TensorRT engine, which is compiled for one kind of GPU; profile the .onnx file that it was built from"
_CORE_ML = "a Core ML model; profile the model that it was converted from, or that model as an .onnx file"
_UNREAD = {
    ".engine": _ENGINE,
    ".gguf": "a language model in GGUF, which has weights and no layers: type 'profilerkit llm' instead",
    ".json": "no model; if it is a saved report, 'profilerkit show' prints it",
    ".mlmodel": _CORE_ML,
    ".mlmodelc": _CORE_ML,
    ".mlpackage": _CORE_ML,
    ".plan": _ENGINE,
    ".pte": "a program of ExecuTorch; profile the exported program that it was made of, as a .pt2 file",
    ".trt": _ENGINE,
}


def describe_unread(path: str | PathLike[str]) -> str:
    """Return what a file of a known format is, and what to do, by its suffix; empty for any other one.

    >>> describe_unread("net.pte")
    "'net.pte' is a program of ExecuTorch; profile the exported program that it was made of, as a .pt2 file"
    """
    name = fsdecode(path).rstrip("/")
    what = _UNREAD.get(Path(name).suffix.lower(), "")
    return f"{name!r} is {what}" if what else ""
