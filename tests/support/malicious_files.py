"""Files of PyTorch's that run code, each by another way: made from honest ones, they leave a marker file behind."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Touch:
    """Unpickles to nothing, and makes a file meanwhile."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.marker,)


class Net(nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(x)
        return out


def honest_program(path: Path) -> Path:
    torch.export.save(torch.export.export(Net(), (torch.ones(3, 4),)), path)
    return path


Changed = dict[str, bytes]


def rewritten(path: Path, change: Callable[[Changed], None], made: Path | None = None) -> Path:
    """Write an archive of torch's anew with other members, whose names are those below its folder."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        folder = names[0].partition("/")[0]
        members = {name.removeprefix(f"{folder}/"): archive.read(name) for name in names}
    change(members)
    if folder in members:  # an archive of torch 2.6 or 2.7 has no folder
        with zipfile.ZipFile(made or path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return made or path
    writer = torch._C.PyTorchFileWriter(str(made or path))
    for name, data in members.items():
        if not name.startswith(".data/") and name != "byteorder" and name != "version":
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return made or path


class Saves(nn.Module):
    """Writes a file when it is run."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save([x], self.path)
        return x


class WritesAtOnce(nn.Module):
    """Writes a file when it is loaded: `scripts` puts what does so in the place of its ``zeros``."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        return (self.kept, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.training = state[1]
        self.kept = torch.zeros([1])


class Holds(nn.Module):
    """Holds the one that writes, two layers down."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.Sequential(inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


def script(marker: Path, path: Path) -> Path:
    """Write a script that makes the marker when it is run."""
    torch.jit.script(Saves(str(marker))).save(str(path))
    marker.unlink(missing_ok=True)
    return path


def scripts(marker: Path) -> dict[str, Callable[[Path], Path]]:
    """Return what makes a TorchScript file that writes the marker when it is loaded, by how its code is written."""
    arguments = f'("{marker}", True, 1, dtype=6)'
    calls = {
        "the operator": f"torch.from_file{arguments}",
        "blanks and line breaks": f"torch .\\\n  from_file{arguments}",
        "getattr": f'getattr(torch, "from_file"){arguments}',
        "an escaped character": f"getattr(torch, 'from\\137file'){arguments}",
        "two texts in a row": f'getattr(torch, "from_" "file"){arguments}',
        "the namespace of operators": f"ops.aten.from_file{arguments}",
        "getattr of getattr": f'getattr(getattr(ops, "aten"), "from_file"){arguments}',
        "another method": "(self).write()",
    }

    def write_script(call: str, whole: Callable[[nn.Module], nn.Module]) -> Callable[[Path], Path]:
        def make(path: Path) -> Path:
            torch.jit.script(whole(WritesAtOnce())).save(str(path))
            method = f"  def write(self) -> Tensor:\n    return torch.from_file{arguments}\n"
            return rewritten(path, lambda members: _put_in_code(members, call, method))

        return make

    ways = {name: write_script(call, lambda module: module) for name, call in calls.items()}
    return {**ways, "a layer inside": write_script(calls["getattr"], Holds)}


def _put_in_code(members: Changed, call: str, method: str) -> None:
    for name in members:
        if name.endswith(".py"):
            code, own = members[name].decode(), "  def __getstate__(self: __torch__.malicious_files.WritesAtOnce)"
            members[name] = code.replace("torch.zeros([1])", call).replace(own, method + own).encode()
