"""The common base of reports and comparisons: mappings that can become text, a figure, a page or a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..arguments.checks import PATH
from ..arguments.names import status_name
from ..error_text import shown
from ..errors import ArgumentError, UnknownStatusError
from ..hooks.offers import name_of_metric
from ..hooks.renderers import draw_html_fragment, find_form, rank_suffixes, render, renderer
from ..piping.status import StatusKey
from ..process.encoding import printable
from ..process.files import write_text

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Result", "one_line"]

R = TypeVar("R", bound="Result")
#: The most characters that the parts in a one-line representation may take.
_LONGEST = 100


class Result(Mapping[str, Any]):
    """The base class of `Report` and `Comparison`: a mapping from the names of metrics to their values, in their order.

    Unlike a dict, a result is true even if it has no metric, and two are equal only if all else about them is.
    """

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        """Return whether there is a metric of this name, which may be one of its other names."""
        return isinstance(key, str) and self._find_name(key) in list(self)

    def _find_name(self, key: str | type[StatusKey]) -> str:
        """Return the name of a metric for one of its names or its class: "execution_time" for "latency"."""
        name = status_name("key", key)
        if name in list(self):
            return name
        return name_of_metric(name)

    def get(self, key: str | type[StatusKey], default: Any = None) -> Any:
        """Return the value of a metric, or ``default`` if the name is unknown."""
        try:
            return self[key]  # type: ignore[index]  # results take the classes of metrics too
        except UnknownStatusError:
            return default

    def _ipython_key_completions_(self) -> list[str]:
        """Return the keys that IPython and Jupyter offer after ``result["``."""
        return list(self)

    def plot(self, kind: str, **options: Any) -> Any:
        """Return a matplotlib figure of one of `profilerkit_pages.figures.kinds`. It needs the ``plot`` extra.

        ``report.plot("icicle", by="macs")`` is ``profilerkit_pages.figures.icicle(report, by="macs")``. The figure of a
        comparison shows all models.
        """
        return self._draw("figure", kind=kind, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the complete result as values for JSON, as `save` writes it."""
        values: dict[str, Any] = self._draw("values")
        return values

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a file. The suffix sets the format: ``.html``, ``.md``, ``.csv``; without one JSON.

        Only JSON files can be loaded again. A suffix that names no format raises `ArgumentError`.
        """
        path = PATH("path", path)
        form = find_form(path) if Path(path).suffix else "json"
        if form is None:
            raise ArgumentError(
                f"path={os.fspath(path)!r}: the suffix names no format; use one of these, nearest first: "
                f"{', '.join(rank_suffixes(path))}"
            )
        write_text(path, self._write(form))

    @classmethod
    def load(cls: type[R], path: str | PathLike[str]) -> R:
        """Read a file that `save` wrote. Any other file raises `ReportFileError`, which names the field."""
        loaded: R = renderer("loaded", is_text=False)(cls, path)
        return loaded

    def to_text(
        self,
        details: bool = False,
        *,
        form: str = "summary",
        depth: int | None = None,
        top: int | None = None,
        configuration: bool = False,
        advice: bool = True,
    ) -> str:
        """Return the costs of the model and of its layers as text, or another form.

        Args:
            details: Add descriptions and the layers, as ``--layers`` does on the command line.
            form: A value of ``--format`` there: ``"table"``, ``"tree"``, ``"markdown"``, ``"latex"``.
            depth: The depth of the deepest layers to show; -1 for all.
            top: The number of layers to show, with the most MACs first, and of rows of each table.
            configuration: Also show the settings of each layer, in the form ``"tree"``.
            advice: Add sentences about conspicuous costs, in the form ``"summary"``.
        """
        if isinstance(details, str):
            raise ArgumentError(f"details={shown(details)}: give True or False; a form is to_text(form={details!r})")
        limits = {name: value for name, value in {"depth": depth, "top": top}.items() if value is not None}
        return self._write(form, details=details, configuration=configuration, advice=advice, **limits)

    def log_to(self, tracker: Any, *, step: int | None = None, prefix: str = "cost") -> None:
        """Log the numbers, in base units, and the tables to an experiment tracker.

        Args:
            tracker: A ``SummaryWriter`` of TensorBoard, the module ``mlflow`` in a run, a run of W&B, a logger of
                Lightning, or anything else with their methods; any other object raises `ArgumentError`.
            step: The step of the training that the numbers belong to.
            prefix: The beginning of the names: "cost" for "cost/macs".
        """
        self._draw("tracker", tracker, step=step, prefix=prefix)

    def __str__(self) -> str:
        return printable(self.to_text())

    def __rich__(self) -> RenderableType:
        table: RenderableType = self._draw("rich")
        return table

    def _repr_html_(self) -> str | None:
        """Return the metrics and notes as a notebook shows them."""
        return draw_html_fragment(self)

    def _write(self, form: str, **options: Any) -> str:
        """Return this in a form of text."""
        result: Any = self  # a report or a comparison
        return render(result, form, **options)

    def _draw(self, form: str, *arguments: Any, **options: Any) -> Any:
        """Return the result of a renderer whose form is no text."""
        return renderer(form, is_text=False)(self, *arguments, **options)


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
