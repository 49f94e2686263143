"""The pixels of images, of which some models make more tokens of a larger one."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError

__all__ = ["ImageSize", "read_image_size"]

#: The most pixels of an image: its processor is run on as many.
_MOST_PIXELS = 10**8


class ImageSize(NamedTuple):
    """The pixels of an image in both directions."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width:,} by {self.height:,} pixels"


def read_image_size(image_size: Any, images: int | None) -> ImageSize | None:
    """Return the size of the images of a prompt, from a text; None for none.

    >>> read_image_size("1024x768", images=1)
    ImageSize(width=1024, height=768)

    Raises `ArgumentError` for what is no size, and for one without images.
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
    if images is None:
        raise ArgumentError(
            f"image_size={image_size!r} (--image-size) without images: give images (--images), the number of images "
            "that each prompt has"
        )
    return size
