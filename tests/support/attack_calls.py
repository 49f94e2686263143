"""What is done with models under attack, for every backend."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from time_limits import join

from profilerkit import Profiler, Report, load
from profilerkit.hooks.renderers import list_forms
from profilerkit.render import render

__all__ = ["in_a_thread", "in_every_form", "use_in_every_way"]


def in_a_thread(do: Callable[[], Any]) -> None:
    """Call a function in another thread of the caller's; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            do()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="the caller's")
    thread.start()
    join(thread)
    if raised:
        raise raised[0]


def in_every_form(report: Report) -> list[Any]:
    """Save a report, read it again, and show it in every form that there is."""
    with tempfile.TemporaryDirectory() as folder:
        report.save(Path(folder) / "report.json")
        found = load(Path(folder) / "report.json")
    shown = [render(report, form, details=True) for form in list_forms()]
    return [*shown, found.to_dict(), report._repr_html_()]


def use_in_every_way(profiler: Profiler, model: Any, **runs: Any) -> Report:
    """Use a profiler in every way that it has."""
    profiler.compute_network_status(print_mode="debug", short_print=False, **runs)
    clone = profiler.clone(model=model, retain_status=True)
    clone.compute_status("macs", recompute=True)
    clone.compare(profiler, print_mode="debug", recompute=True, **runs)
    return profiler.report()
