"""The nodes that operators are part of: with the ids that Model Explorer gives them where it opens the same file.

The ids below are written by hand, after the source of its adapters: for ``.tflite`` the index of the operator in its
graph (``direct_flatbuffer_to_json_graph_convert.cc``), for ``.onnx`` the names that ``NameFixPass`` of onnx_ir makes
unique (``_passes.py`` of model-explorer-onnx), for ``.pt2`` the name of the node (``create_node`` in
``pytorch_exported_program_adater_impl.py``). Where the adapters are installed, they are asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from profilerkit import profile  # noqa: E402 - numpy comes first, or the tests are skipped
from profilerkit.models.loaders import load_model  # noqa: E402
from profilerkit.render import render  # noqa: E402

#: Of each operator, in the order in which they run: its graph and its node.
Nodes = list[tuple[str, str, str]]


def write_tflite(path: Path) -> Any:
    """Write a product, weights that are unpacked before, an activation, and a branch of two operators."""
    pytest.importorskip("ai_edge_litert")
    from litert_models import GraphBuilder, options, write_model

    main = GraphBuilder()
    x = main.input("x", (1, 4))
    weights = main.add("DEQUANTIZE", [main.constant("half", np.ones((4, 4), np.float16))], (4, 4))
    y = main.add("FULLY_CONNECTED", [x, weights, -1], (1, 4), options=options("FullyConnected"))
    condition = main.add("REDUCE_ANY", [main.add("CAST", [y], (1, 4), dtype="bool"), main.constant("axes", [0, 1])], ())
    branches = [GraphBuilder(main.buffers, name) for name in ("then", "else")]
    made = [
        branch.add("TANH", [branch.add("TANH", [branch.input("z", (1, 4))], (1, 4))], (1, 4)) for branch in branches
    ]
    chosen = options("If", thenSubgraphIndex=1, elseSubgraphIndex=2)
    z = main.add("IF", [condition, y], (1, 4), options=chosen)
    end = main.add("RELU", [z], (1, 4))
    path.write_bytes(write_model([main, *branches], [end, *made]))
    return np.ones((1, 4), np.float32)


TFLITE: Nodes = [
    ("FULLY_CONNECTED", "main", "1"),
    ("CAST", "main", "2"),
    ("REDUCE_ANY", "main", "3"),
    ("TANH", "main", "4"),
    ("TANH", "main", "4"),
    ("RELU", "main", "5"),
]


def write_onnx(path: Path) -> Any:
    """Write nodes with equal names and without any, in a graph and in the branches of an ``If``."""
    pytest.importorskip("onnx")
    import onnx
    from onnx import helper
    from onnx_graphs import make_model

    branches = {
        name: helper.make_graph(
            [helper.make_node("Relu", ["c"], ["p"]), helper.make_node("Tanh", ["p"], [made])],
            name,
            [],
            [helper.make_empty_tensor_value_info(made)],
        )
        for name, made in (("then_branch", "t"), ("else_branch", "e"))
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["c"], name="product"),
        helper.make_node("MatMul", ["c", "w"], ["d"], name="product"),
        helper.make_node("If", ["condition"], ["f"], **branches),
        helper.make_node("Add", ["d", "f"], ["g"]),
        helper.make_node("Sigmoid", ["g"], ["y"], name="/head/act/Sigmoid"),
    ]
    inputs = {"x": np.ones((1, 4), np.float32), "condition": np.array(True)}
    onnx.save(make_model(nodes, inputs, {"w": np.ones((4, 4), np.float32)}), path)
    return inputs


#: The branch has its own "node" and then the next number, which the node after it does not get again.
ONNX: Nodes = [
    ("Relu", "small", "node"),
    ("Tanh", "small", "node_1"),
    ("MatMul", "small", "product"),
    ("MatMul", "small", "product_1"),
    ("Relu", "small", "node_2"),
    ("Tanh", "small", "node_2"),
    ("Add", "small", "node_5"),
    ("Sigmoid", "small", "/head/act/Sigmoid"),
]


def write_program(path: Path) -> Any:
    """Write a layer that is called twice, views, and a dropout, which leaves nothing to do."""
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.twice, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x: Any) -> Any:
            first, second = self.drop(self.twice(self.norm(self.twice(x)))).split(2, -1)
            return torch.cat([first.relu(), second], -1)

    torch.export.save(torch.export.export(Net().eval(), (torch.ones(3, 4),)), path)
    return None


PROGRAM: Nodes = [
    ("aten.linear.default", "graph", "linear"),
    ("aten.layer_norm.default", "graph", "layer_norm"),
    ("aten.linear.default", "graph", "linear_1"),
    ("aten.relu.default", "graph", "relu"),
    ("aten.cat.default", "graph", "cat"),
]

FILES: Mapping[str, tuple[Callable[[Path], Any], Nodes]] = {
    "net.tflite": (write_tflite, TFLITE),
    "net.onnx": (write_onnx, ONNX),
    "net.pt2": (write_program, PROGRAM),
}


def profile_file(path: Path, inputs: Any) -> Any:
    loaded = load_model(str(path), trust=True)
    model, examples = getattr(loaded, "model", loaded), getattr(loaded, "inputs", None)
    return profile(model, examples if inputs is None else inputs, metrics=["macs", "total_params"])


@pytest.mark.parametrize("name", FILES)
def test_operators_have_the_nodes_of_the_file(name: str, tmp_path: Path) -> None:
    write, expected = FILES[name]
    report = profile_file(tmp_path / name, write(tmp_path / name))
    assert [(row["operator"], row["graph"], row["node"]) for row in report.operators] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_model_explorer_itself_names_the_nodes_so(name: str, tmp_path: Path) -> None:
    """Its adapter opens the file, and each node that has data is there; it does the operator that the trace says."""
    write, expected = FILES[name]
    inputs = write(tmp_path / name)
    graphs = open_by_adapter(tmp_path / name)
    for _, graph, node in expected:
        assert node in graphs[graph]
    drawn = json.loads(render(profile_file(tmp_path / name, inputs), "model-explorer"))
    assert all(set(data["results"]) <= set(graphs[graph]) for graph, data in drawn.items())
    unlike = {
        operator: graphs[graph][node]
        for operator, graph, node in expected
        if not is_like(operator, graphs[graph][node])
    }
    inside = {"net.tflite": {"TANH": "if"}, "net.onnx": {"Relu": "If", "Tanh": "If"}, "net.pt2": {}}
    assert unlike == inside[name], "what is inside a branch is at the node of the branch"


def is_like(operator: str, label: str) -> bool:
    return operator.removesuffix(".default").lower() == label.lower()


def open_by_adapter(path: Path) -> dict[str, dict[str, str]]:
    """Return the label of each node by its id, for each graph, as Model Explorer's own adapter makes them."""
    pytest.importorskip("model_explorer")
    settings = {"const_element_count_limit": 16}
    if path.suffix == ".tflite":
        module = import_module("model_explorer.builtin_tflite_flatbuffer_adapter")
        converted = module.BuiltinTfliteFlatbufferAdapter().convert(str(path), settings)
        graphs = [graph for collection in converted["graphCollections"] for graph in collection.graphs]
        return {graph["id"]: {node["id"]: node["label"] for node in graph["nodes"]} for graph in graphs}
    if path.suffix == ".onnx":
        adapter = pytest.importorskip("model_explorer_onnx.main").ONNXAdapter()
    else:
        module = import_module("model_explorer.builtin_pytorch_exportedprogram_adapter")
        adapter = module.BuiltinPytorchExportedProgramAdapter()
    converted = adapter.convert(str(path), settings)
    return {graph.id: {node.id: node.label for node in graph.nodes} for graph in converted["graphs"]}
