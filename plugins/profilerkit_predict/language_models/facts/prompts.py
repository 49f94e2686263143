"""Prompts: their tokens, the tokens that answer them, and the images and sound that an encoder turns into tokens."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, InputError

from .records import WeightPart

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
            f"{what}{tokens:,} tokens are more than the {limit:,} that {name} takes; give a shorter prompt (prompt=, "
            "--prompt) or fewer new tokens (new=, --new)"
        )


# Images and sound -----------------------------------------------------------------------------------------------------


class InputKind(StrEnum):
    """The kind of an input besides text."""

    IMAGES = "images"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True)
class InputEncoder:
    """The work of a model's encoder for one image, or for one clip of sound."""

    #: Which of both.
    kind: InputKind
    #: The size of its input: "336 by 336 pixels".
    size: str
    #: How many tokens of the prompt that becomes.
    tokens: int
    #: Its multiply-accumulates.
    macs: int
    #: The weights that it reads; the model's weights include them.
    weights: tuple[WeightPart, ...]
    #: Notes that a reader of these numbers must know.
    notes: tuple[str, ...] = ()


class EncodedInputs(NamedTuple):
    """Images or clips of sound that every prompt has, all of the size that the encoder takes."""

    encoder: InputEncoder
    number: int

    @property
    def tokens(self) -> int:
        """How many tokens of a prompt they are."""
        return self.number * self.encoder.tokens


#: The most pixels of an image: its processor is run on as many.
_MOST_PIXELS = 10**8


class ImageSize(NamedTuple):
    """The pixels of an image in both directions."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width:,} by {self.height:,} pixels"


def read_image_size(image_size: Any, images: int | None) -> ImageSize | None:
    """Return the size of the images of a prompt, from a text; None if none is given.

    >>> read_image_size("1024x768", images=1)
    ImageSize(width=1024, height=768)

    Raises `ArgumentError` for a text that is no size, and for a size without images.
    """
    if image_size is None:
        return None
    match = re.fullmatch(r"([1-9]\d{0,7})x([1-9]\d{0,7})", image_size) if isinstance(image_size, str) else None
    size = None if match is None else ImageSize(int(match[1]), int(match[2]))
    if size is None or size.width * size.height > _MOST_PIXELS:
        raise ArgumentError(
            f"image_size={shown(image_size)}: give width and height in pixels, such as '1024x768', at most "
            f"{_MOST_PIXELS:,} together"
        )
    if not images:
        raise ArgumentError(
            f"image_size={image_size!r} (--image-size) without images: give images (--images), the number of images "
            "that each prompt has"
        )
    return size
