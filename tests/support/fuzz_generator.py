"""Random small torch modules as Python source: seeded, the same each time, to be read and run by hand.

A module grows statement by statement. Each statement is tried on real tensors when it is made, and is kept only where
it runs; so no rule of shapes is written down here, and whatever torch allows can turn up.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["MISFIT", "Maker", "Misfit", "Piece", "Program", "Template", "load", "program", "texts"]

HEADER = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from fuzz_escapes import IntoEmpty, IntoZeros, Table, array, aside, run_in_pool
"""
#: The largest tensor that a statement may make.
MOST = 4096
#: What random statements raise: whatever torch does.
MISFIT = (Exception,)


class Misfit(Exception):
    """Raised by a template that needs what is not there."""


@dataclass
class Piece:
    """A statement: what the module needs for it, its lines, and the variable that it makes or changes."""

    body: list[str]
    made: str
    init: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)


Template = Callable[["Maker"], "Piece | str"]


@dataclass(frozen=True)
class Program:
    """A module that can be run: ``build()`` makes it, ``inputs()`` its inputs."""

    seed: int
    source: str

    def build(self) -> torch.nn.Module:
        """Return the module anew, each time with the same weights."""
        return load(self.source)["build"]()  # type: ignore[no-any-return]


def texts(table: str) -> list[str]:
    """Return the entries of a table: parted by bars, on lines of any length."""
    return [text.strip() for line in table.strip().split("\n") for text in line.split(" | ")]


def load(source: str) -> dict[str, Any]:
    """Run a program's source and return its names."""
    names: dict[str, Any] = {"__name__": "fuzzed"}
    exec(compile(source, "<fuzzed>", "exec"), names)
    return names


def program(seed: int) -> Program:
    """Return the program of a seed."""
    for attempt in range(20):
        rng = random.Random(f"{seed}.{attempt}")
        source = _source(rng, seed)
        if _runs(source):
            return Program(seed, source)
    raise AssertionError(f"seed {seed} makes no program that runs")


def _runs(source: str) -> bool:
    """Tell whether the whole runs as its statements did one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            names = load(source)
            model = names["build"]().eval()
            with torch.no_grad():
                model(*names["inputs"]())
        except MISFIT:
            return False
    return True


def _source(rng: random.Random, seed: int) -> str:
    from fuzz_statements import INPUTS

    classes: list[str] = []
    made = [rng.choice(INPUTS)(rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
    torch.manual_seed(seed)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        values = [eval(line, {"torch": torch}) for line in made]
        maker = Maker(rng, classes, values)
        maker.grow(rng.randint(2, 9))
        for index, line in enumerate(made):
            if line.startswith("torch.randn(") and line.endswith(")") and rng.random() < 0.05:
                made[index] = f"Table({line})"
                maker.body.insert(0, f"x{index} = x{index}.tensor")
        text = maker.text("Net")
    inputs = "".join(f"        {line},\n" for line in made)
    return (
        HEADER
        + "\n\n".join(["", *classes, text])
        + f"\n\ndef build():\n    torch.manual_seed({seed})\n    return Net()\n\n\n"
        + f"def inputs():\n    torch.manual_seed({seed + 1})\n    return (\n{inputs}    )\n"
    )


class Maker:
    """Makes one module class, statement by statement; ``env`` has the tensors at the end of forward so far."""

    def __init__(self, rng: random.Random, classes: list[str], values: list[torch.Tensor], depth: int = 0) -> None:
        self.rng = rng
        self.classes = classes
        self.depth = depth
        self.module = torch.nn.Module().eval()
        self.env: dict[str, Any] = load(HEADER)
        for text in classes:
            exec(text, self.env)
        self.env["self"] = self.module
        self.arguments = [f"x{index}" for index in range(len(values))]
        self.env.update(zip(self.arguments, values, strict=True))
        self.live = list(self.arguments)
        self.init: list[str] = []
        self.body: list[str] = []
        self.count = 0

    # What templates ask for.

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def size(self) -> int:
        return self.rng.choice((1, 2, 3, 4, 5, 6, 8))

    def value(self, name: str) -> torch.Tensor:
        value: torch.Tensor = self.env[name]
        return value

    def any(self, fits: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        """Return the name of a tensor that fits, of the last ones more often."""
        names = [name for name in self.live if fits(self.value(name))]
        if not names:
            raise Misfit
        return names[-1] if self.rng.random() < 0.6 else self.rng.choice(names)

    def real(self, *dims: int, numel: int = 1) -> str:
        """Return the name of a float tensor, of these dimensions if any are given, with that many elements or more."""
        return self.any(
            lambda t: t.is_floating_point() and (not dims or t.dim() in dims) and t.numel() >= min(numel, 1)
        )

    def attribute(self, made_by: str, pieces: list[str]) -> str:
        """Have the module made with an attribute, and return how it is written."""
        name = self.fresh("m")
        pieces.append(f"self.{name} = {made_by}")
        return f"self.{name}"

    def expression(self, name: str) -> str:
        """Return a short expression of a tensor that runs on it."""
        from fuzz_statements import SHORT

        for _ in range(10):
            text = self.rng.choice(SHORT).format(x=name, n=self.size())
            try:
                result = eval(text, dict(self.env))
            except MISFIT:
                continue
            if isinstance(result, torch.Tensor) and result.numel() <= MOST:
                return text
        raise Misfit

    # Growing.

    def grow(self, statements: int) -> None:
        from fuzz_families import FAMILIES

        families, weights = zip(*FAMILIES, strict=True)
        tries = 0
        while statements > 0 and tries < 60:
            tries += 1
            template = self.rng.choice(self.rng.choices(families, weights)[0])
            statements -= self._try(template)

    def _try(self, template: Template) -> bool:
        """Add a statement if it runs."""
        kept = len(self.classes), self.count, self.rng.getstate()
        try:
            piece = template(self)
        except MISFIT:
            del self.classes[kept[0] :]
            return False
        if isinstance(piece, str):
            made = self.fresh()
            piece = Piece([f"{made} = {piece}"], made)
        env = dict(self.env)
        attributes, parts = dict(vars(self.module)), dict(self.module._modules)
        try:
            self._run(piece, env)
        except MISFIT:
            del self.classes[kept[0] :]
            self.module.__dict__.update(attributes)
            self.module._modules.clear()
            self.module._modules.update(parts)
            return False
        self.env = env
        self.init += piece.init
        self.body += piece.body
        self.classes += piece.helpers
        return True

    def _run(self, piece: Piece, env: dict[str, Any]) -> None:
        for text in piece.helpers:
            exec(text, env)
        for line in piece.init:
            exec(line, env)
        self.module.eval()
        with torch.no_grad():
            exec("\n".join(piece.body), env)
        result = env[piece.made]
        if isinstance(result, (tuple, list)):
            piece.body.append(f"{piece.made} = [t for t in {piece.made} if isinstance(t, torch.Tensor)]")
            exec(piece.body[-1], env)
            index = self.rng.randrange(len(env[piece.made]))
            piece.body.append(f"{piece.made} = {piece.made}[{index}]")
            exec(piece.body[-1], env)
            result = env[piece.made]
        if type(result) is not torch.Tensor or result.numel() > MOST or result.dim() > 6:
            raise Misfit
        if piece.made not in self.live:
            self.live.append(piece.made)

    def text(self, name: str) -> str:
        """Return the class that was made."""
        body = "".join(f"        {line}\n" for text in self.body for line in text.split("\n"))
        init = "".join(f"        {line}\n" for line in self.init)
        last = self.live[-1]
        others = [n for n in self.live[:-1] if self.rng.random() < 0.15] if self.depth == 0 else []
        returned = f"({', '.join([last, *others])})" if others else last
        return (
            f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n{init}\n"
            f"    def forward(self, {', '.join(self.arguments)}):\n{body}        return {returned}\n"
        )
