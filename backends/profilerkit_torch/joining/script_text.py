"""The text of the script that makes profiles where nothing but torch is installed."""

from __future__ import annotations

from pathlib import Path

__all__ = ["script_text"]


def script_text() -> str:
    """Return the script, which is a module beside this one and imports nothing of profilerkit."""
    return Path(__file__).with_name("script.py").read_text(encoding="utf-8")
