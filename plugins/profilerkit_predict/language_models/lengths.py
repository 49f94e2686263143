"""How many tokens a prompt has, and how many are generated for it."""

from __future__ import annotations

import math
from typing import NamedTuple

from profilerkit.errors import InputError

#: The usual tokens of a prompt, and of a generation.
_PROMPT, _NEW = 2048, 256


class Lengths(NamedTuple):
    """The tokens of each prompt, and the tokens that are generated for it."""

    prompt: int
    new: int


def choose_lengths(prompt: int | None, new: int | None, limit: int | None, name: str) -> Lengths:
    """Return the tokens of a prompt and the new tokens: for None the usual number, or fewer if a model takes fewer.

    >>> choose_lengths(None, None, 4096, "a model")
    Lengths(prompt=2048, new=256)
    >>> choose_lengths(None, None, 1024, "a model")
    Lengths(prompt=896, new=128)

    Raises `InputError` if they are more than the model takes.
    """
    most = math.inf if limit is None else limit
    if new is None:
        new = _shorten(_NEW, most / 8 if prompt is None else most - prompt)
    if prompt is None:
        prompt = _shorten(_PROMPT, most - new)
    require_context(limit, prompt + new, name, f"prompt {prompt:,} + new {new:,} = ")
    return Lengths(prompt, new)


def _shorten(usual: int, most: float) -> int:
    """Return the usual number of tokens, or fewer for a model that takes fewer; 1 at least."""
    return max(1, int(min(usual, most)))


def require_context(limit: int | None, tokens: int, name: str, what: str = "") -> None:
    """Raise `InputError` if a model does not take so many tokens; the message has ``what`` before their number."""
    if limit is not None and tokens > limit:
        raise InputError(
            f"{what}{tokens:,} tokens are more than the {limit:,} that {name} takes (max_position_embeddings of its "
            "configuration); give a shorter prompt (prompt=, --prompt) or fewer new tokens (new=, --new)"
        )
