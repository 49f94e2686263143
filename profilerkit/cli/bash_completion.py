"""Completion in Bash of models that are named with a colon: ``keras:ResNet50``.

Bash takes a colon as a word of its own, and replaces only what follows it. In its script, an item for files takes away
the items before it; with those behind it, files are offered where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

__all__ = ["add_bash_completion"]

_ADD = "COMPREPLY+=($value)"
#: No space behind a library: the name of a model follows.
_ADD_WITHOUT_SPACE = f"{_ADD}\n            [[ $value == *: ]] && compopt -o nospace"


def add_bash_completion() -> None:
    """Have click complete for Bash by this module."""
    add_completion_class(_BashComplete)


class _BashComplete(BashComplete):
    source_template = BashComplete.source_template.replace(_ADD, _ADD_WITHOUT_SPACE)
    #: What of the word was typed up to its last colon.
    _before_colon = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is typed, and that one, each joined around its colons."""
        words = split_arg_string(os.environ["COMP_WORDS"])[1:]  # without the name of the program
        current = int(os.environ["COMP_CWORD"]) - 1
        if current >= len(words):
            return _join_colons(words), ""
        *before, incomplete = _join_colons(words[: current + 1])
        library, colon, _ = incomplete.rpartition(":")
        self._before_colon = library + colon
        return before, incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return the items; where something was typed, those for files first."""
        items = super().get_completions(args, incomplete)
        return sorted(items, key=lambda item: item.type == "plain") if incomplete else items

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return an item as the script reads it."""
        return f"{item.type},{str(item.value).removeprefix(self._before_colon)}"


def _join_colons(words: Iterable[str]) -> list[str]:
    """Return the words as they were typed.

    >>> _join_colons(["profile", "keras", ":", "Res"])
    ['profile', 'keras:Res']
    """
    joined: list[str] = []
    for word in words:
        if joined and (word == ":" or joined[-1].endswith(":")):
            joined[-1] += word
        else:
            joined.append(word)
    return joined
