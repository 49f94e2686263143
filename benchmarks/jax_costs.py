"""FLOPs of JAX programs by hand, by profilerkit and by XLA's ``cost_analysis``: exact cases out of how many, seconds.

``python benchmarks/jax_costs.py [--cases]``: with the numbers of each case in which XLA differs. The cases are the
closed forms of ``tests/profilerkit_jax/costs/test_closed_forms.py``, programs with control flow, and the networks that
every backend is held to; the expected numbers are written by hand there, and here. XLA is asked after compilation, of
the program that runs. Its transcendentals are no FLOPs to it; one column adds them.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "profilerkit_jax" / "costs"))

from jax_architectures import BUILDERS
from test_closed_forms import DECOMPOSITIONS, ELEMENTWISE, FREE, PRODUCTS, REDUCTIONS

from profilerkit import ModelInputs
from profilerkit.testing import ARCHITECTURES
from profilerkit_jax import JaxModel, compiled_analysis
from profilerkit_jax.backend import JaxBackend

BACKEND = JaxBackend()
S = jax.ShapeDtypeStruct
X = S((8, 8), "float32")
#: FLOPs of one product of X with itself.
ONE = 2 * 8**3


class Program(NamedTuple):
    """What is counted: a model, its inputs, and the FLOPs by hand."""

    model: Any
    inputs: ModelInputs
    flops: int


class Counts(NamedTuple):
    """The FLOPs of a program by hand, by profilerkit and by XLA, XLA's transcendentals, and both times in seconds."""

    expected: int
    ours: int | None
    xla: float | None
    transcendentals: float
    our_seconds: float
    xla_seconds: float


def _repeated(turns: int) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda carry, _: (carry @ carry, None), x, None, length=turns)[0]


def _counted(x: Any) -> Any:
    return lax.while_loop(lambda state: state[0] < 7, lambda state: (state[0] + 1, state[1] @ x), (0, x))[1]


#: Programs with control flow, and what they take by hand.
CONTROL_FLOW: dict[str, tuple[Callable[..., Any], int]] = {
    "scan, 10 turns": (_repeated(10), 10 * ONE),
    "scan, 1 turn": (_repeated(1), ONE),
    "fori_loop, 6 turns": (lambda x: lax.fori_loop(0, 6, lambda _, y: y @ x, x), 6 * ONE),
    "while that counts to 7": (_counted, 7 * ONE),
    "scan in a scan, 3 x 4": (
        lambda x: lax.scan(lambda y, _: (_repeated(4)(y), None), x, None, length=3)[0],
        12 * ONE,
    ),
    "scan, unrolled": (
        lambda x: lax.scan(lambda y, _: (y @ x, None), x, None, length=4, unroll=4)[0],
        4 * ONE,
    ),
    "map over 5 rows": (lambda x: lax.map(lambda row: x @ row, x[:5]), 5 * 2 * 8 * 8),
    "cond, one branch twice the other": (lambda x: lax.cond(x[0, 0] > 0, lambda: x @ x @ x, lambda: x @ x), 2 * ONE),
    "jit in a jit": (lambda x: jax.jit(jnp.matmul)(x, x), ONE),
    "vmap over 3": (lambda x: jax.vmap(jnp.matmul, (0, None))(jnp.stack([x, x, x]), x), 3 * ONE),
    "remat": (jax.checkpoint(lambda y: y @ y), ONE),
}


def families() -> Iterator[tuple[str, dict[str, Program]]]:
    """Yield the programs by family."""
    named = {"one function an element": ELEMENTWISE, "moves, choices, integers": FREE, "reductions": REDUCTIONS}
    for family, cases in {**named, "products": PRODUCTS, "decompositions, FFT": DECOMPOSITIONS}.items():
        yield (
            family,
            {
                name: Program(JaxModel(case.function), ModelInputs(*case.inputs), case.flops)
                for name, case in cases.items()
            },
        )
    flow = {
        name: Program(JaxModel(function), ModelInputs(X), flops) for name, (function, flops) in CONTROL_FLOW.items()
    }
    yield "control flow", flow
    networks = {}
    for name, architecture in ARCHITECTURES.items():
        inputs = architecture.model_inputs(BACKEND, "channels_last", 3)
        networks[name] = Program(BUILDERS[name](), inputs, architecture.flops(3))
    yield "networks", networks
    yield "12 layers of 512, 128 words", {name: layers(name == "in a scan") for name in ("in a row", "in a scan")}


def layers(in_a_scan: bool) -> Program:
    """Twelve gated layers: three products of 512 x 2048 for each of 128 words, a sigmoid and two products."""

    def layer(x: Any, weights: Any) -> Any:
        up, gate, down = weights
        return (x @ up * jax.nn.sigmoid(x @ gate)) @ down + x

    def in_row(params: Any, x: Any) -> Any:
        for index in range(12):
            x = layer(x, [param[index] for param in params])
        return x

    def scanned(params: Any, x: Any) -> Any:
        return lax.scan(lambda y, weights: (layer(y, weights), None), x, params)[0]

    up, down = S((12, 512, 2048), "float32"), S((12, 2048, 512), "float32")
    flops = 12 * (3 * 2 * 128 * 512 * 2048 + 2 * 128 * 2048 + 128 * 512)
    model = JaxModel(scanned if in_a_scan else in_row, [up, up, down])
    return Program(model, ModelInputs(S((128, 512), "float32")), flops)


def compare_counts(program: Program) -> Counts:
    """Return what both have for a program."""
    start = time.perf_counter()
    trace = BACKEND.trace(program.model, program.inputs)
    middle = time.perf_counter()
    try:
        analysis = compiled_analysis(program.model, *program.inputs.args, **program.inputs.kwargs)
        xla, transcendentals = analysis.flops or 0.0, analysis.transcendentals or 0.0  # it leaves zeros out
    except Exception:  # whatever XLA cannot compile on this device
        xla, transcendentals = None, 0.0
    seconds = middle - start, time.perf_counter() - middle
    ours = None if trace.failure is not None or trace.uncounted else trace.flops
    return Counts(program.flops, ours, xla, transcendentals, *seconds)


def shown(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each family, and with ``--cases`` one for each case in which XLA differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", action="store_true", help="print the cases in which XLA differs")
    options = parser.parse_args(arguments or [])
    warnings.simplefilter("ignore")
    print(f"{'':<30}{'cases':>6}{'profilerkit':>13}{'ms':>7}{'XLA':>6}{'with transcendentals':>22}{'ms':>8}")
    for family, programs in families():
        rows = {name: compare_counts(program) for name, program in programs.items()}
        ours = sum(row.ours == row.expected for row in rows.values())
        xla = sum(row.xla == row.expected for row in rows.values())
        both = sum(row.xla is not None and row.xla + row.transcendentals == row.expected for row in rows.values())
        milliseconds = 1000 * sum(row.our_seconds for row in rows.values()) / len(rows)
        theirs = 1000 * sum(row.xla_seconds for row in rows.values()) / len(rows)
        print(f"{family:<30}{len(rows):>6}{ours:>13}{milliseconds:>7.0f}{xla:>6}{both:>22}{theirs:>8.0f}", flush=True)
        for name, value in rows.items() if options.cases else ():
            if value.xla != value.expected or value.ours != value.expected:
                numbers = f"{value.expected:>16,}{shown(value.ours):>16}{shown(value.xla):>16}"
                print(f"    {name:<34}{numbers}{value.transcendentals:>12,.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
