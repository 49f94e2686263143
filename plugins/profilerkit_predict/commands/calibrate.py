"""``profilerkit calibrate``: measures this machine, so that times on it can be predicted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profilerkit.backend import RUN_CHECKS
from profilerkit.cli.option_values import make_callback, require_suffix

if TYPE_CHECKING:
    from profilerkit.devices.info import DeviceInfo

    from ..prediction import Calibration

#: An interval is of no use if its upper end is more than so many times the lower one.
_MOST_DISAGREEMENT = 25.0
_SECONDS = click.FloatRange(min=0, min_open=True)


@click.command("calibrate")
@click.argument("output", metavar="FILE", callback=require_suffix(".toml"), type=click.Path())
@click.option("--backend", default="torch", show_default=True, help="Whose operators to measure.")
@click.option("--device", help="The device: cpu, or a device name of the framework, such as cuda:1.")
@click.option("--dtype", multiple=True, help="Measure in this dtype; repeat it for several. float32 unless given.")
@click.option("--seconds", type=_SECONDS, default=120.0, show_default=True, help="About how long to measure.")
@click.option(
    "--num-threads",
    type=click.IntRange(min=1),
    callback=make_callback(RUN_CHECKS["num_threads"]),
    help="Threads of an operator; the file is for models that run on as many.",
)
@click.option("--compiled", is_flag=True, help="Also run the networks compiled; some minutes more.")
def command(
    output: Path,
    backend: str,
    device: str | None,
    dtype: tuple[str, ...],
    seconds: float,
    num_threads: int | None,
    compiled: bool,
) -> None:
    """Measure this machine, and write it as a calibrated device to a TOML file.

    It measures products, convolutions and attention by shape and dtype, traffic by its bytes, and what the host takes;
    then it predicts and runs small networks, for the error of its predictions. Use the file with --on FILE, or put it
    into a folder that PROFILERKIT_DEVICES names. Let nothing else run meanwhile.
    """
    from profilerkit.cli import emit, say
    from profilerkit.errors import ArgumentError
    from profilerkit.hooks.backends import backend_named
    from profilerkit.process.files import write_text

    from ..prediction.calibrating import calibrate
    from ..prediction.calibration import Calibration
    from ..prediction.device_file import write_toml

    try:
        measured = calibrate(
            backend_named(backend),
            device,
            dtype or ("float32",),
            seconds,
            num_threads,
            progress=lambda step: say(f"measuring {step}"),
            compiled=compiled,
        )
    except ArgumentError as error:
        raise click.UsageError(str(error)) from error
    write_text(output, write_toml(measured))
    emit(f"{measured.name}: written to {output}")
    for line in _describe_device(measured):
        emit(line)
    calibration = Calibration.of(measured)
    if calibration is not None:
        for line in _describe_networks(calibration):
            emit(line)


def _describe_device(measured: DeviceInfo) -> Iterator[str]:
    """Yield the fastest product in each dtype, and how much was measured."""
    for dtype, peak in measured.dense_peaks.items():
        yield f"  fastest product in {dtype}: {peak.value / 1e9:.4g} GFLOP/s"
    for what in ("operators", "networks"):
        if f"{what}_measured" in measured.facts:
            yield f"  {what} measured: {measured.facts[f'{what}_measured']}"


def _describe_networks(calibration: Calibration) -> Iterator[str]:
    """Yield the error of predictions with this calibration by its networks, for each phase."""
    for phase in dict.fromkeys(network.phase for network in calibration.networks):
        middle, low, high = calibration.correction(phase)
        if not calibration.is_corrected(phase):
            yield (
                f"  {phase}: fewer than three networks ran, too few for a correction; intervals are from {low:.3g} to "
                f"{high:.3g} times the estimate"
            )
            continue
        yield (
            f"  {phase}: networks took {middle:.3g} times what their operators add up to; "
            f"9 of 10 lie between {low:.3g} and {high:.3g}"
        )
        if high > _MOST_DISAGREEMENT * low:
            yield (
                "    they disagree so much that predictions say little: other programs used the machine, or the time "
                "was too short; calibrate again when it is idle"
            )
