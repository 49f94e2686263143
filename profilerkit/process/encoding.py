"""Texts for streams of any encoding: signs of tables and units become similar ones where the encoding has none."""

from __future__ import annotations

import sys

__all__ = ["encodable", "printable"]

#: Replacements for signs of tables and units that the encoding of the output does not have.
_PLAIN = {
    **dict.fromkeys("─━═", "-"),
    **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("├└┌┐┘┤┬┴┼", "+"),
    **dict.fromkeys("█▉▊▋▌", "#"),
    **dict.fromkeys("▍▎▏", " "),
    "±": "+-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "µ": "u",
    "…": "...",
}


def encodable(text: str, encoding: str | None) -> str:
    r"""Return a text that a stream of this encoding can take: missing signs are replaced by similar ones.

    A pipe on Windows, and a process in the locale "C" without UTF-8 mode, cannot take the lines of tables. A character
    without a similar one, such as a letter of another alphabet, becomes an escape sequence.

    >>> encodable("├── größe: 3 µs ±2%", "ascii")
    '+-- gr\\xf6\\xdfe: 3 us +-2%'
    >>> encodable("50.0 %   █████▏", "ascii")
    '50.0 %   ##### '
    """
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return "".join(_replace_sign(sign, encoding or "utf-8") for sign in text)
    except LookupError:  # an encoding of which Python knows no more than the name
        pass
    return text


def printable(text: str) -> str:
    """Return a text for ``print``: with signs that standard output has, whatever the locale is."""
    return encodable(text, getattr(sys.stdout, "encoding", None))


def _replace_sign(sign: str, encoding: str) -> str:
    """Return a sign, or its replacement in an encoding without the sign."""
    try:
        sign.encode(encoding)
    except UnicodeEncodeError:
        return _PLAIN.get(sign) or sign.encode(encoding, "backslashreplace").decode(encoding)
    return sign
