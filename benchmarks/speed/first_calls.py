"""The first call of a fresh process, in imports of its framework; and commands that need no framework."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .options import Options
from .processes import time_commands
from .tables import Table

__all__ = ["measure"]

ROUNDS, QUICK_ROUNDS = 5, 1

NET = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU())
"""
TORCH = "import torch; from torch import nn; net = nn.Sequential(nn.Linear(8, 8), nn.ReLU()); x = torch.ones(1, 8)\n"
IMPORT_KERAS = "import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'; import keras\n"
KERAS = f"{IMPORT_KERAS}net = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8)])\n"
JAX = "import jax, jax.numpy as jnp; f = lambda x: jnp.tanh(x @ jnp.ones((8, 8))); x = jnp.ones((1, 8))\n"
FILE = "import onnx; from onnx import helper\n"
SAVED = """
from onnx import TensorProto
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", ends[:1], ends[1:])
net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
"""
PROFILE = "from profilerkit import profile; report = profile"
#: The rows that measure other programs.
OTHERS = ("``FlopCounterMode``", "``model.summary()``", "XLA's cost analysis")


class Program(NamedTuple):
    """A program of a fresh interpreter, and the name of that in whose seconds it is told."""

    unit: str
    code: str


#: Each row, by what a user does.
PROGRAMS: Mapping[str, Program] = {
    "``import torch``": Program("``import torch``", "import torch"),
    "a profile of two layers": Program("``import torch``", f"{TORCH}{PROFILE}(net, x)"),
    "its static metrics": Program("``import torch``", f"{TORCH}{PROFILE}(net, x, static=True)"),
    "``FlopCounterMode``": Program(
        "``import torch``",
        f"{TORCH}from torch.utils.flop_counter import FlopCounterMode\n"
        "with FlopCounterMode(display=False) as counter:\n    net(x)",
    ),
    "``import keras``": Program("``import keras``", IMPORT_KERAS),
    "static metrics of a Keras model": Program("``import keras``", f"{KERAS}{PROFILE}(net, static=True)"),
    "``model.summary()``": Program("``import keras``", f"{KERAS}net.summary(print_fn=str)"),
    "``import onnx``": Program("``import onnx``", "import onnx"),
    "static metrics of an ONNX model": Program("``import onnx``", f"{FILE}{SAVED}{PROFILE}(net, static=True)"),
    "``import jax``": Program("``import jax``", "import jax"),
    "static metrics of a JAX function": Program(
        "``import jax``",
        f"{JAX}from profilerkit_jax import JaxModel\n{PROFILE}(JaxModel(f), x, static=True)",
    ),
    "XLA's cost analysis": Program("``import jax``", f"{JAX}jax.jit(f).lower(x).compile().cost_analysis()"),
}


def measure(options: Options) -> dict[str, Table]:
    """Return the table of first calls, and that of commands without a framework."""
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        net = Path(folder, "net.py")
        net.write_text(NET, encoding="utf-8")
        command = [*_command("profile", f"{net}:build"), "--input-shape", "8", "--static"]
        commands = {name: [sys.executable, "-c", program.code] for name, program in PROGRAMS.items()}
        seconds = time_commands({**commands, "``profilerkit profile --static``": command}, rounds)
    units = {name: program.unit for name, program in PROGRAMS.items()} | {
        "``profilerkit profile --static``": "``import torch``"
    }
    rows = [
        (name, f"{spent:.2f} s", units[name], f"{spent / seconds[units[name]]:.2f}") for name, spent in seconds.items()
    ]
    return {
        "first calls": Table(("first call", "seconds", "in units of", "ratio"), tuple(rows), ("ratio",), OTHERS),
        "commands": _measure_commands(rounds),
    }


def _measure_commands(rounds: int) -> Table:
    """Return the table of commands that import no framework, in starts of the interpreter."""
    commands = {
        "``python -c pass``": [sys.executable, "-c", "pass"],
        "``import profilerkit``": [sys.executable, "-c", "import profilerkit"],
        "``import numpy``": [sys.executable, "-c", "import numpy"],
        "``profilerkit --help``": _command("--help"),
        "``profilerkit list``": _command("list"),
    }
    seconds = time_commands(commands, 3 * rounds)
    start = seconds["``python -c pass``"]
    rows = [(name, f"{1e3 * spent:.0f} ms", f"{spent / start:.1f}") for name, spent in seconds.items()]
    return Table(("command", "time", "in starts of Python"), tuple(rows), ("in starts of Python",))


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "profilerkit", *arguments]
