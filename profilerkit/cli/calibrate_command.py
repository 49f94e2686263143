"""``profilerkit calibrate``: measures this machine, so that times on it can be predicted."""

from __future__ import annotations

from pathlib import Path

import click

from .options import by_rule, require_writable

__all__ = ["command"]


@click.command("calibrate")
@click.argument("output", metavar="FILE", callback=require_writable, type=click.Path())
@click.option("--backend", default="torch", show_default=True, help="Whose operators to measure.")
@click.option("--device", help="The device: cpu, or a device name of the framework, such as cuda:1.")
@click.option("--dtype", multiple=True, help="Measure in this dtype; repeat it for several. float32 unless given.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="About how long to measure.",
)
@click.option(
    "--num-threads",
    type=click.IntRange(min=1),
    callback=by_rule("num_threads"),
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
    from ..errors import ArgumentError
    from ..plugging.offers import backend_named
    from ..prediction.calibration import Calibration, toml_of
    from ..prediction.measuring import calibrate
    from ..process.files import write_text
    from . import emit

    try:
        measured = calibrate(
            backend_named(backend),
            device,
            dtype or ("float32",),
            seconds,
            num_threads,
            lambda step: click.echo(f"measuring {step}", err=True),
            compiled,
        )
    except ArgumentError as error:
        raise click.UsageError(str(error)) from error
    write_text(output, toml_of(measured))
    emit(f"{measured.name}: written to {output}")
    for dtype_name, peak in measured.dense_peaks.items():
        emit(f"  fastest product in {dtype_name}: {peak.value / 1e9:.4g} GFLOP/s")
    for what in ("operators", "networks"):
        if f"{what}_measured" in measured.facts:
            emit(f"  {what} measured: {measured.facts[f'{what}_measured']}")
    calibration = Calibration.of(measured)
    for phase in dict.fromkeys(network.phase for network in calibration.networks) if calibration is not None else ():
        if calibration is not None:
            middle, low, high = calibration.correction(phase)
            emit(
                f"  {phase}: networks took {middle:.2f} times what their operators add up to; "
                f"9 of 10 lie between {low:.2f} and {high:.2f}"
            )
