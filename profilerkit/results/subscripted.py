"""What reports and comparisons share as mappings: they are read by the names of their metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import UnknownStatusError

if TYPE_CHECKING:
    from ..piping.status import StatusKey

__all__ = ["Subscripted", "one_line"]

#: The most characters that the parts in a one-line representation may take.
_LONGEST = 100


class Subscripted(Mapping[str, Any]):
    """A read-only mapping from the names of metrics to their values, in the order in which they are shown.

    Unlike a dict, a result is true even if it has no metric, and two are equal only if all else about them is.
    """

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def get(self, key: str | type[StatusKey], default: Any = None) -> Any:
        """Return the value of a metric, or ``default`` if the name is unknown."""
        try:
            return self[key]  # type: ignore[index]  # results take the classes of metrics too
        except UnknownStatusError:
            return default

    def _ipython_key_completions_(self) -> list[str]:
        """Return what IPython and Jupyter offer after ``result["``."""
        return list(self)


def one_line(kind: str, parts: Iterable[str]) -> str:
    """Return a representation in one line: as many of the parts as fit, and how many more there are.

    >>> one_line("Report", ["'Net'", "torch", "macs=16 MACs"])
    "<Report 'Net', torch, macs=16 MACs>"
    """
    listed = [" ".join(part.split()) for part in parts]
    fitting = [listed[0][:_LONGEST]]
    for part in listed[1:]:
        if len(", ".join([*fitting, part])) > _LONGEST:
            break
        fitting.append(part)
    more = len(listed) - len(fitting)
    return f"<{kind} {', '.join(fitting)}{f', and {more} more' if more else ''}>"
