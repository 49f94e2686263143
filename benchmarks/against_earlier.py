"""Whole default profiles of this version beside those of an earlier one, in pairs.

``git worktree add ../earlier b61d2db; python benchmarks/against_earlier.py ../earlier [--pairs 30]``: each version runs
in a process of its own, with the threads that users have, and they take turns: a profile of one, then of the other, on
the same model. Printed is the median of the ratios, this version's wall time over the earlier one's, with its 95 %
interval. Garbage is collected between profiles; the first two pairs are left out.

Each model is profiled in three ways: by default; by default with as many samples of the time in both versions, since
how many there are by default depends on the machine and on when a version trusts them; and for its counts alone.
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
WARMUP = 2
#: Whose paths come first for a process of one version.
FOLDERS = ("", "backends", "metrics", "examples")


def _perceptron() -> tuple[Any, Any]:
    import torch
    from torch import nn

    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), torch.randn(1, 64)


def _convolutions() -> tuple[Any, Any]:
    """Sixteen residual blocks of three convolutions, as in a ResNet-50, narrower."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            steps = [(64, 32, 1), (32, 32, 3), (32, 64, 1)]
            layers = [
                [nn.Conv2d(i, o, k, padding=k // 2, bias=False), nn.BatchNorm2d(o), nn.ReLU()] for i, o, k in steps
            ]
            self.body = nn.Sequential(*[layer for three in layers for layer in three])

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), *[Block() for _ in range(16)]).eval(), torch.randn(1, 3, 64, 64)


def _encoder() -> tuple[Any, Any]:
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval(), torch.randn(1, 64, 128)


def _recurrent() -> tuple[Any, Any]:
    import torch
    from torch import nn

    return nn.LSTM(64, 64, num_layers=3, batch_first=True), torch.randn(1, 32, 64)


def _bert() -> tuple[Any, Any]:
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=64, num_hidden_layers=6, num_attention_heads=4, intermediate_size=256)
    model: Any = BertModel(config)
    return model.eval(), torch.randint(0, 1000, (1, 32))


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "perceptron": _perceptron,
    "ResNet-50's blocks": _convolutions,
    "encoder of 12 layers": _encoder,
    "LSTM of 3 layers": _recurrent,
    "BERT of 6 layers": _bert,
}
#: The arguments of each way to profile.
WAYS: dict[str, dict[str, Any]] = {
    "default profile": {},
    "the same samples": {"num_iters": 20, "warmup": 3},
    "counts alone": {"metrics": ["total_params", "macs", "flops", "model_size", "memory_footprint"]},
}


def serve() -> None:
    """Profile what each line asks for, and answer with its seconds: what a process of one version does."""
    import gc
    import time
    import warnings

    from profilerkit import profile

    warnings.simplefilter("ignore")
    models = {name: build() for name, build in MODELS.items()}
    for line in sys.stdin:
        name, arguments = json.loads(line)
        model, x = models[name]
        gc.collect()
        began = time.perf_counter()
        profile(model, x, **arguments)
        sys.stdout.write(f"{time.perf_counter() - began}\n")
        sys.stdout.flush()


def _with_entry_points(checkout: Path, folder: Path) -> Path:
    """Write what an installation of a checkout would register, and return the folder that has it.

    Else a process of the earlier version would read the entry points of the version that is installed.
    """
    setup = configparser.ConfigParser()
    setup.read(checkout / "setup.cfg")
    metadata = folder / "profilerkit-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: profilerkit\nVersion: 0\n")
    groups = setup["options.entry_points"].items()
    lines = [f"[{group}]\n{entries.strip()}\n" for group, entries in groups if group != "console_scripts"]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


def _start(checkout: Path, scratch: Path) -> subprocess.Popen[str]:
    paths = [str(_with_entry_points(checkout, scratch)), *(str(checkout / folder) for folder in FOLDERS)]
    code = (
        f"import sys; sys.path[:0] = {[*paths, str(Path(__file__).parent)]!r}; import against_earlier as a; a.serve()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], text=True, env=environment, cwd=checkout, **pipes)  # type: ignore[call-overload,no-any-return]


def _seconds(process: subprocess.Popen[str], name: str, arguments: dict[str, Any]) -> float:
    stdin, stdout = _pipes(process)
    stdin.write(f"{json.dumps([name, arguments])}\n")
    stdin.flush()
    return float(stdout.readline())


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def rows(earlier: Path, pairs: int, names: list[str]) -> Iterator[str]:
    """Yield a line for each model and each way of asking, as soon as its pairs are measured."""
    from profilerkit import Measurement, Ratio

    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        checkouts = {"here": ROOT, "earlier": earlier.resolve()}
        here, other = (stack.enter_context(_start(path, scratch / name)) for name, path in checkouts.items())
        for name in names:
            for way, arguments in WAYS.items():
                seconds: tuple[list[float], list[float]] = ([], [])
                for pair in range(WARMUP + pairs):
                    for side in (0, 1) if pair % 2 else (1, 0):
                        seconds[side].append(_seconds((here, other)[side], name, arguments))
                new, old = (Measurement(tuple(duration[WARMUP:]), session=1) for duration in seconds)
                ratio = Ratio.of(old, new)
                interval = f"{ratio.value:6.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
                yield f"{name:<22} {way:<16} {interval}  {old.median:.4f} s"
        for process in (here, other):
            _pipes(process)[0].close()


def main(arguments: list[str] | None = None) -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("earlier", type=Path, help="a checkout of the earlier version")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--model", action="append", choices=MODELS, default=[])
    options = parser.parse_args(arguments)
    for row in rows(options.earlier, options.pairs, options.model or list(MODELS)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
