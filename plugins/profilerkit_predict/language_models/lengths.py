"""The tokens of a prompt and of a generation: those that were requested, and what a model takes."""

from __future__ import annotations

from typing import NamedTuple

from profilerkit.errors import InputError

__all__ = ["Lengths", "choose_lengths", "require_context"]

#: The usual tokens of a prompt, and of a generation.
_PROMPT, _NEW = 2048, 256


class Lengths(NamedTuple):
    """The tokens of each prompt, and those that are generated for it."""

    prompt: int
    new: int


def choose_lengths(prompt: int | None, new: int | None, limit: int | None, name: str) -> Lengths:
    """Return the tokens of a prompt and the new ones: for None the usual ones, or fewer where a model takes fewer.

    >>> choose_lengths(None, None, 4096, "a model")
    Lengths(prompt=2048, new=256)
    >>> choose_lengths(None, None, 1024, "a model")
    Lengths(prompt=896, new=128)

    Raises `InputError` if the model takes fewer than were requested.
    """
    if new is None:
        new = _NEW
        if limit is not None:
            new = min(_NEW, max(1, limit // 8 if prompt is None else limit - prompt))
    if prompt is None:
        prompt = _PROMPT if limit is None else min(_PROMPT, max(1, limit - new))
    require_context(limit, prompt + new, name, f"prompt {prompt:,} + new {new:,} = ")
    return Lengths(prompt, new)


def require_context(limit: int | None, tokens: int, name: str, what: str = "") -> None:
    """Raise `InputError` if a model does not take so many tokens; ``what`` stands before their number."""
    if limit is not None and tokens > limit:
        raise InputError(
            f"{what}{tokens:,} tokens were requested, and {name} takes {limit:,} (max_position_embeddings of its "
            "configuration); give a shorter prompt (prompt=, --prompt) or fewer new tokens (new=, --new)"
        )
