"""Files of PyTorch's that run code, each by another way: made from honest ones, they leave a marker file behind."""

from __future__ import annotations

import io
import json
import os
import pickle
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
    """A layer, a constant, and a size that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.constant = torch.ones(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = (self.fc(x) + self.constant).reshape(x.shape[0] * 2)
        return out


def export_net() -> torch.export.ExportedProgram:
    shape = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    return torch.export.export(Net(), (torch.ones(3, 4),), dynamic_shapes=shape)


def honest_program(path: Path) -> Path:
    torch.export.save(export_net(), path)
    return path


def is_new_layout() -> bool:
    """Return whether this release writes programs in another layout than torch 2.7; asked when tests are collected."""
    return tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)


def has_a_file_for_each_weight() -> bool:
    """Return whether this release writes each weight of a program into a file of its own; 2.8 has one for all."""
    return any(name.endswith("weights_config.json") for name in _written())


def _written() -> list[str]:
    """Return the names of what this release writes for a program."""
    buffer = io.BytesIO()
    torch.export.save(export_net(), buffer)
    with zipfile.ZipFile(buffer) as archive:
        return archive.namelist()


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


def pickle_value(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


Model = dict[str, Any]


def in_model(change: Callable[[Model], None]) -> Callable[[Changed], None]:
    def rewrite(members: Changed) -> None:
        name = "models/model.json" if is_new_layout() else "serialized_exported_program.json"
        model = json.loads(members[name])
        change(model)
        members[name] = json.dumps(model).encode()

    return rewrite


def with_payload(kind: str, entry: str, data: bytes, prefix: str = "") -> Callable[[Changed], None]:
    """Have the first weight, or the first constant, be read from a pickle."""

    def rewrite(members: Changed) -> None:
        name = f"data/{kind}/model_{kind}_config.json"
        config = json.loads(members[name])
        first = next(iter(config["config"].values()))
        first.update(path_name=f"{prefix}{entry}", use_pickle=True)
        members[name] = json.dumps(config).encode()
        members[f"data/{kind}/{prefix}{entry}"] = data

    return rewrite


def _put_example_inputs_in_capitals(data: bytes) -> Callable[[Changed], None]:
    """Have torch find the example inputs under another name than an export writes: it does not mind the case."""

    def rewrite(members: Changed) -> None:
        members.pop("data/sample_inputs/model.pt")
        members["data/sample_inputs/MODEL.PT"] = data

    return rewrite


def _nodes(model: Model) -> list[Any]:
    nodes: list[Any] = model["graph_module"]["graph"]["nodes"]
    return nodes


def _make_calling(target: str, *texts: str) -> Callable[[Model], None]:
    """Have the graph call a function with texts for arguments."""

    def change(model: Model) -> None:
        inputs = [{"name": "", "arg": {"as_string": text}, "kind": 1} for text in texts]
        node = {"target": target, "inputs": inputs, "outputs": [{"as_none": True}], "metadata": {}, "name": "called"}
        _nodes(model).insert(0, {**node, "is_hop_single_tensor_return": None})

    return change


def _in_a_size(text: str) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        for value in model["graph_module"]["graph"]["sym_int_values"].values():
            value["as_expr"]["expr_str"] = text

    return change


def _rename(old: str, new: str) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        text = json.dumps(model).replace(json.dumps(old), json.dumps(new))
        model.update(json.loads(text))

    return change


def _with_structure(context: str, kind: str) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        signature = model["graph_module"]["module_call_graph"][0]["signature"]
        version, tree = json.loads(signature["out_spec"])
        leaf = {"type": kind, "context": context, "children_spec": [tree]}
        signature["out_spec"] = json.dumps([version, leaf])

    return change


def programs(marker: Path, folder: Path) -> dict[str, Callable[[Path], Path]]:
    """Return what makes a malicious ``.pt2`` file, by what in it runs code; each makes the marker."""
    touch, run = pickle_value({"x": Touch(marker)}), f"__import__('os').mkdir({str(marker)!r})"
    (folder / "touching_module.py").write_text(f"import os\nos.mkdir({str(marker)!r})\nfound = list", encoding="utf-8")
    factory = {"default_factory_module": "touching_module", "default_factory_name": "found", "dict_context": ["a"]}
    enumeration = json.dumps([{"__enum__": True, "fqn": "touching_module:found", "name": 0}])
    changes: dict[str, Callable[[Changed], None]] = {
        "example inputs": lambda members: members.update({"data/sample_inputs/model.pt": touch}),
        "weights of an earlier layout": lambda members: members.update({"data/weights/model.pt": touch}),
        "constants of an earlier layout": lambda members: members.update({"data/constants/model.pt": touch}),
        "a weight": with_payload("weights", "weight_0", pickle_value(Touch(marker))),
        "a constant": with_payload("constants", "tensor_0", pickle_value(Touch(marker)), ""),
        "example inputs in capitals": _put_example_inputs_in_capitals(touch),
        "an object of torch's": with_payload("constants", "custom_obj_0", pickle.dumps(Touch(marker))),
        "an opaque object": with_payload("constants", "opaque_obj_0", pickle.dumps(Touch(marker))),
        "a size": in_model(_in_a_size(run)),
        "a function": in_model(_make_calling("torch.os.mkdir", str(marker))),
        "an operator that writes a file": in_model(_make_calling("torch.ops.aten.save.default", str(marker))),
        "an operator that maps a file": in_model(_make_calling("torch.ops.aten.from_file.default", str(marker))),
        "any overload of it": in_model(_make_calling("torch.ops.aten.from_file", str(marker))),
        "an operator of another package": in_model(
            _make_calling("torch.ops.profilerkit_test.mkdir.default", str(marker))
        ),
        "a higher-order operator": in_model(_make_calling("torch.ops.higher_order.run_const_graph", str(marker))),
        "an attribute of the operators": in_model(_make_calling("torch.ops.aten.__init__", str(marker))),
        "a part of a name unknown": in_model(lambda model: model.update(code=run)),
        "the key of a part": in_model(lambda model: model["range_constraints"].update({run: None})),
        "the name of a node": in_model(_rename("linear", f"linear = {run} #")),
        "the name of an input": in_model(_rename("x", f"x = {run}")),
        "the module of a structure": in_model(_with_structure(factory, "collections.defaultdict")),  # type: ignore[arg-type]
        "the module of an enumeration": in_model(_with_structure(enumeration, "builtins.dict")),
    }

    def change_program(change: Callable[[Changed], None]) -> Callable[[Path], Path]:
        return lambda path: rewritten(honest_program(path), change)

    return {
        **{name: change_program(change) for name, change in changes.items()},
        **{
            f"{name} in the layout of torch 2.7": _of_27(name, touch)
            for name in ("state_dict", "constants", "example_inputs")
        },
    }


def _of_27(place: str, data: bytes) -> Callable[[Path], Path]:
    """Return what writes a program in the layout of torch 2.7, with one of its pickles in place."""

    def make(path: Path) -> Path:
        from torch._export.serde.schema import SCHEMA_VERSION
        from torch._export.serde.serialize import serialize

        artifact = serialize(export_net())
        parts = {
            "state_dict": artifact.state_dict,
            "constants": artifact.constants,
            "example_inputs": artifact.example_inputs,
        }
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("version", ".".join(map(str, SCHEMA_VERSION)))
            archive.writestr("serialized_exported_program.json", artifact.exported_program)
            for name, own in {**parts, place: data}.items():
                archive.writestr(f"serialized_{name}.pt", own)
        return path

    return make


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
