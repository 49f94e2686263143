"""Limits as people write them: ``macs = "<= 5 G"``, ``execution_time = "<= 1.10x"``.

A limit is a comparison, a number, and a suffix: a prefix (``5 G``), a prefix with the unit of the metric (``5 GMACs``,
``25 MiB``, ``2.5 ms``), or ``x``, which makes it relative to the baseline: ``<= 1.02x``. A percentage with a sign is
the same: ``<= +2 %``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from typing import Any

from profilerkit.arguments.checks import PATH
from profilerkit.error_text import shown
from profilerkit.errors import BudgetError
from profilerkit.process.files import read_toml

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
_WRITTEN = re.compile(r"\s*(<=|>=|==|<|>)\s*([+-]?[\d_]+(?:\.\d*)?(?:[eE][+-]?\d+)?|[+-]?\.\d+)\s*([^\s\d].*?)?\s*")
_SI = {"n": -9, "u": -6, "µ": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_IEC = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
#: The factor of each prefix, exactly: as floats 2.01 times 1000 is less than 2010, which a count of 2010 would break.
_PREFIXES = {
    "": Fraction(1),
    **{prefix: Fraction(10) ** power for prefix, power in _SI.items()},
    **{prefix: Fraction(2) ** power for prefix, power in _IEC.items()},
}


@dataclass(frozen=True)
class Limit:
    """One bound on one value: of the model as a whole, or of each layer whose path a pattern matches.

    ``suffix`` is the text after the number; ``relative`` is True for the suffix ``x``, times the baseline's value.
    """

    key: str
    comparison: str
    number: float
    suffix: str = ""
    pattern: str | None = None

    @classmethod
    def parse(cls, key: str, text: Any, pattern: str | None = None) -> Limit:
        """Read a limit; raises `BudgetError` if the text is not a limit."""
        match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        number = _read_finite(match.group(2)) if match is not None else None
        if match is None or number is None:
            raise _refuse_limit(key, text, pattern)
        comparison, written, suffix = match.groups()
        if suffix == "%" and written[0] in "+-":  # with a sign it is a change of the baseline's value
            return cls(key, comparison, float(1 + _read_exactly(number) / 100), "x", pattern)
        return cls(key, comparison, number, suffix or "", pattern)

    @property
    def relative(self) -> bool:
        """Whether it bounds the ratio to the baseline."""
        return self.suffix in ("x", "×")  # noqa: RUF001

    def bound(self, base_unit: str) -> float:
        """Return the number in base units; raises `BudgetError` if the metric has another unit."""
        if self.relative:
            return self.number
        for prefix, factor in _PREFIXES.items():
            if self.suffix in (prefix, f"{prefix}{base_unit}", f"{prefix} {base_unit}".strip()):
                return self._times(factor)
        unit = f"the unit of {self.key} is {base_unit}" if base_unit else f"{self.key} is a number without a unit"
        prefixes = ", ".join(filter(None, _PREFIXES))
        raise BudgetError(f"{self}: {self.suffix!r} cannot be read; {unit}, with or without a prefix: {prefixes}")

    def _times(self, factor: Fraction) -> float:
        try:
            return _make_plain(_read_exactly(self.number) * factor)
        except OverflowError:
            raise BudgetError(f"{self} is beyond what a number can hold; give a smaller one") from None

    def allows(self, value: float, bound: float) -> bool:
        """Return whether a value keeps to the bound."""
        return _COMPARISONS[self.comparison](value, bound)

    @property
    def condition(self) -> str:
        """The condition on the model, or on each layer of the limit: "macs <= 5 G"."""
        number = f"{self.number:.15g}"
        if float(number) != self.number:
            number = str(self.number)
        amount = f"{number}x" if self.relative else f"{number} {self.suffix}".rstrip()
        return f"{self.key} {self.comparison} {amount}"

    def __str__(self) -> str:
        return self.condition if self.pattern is None else f"layers {self.pattern!r}: {self.condition}"


def _refuse_limit(key: str, text: Any, pattern: str | None) -> BudgetError:
    """Return the error for a value that is no limit; ``pattern`` is the pattern of its layers."""
    written = f"{key} = {shown(text)}" if pattern is None else f"{key} of layers {pattern!r} = {shown(text)}"
    if isinstance(text, Mapping):
        return BudgetError(
            f"{written} is a table, and no limit; limits of metrics stand above all tables, and those of layers in a "
            'table with their path in quotes: [layers."encoder.0"]'
        )
    return BudgetError(
        f"{written} is no limit; write a comparison, a number and what it is in: '<= 5 G', '<= 25 MiB', '>= 90 %', or "
        "'<= 1.10x' (or '<= +10 %') for times the baseline"
    )


def _read_finite(text: str) -> float | None:
    """Return the number in a text; None if it is no number or too large for a float."""
    try:
        is_finite = math.isfinite(float(text))
    except ValueError:  # underscores alone, or at the end
        return None
    return _make_plain(Fraction(text)) if is_finite else None


def _make_plain(exact: Fraction) -> float:
    """Return a whole number exactly, like counts, and any other as a float; raises `OverflowError` beyond floats."""
    number = float(exact)
    return int(exact) if exact.denominator == 1 else number


def _read_exactly(number: float) -> Fraction:
    """Return a number exactly by its decimal digits: 2.01 is 201 / 100."""
    return Fraction(str(number))


@dataclass(frozen=True)
class Budget:
    """The limits a model has to keep to."""

    limits: tuple[Limit, ...]

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Budget:
        """Read limits by metric, and limits of layers under ``layers`` by path pattern.

        >>> budget = Budget.of({"macs": "<= 5 G", "layers": {"head.*": {"params": "<= 1 M"}}})
        >>> [str(limit) for limit in budget.limits]
        ['macs <= 5 G', "layers 'head.*': params <= 1 M"]

        A list holds several limits for one value. Raises `BudgetError` for a value that is no limit.
        """
        if not isinstance(mapping, Mapping):
            raise BudgetError(f"{shown(mapping)} is no budget; give limits by metric: {{'macs': '<= 5 G'}}")
        limits = tuple(_read_limits(mapping))
        if not limits:
            raise BudgetError(
                f"the budget {shown(mapping)} has no limits; give one for each metric that matters: macs = '<= 5 G'"
            )
        return cls(limits)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Budget:
        """Read a budget from a TOML file; raises `BudgetError` for a file that holds none."""
        return cls.of(read_toml(PATH("path", path), f"the budget {path}", BudgetError))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The status keys that a report must have for the limits to be checked."""
        keys = [limit.key for limit in self.limits if limit.pattern is None]
        if any(limit.pattern is not None for limit in self.limits):
            keys.append("macs")  # with it a report has the table of layers
        return tuple(dict.fromkeys(keys))

    @property
    def needs_baseline(self) -> bool:
        """Whether some limit is relative."""
        return any(limit.relative for limit in self.limits)


def _read_limits(mapping: Mapping[str, Any], pattern: str | None = None) -> Iterator[Limit]:
    """Yield the limits of a mapping; ``pattern`` is the pattern of their layers."""
    for key, value in mapping.items():
        if key == "layers" and pattern is None:
            if not isinstance(value, Mapping) or not all(isinstance(inside, Mapping) for inside in value.values()):
                raise BudgetError(
                    "layers holds limits by path pattern: [layers.'encoder.*'] and below it macs = '<= 1 G'"
                )
            for path, inside in value.items():
                yield from _read_limits(inside, path)
        else:
            texts = value if isinstance(value, list) else [value]
            yield from (Limit.parse(key, text, pattern) for text in texts)


def read_budget(path: str | PathLike[str] | None, texts: Iterable[str] = ()) -> Budget:
    """Return the limits of an optional TOML file, and of texts such as ``"macs <= 5 G"``; there may be none.

    Raises `BudgetError` for a file or a text that holds no limits.
    """
    of_file = Budget.load(path).limits if path is not None else ()
    return Budget((*of_file, *map(_parse_text, texts)))


def _parse_text(text: str) -> Limit:
    key = re.split(r"[\s<>=]", text.strip(), maxsplit=1)[0]  # the part before the comparison
    if key.endswith(":"):
        raise BudgetError(
            f"{shown(text)}: limits of layers stand in a file, which --budget names: [layers.{key[:-1]!r}] and below "
            "it params = '<= 1 M'"
        )
    return Limit.parse(key, text.strip().removeprefix(key))
