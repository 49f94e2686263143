"""What reports and comparisons have in common: they become text, a figure, a page or a file."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..arguments.checking import checked
from ..error_text import shown
from ..errors import ArgumentError
from ..plugging.renderers import form_of, render, renderer
from ..process.files import write_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..arguments.keywords import FigureKind, FormName
    from .comparison import Comparison
    from .report import Report

__all__ = ["Result", "require_result"]

R = TypeVar("R", bound="Result")


def require_result(value: Any) -> Report | Comparison:
    """Return a report or a comparison; raises `ArgumentError` for anything else."""
    if not isinstance(value, Result):
        raise ArgumentError(f"{shown(value)} is no result: give a Report or a Comparison")
    return value._either


class Result:
    """A report of one model, or several side by side; there is no third kind."""

    @property
    def _either(self) -> Report | Comparison:
        return cast("Report | Comparison", self)

    def plot(self, kind: FigureKind | str, **options: Any) -> Any:
        """Return a figure of matplotlib, of one of the `profilerkit.figures.KINDS`; needs the ``plot`` extra.

        ``report.plot("icicle", by="macs")`` is ``profilerkit.figures.icicle(report, by="macs")``. A comparison has all
        models side by side.
        """
        return renderer("figure", is_text=False)(self._either, kind=kind, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold: what `save` writes."""
        values: dict[str, Any] = renderer("values", is_text=False)(self._either)
        return values

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file: in the form of its suffix, such as ``.html``, ``.md`` or ``.csv``, otherwise as JSON.

        `load` reads JSON alone.
        """
        path = checked("path", path)
        write_text(path, render(self._either, form_of(path) or "json"))

    @classmethod
    def load(cls: type[R], path: str | PathLike[str]) -> R:
        """Read what `save` wrote; raises `ReportFileError` for anything else, naming the field."""
        loaded: R = renderer("loaded", is_text=False)(cls, path)
        return loaded

    def to_text(
        self,
        details: bool = False,
        *,
        form: FormName | str = "console",
        depth: int | None = None,
        top: int | None = None,
        configuration: bool = False,
    ) -> str:
        """Return it as text: the console table, or another form.

        Args:
            details: Add descriptions and the layers, as ``--layers`` does on the command line.
            form: What ``--format`` takes there: ``"tree"``, ``"markdown"``, ``"latex"``.
            depth: Show no layers that lie deeper; -1 for those at any depth.
            top: Show only so many layers, those with the most MACs, and rows of each table.
            configuration: Also show how each layer is configured, in the form ``"tree"``.
        """
        if isinstance(details, str):
            raise ArgumentError(f"details={shown(details)}: give True or False; a form is to_text(form={details!r})")
        options = {"details": details, "depth": depth, "top": top, "configuration": configuration}
        given = {name: value for name, value in options.items() if value is not None}
        return render(self._either, form, **given)

    def __str__(self) -> str:
        return self.to_text()

    def __rich__(self) -> RenderableType:
        table: RenderableType = renderer("rich", is_text=False)(self._either)
        return table

    def _repr_html_(self) -> str:
        """Return the metrics and notes as a notebook shows them."""
        fragment: str = renderer("notebook", is_text=False)(self._either)
        return fragment
