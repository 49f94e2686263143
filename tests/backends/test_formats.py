"""One network in six formats: the twins are the same function, and each difference is what the page says it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
for needed in ("sklearn", "onnxscript", "onnxruntime", "flax"):
    pytest.importorskip(needed)

import digits  # noqa: E402 - the frameworks come first, or the tests are skipped
import flax_models  # noqa: E402
import formats  # noqa: E402
from profilerkit import Comparison, compare, profile  # noqa: E402
from profilerkit_onnx import optimize  # noqa: E402
from same_weights import copy_to_flax  # noqa: E402

pytestmark = pytest.mark.slow

#: The channels of each batch norm of the teacher, and the sides of its images: the stem, then two in each block and one
#: in each shortcut but the first.
NORMS = ((32, 16), (32, 8), (32, 8), *[(64, 4)] * 3, *[(128, 2)] * 3)
CHANNELS = sum(channels for channels, _ in NORMS)
ELEMENTS = sum(channels * side**2 for channels, side in NORMS)


def teacher() -> Any:
    """The teacher after one batch in training mode, so that its statistics are not all alike."""
    network = digits.digits_teacher()
    with digits.use_seed(0), torch.no_grad():
        network.train()(torch.rand(8, 1, 32, 32))
    return network.eval()


NETWORKS: dict[str, Any] = {"student": lambda: digits.digits_student().eval(), "teacher": teacher}


class Exported:
    """The forms of a network in ONNX, by name, and the folder with the files."""

    def __init__(self, role: str, folder: Path) -> None:
        self.folder = folder
        self.forms = dict(formats.onnx_forms(NETWORKS[role](), role, folder))


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported("student", tmp_path_factory.mktemp("student"))


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported("teacher", tmp_path_factory.mktemp("teacher"))


def image() -> Any:
    return torch.zeros(1, *formats.IMAGE)


@pytest.mark.parametrize("role", NETWORKS)
def test_the_twin_in_flax_is_the_same_function(role: str) -> None:
    network = NETWORKS[role]()
    twin = flax_models.lenet5() if role == "student" else flax_models.resnet18(10, 1, width=32, blocks=(1, 1, 1))
    copy_to_flax(network, twin).eval()
    images = np.random.default_rng(0).random((3, 1, 32, 32), dtype="float32")
    with torch.no_grad():
        expected = network(torch.from_numpy(images)).numpy()
    assert expected.std() > 0.01
    np.testing.assert_allclose(twin(images.transpose(0, 2, 3, 1)), expected, rtol=1e-3, atol=1e-5)


def test_the_published_counts_of_the_twins_in_flax() -> None:
    names = ["total_params", "macs"]
    lenet = profile(flax_models.lenet5(), np.zeros((1, 32, 32, 1), "float32"), metrics=names)
    assert [lenet[name] for name in names] == [61_706, 416_520]
    resnet = profile(flax_models.resnet18(), np.zeros((1, 224, 224, 3), "float32"), metrics=names)
    assert [resnet[name] for name in names] == [11_689_512, 1_814_073_344]


def test_a_folded_batch_norm_leaves_a_bias(folded: Exported) -> None:
    """2 n parameters become n; two FLOPs for each element become one."""
    names = ["total_params", "macs", "flops"]
    params, macs, flops = (profile(teacher(), image(), metrics=names)[name] for name in names)
    for name, form in folded.forms.items():
        report = profile(form.model, image(), metrics=names)
        assert [report[one_name] for one_name in names] == [params - CHANNELS, macs, flops - ELEMENTS], name
    assert (CHANNELS, ELEMENTS) == (672, 16_896)


def test_the_older_exporter_names_the_convolution_and_the_newer_one_the_batch_norm(folded: Exported) -> None:
    for name, path in {"Script ONNX": "conv1", "Dynamo ONNX": "bn1"}.items():
        layers = profile(folded.forms[name].model, image(), metrics=["macs"]).layers
        assert layers is not None
        assert {row["path"]: row["macs"] for row in layers}[path] == 16 * 16 * 32 * 49, name
        assert {"conv1", "bn1"} - {row["path"] for row in layers} == {"conv1", "bn1"} - {path}, name


def test_equal_biases_of_an_untrained_network_are_written_once_or_not_at_all(tmp_path: Path) -> None:
    names = ["total_params", "flops"]
    untrained = digits.digits_teacher().eval()
    params, flops = (profile(untrained, image(), metrics=names)[name] for name in names)
    exported = dict(formats.onnx_forms(untrained, "teacher", tmp_path))
    widths = sum({channels for channels, _ in NORMS})
    script = profile(exported["Script ONNX"].model, image(), metrics=names)
    assert [script[name] for name in names] == [params - 2 * CHANNELS + widths, flops - ELEMENTS]
    dynamo = profile(exported["Dynamo ONNX"].model, image(), metrics=names)
    assert [dynamo[name] for name in names] == [params - 2 * CHANNELS, flops - 2 * ELEMENTS]


def test_activations_that_are_fused_have_no_output_of_their_own(student: Exported) -> None:
    """At the peak stand the outputs of a convolution and of its tanh; as run, those of tanh and of the pooling."""
    for exporter in ("Script", "Dynamo"):
        written, run = (
            profile(student.forms[f"{exporter} {form}"].model, image(), metrics=["memory_footprint", "flops"])
            for form in ("ONNX", "as run")
        )
        assert written["memory_footprint"] - run["memory_footprint"] == 4 * (6 * 28 * 28 - 6 * 14 * 14)
        assert written["flops"] == run["flops"]


def test_channels_in_blocks_count_as_they_run(student: Exported) -> None:
    """Output channels that do not fill a block of 8 or 16 are padded; the weights of the run graph have the sizes."""
    run = optimize(student.folder / "script.onnx", "all")
    weights = {tensor.name: list(tensor.dims) for tensor in run.graph.initializer}
    kernels = [weights[node.input[1]] for node in run.graph.node if node.op_type == "Conv"]
    block = next(
        (size for size in (16, 8) if [sizes[0] for sizes in kernels] == [-(-n // size) * size for n in (6, 16, 120)]), 1
    )
    padded = [-(-channels // block) * block for channels in (6, 16, 120)]
    macs = 28 * 28 * padded[0] * 25 + 10 * 10 * padded[1] * 6 * 25 + padded[2] * 16 * 25 + 120 * 84 + 84 * 10
    assert profile(run, image(), metrics=["macs"])["macs"] == macs
    assert macs == {16: 615_720, 8: 455_720, 1: 416_520}[block]


def test_the_flattening_of_the_newer_exporter_has_a_shape(student: Exported) -> None:
    constants = [
        tensor for tensor in onnx.load(student.folder / "dynamo.onnx").graph.initializer if tensor.data_type == 7
    ]
    assert [list(tensor.dims) for tensor in constants] == [[2]]
    sizes = [profile(form.model, image(), metrics=["model_size"])["model_size"] for form in student.forms.values()]
    assert sizes == [4 * 61_706, 4 * 61_706, 4 * 61_706 + 16, 4 * 61_706 + 16]


def test_a_format_whose_packages_are_missing_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda package: None)
    assert list(formats.build_forms(NETWORKS["student"](), "student", tmp_path)) == ["PyTorch"]
    printed = capsys.readouterr().out
    assert "Without onnx, onnxscript, onnxruntime; for it too: " in printed
    assert "-m pip install '.[jax]'" in printed
    assert "-m pip install '.[openvino]'" in printed
    assert "-m pip install '.[tensorflow,litert]'" in printed


def test_converted_files_have_the_macs_of_the_source_in_the_same_layers(
    monkeypatch: pytest.MonkeyPatch, folded: Exported
) -> None:
    """Each convolution and linear layer of the teacher is one row with those of the files; batch norms have no MACs."""
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")  # which the example sets for its process
    for package in ("tensorflow", "openvino", "ai_edge_litert"):
        pytest.importorskip(package)
    network = NETWORKS["teacher"]()
    for build in (formats.openvino_forms, formats.litert_forms):
        dict(build(network, "teacher", folded.folder))
    files = [str(folded.folder / name) for name in ("script.onnx", "net.xml", "net.tflite")]
    comparison = compare(network, *files, inputs=image(), metrics=["total_params", "macs", "flops"])
    names = [report.name for report in comparison.reports]
    rows = {row["path"]: [row[f"macs of {name}"] for name in names] for row in comparison.all_layers("macs")}
    weighted = {
        path for path, module in network.named_modules() if isinstance(module, torch.nn.Conv2d | torch.nn.Linear)
    }
    assert len(weighted) == 10
    for path in weighted:
        assert rows[path] == [rows[path][0]] * 4, path
    assert sum(rows[path][0] for path in weighted) == rows[""][0] == comparison.reports[0]["macs"]
    for report in comparison.reports[1:]:
        assert report["total_params"] == comparison.reports[0]["total_params"] - CHANNELS
        assert report["flops"] == comparison.reports[0]["flops"] - ELEMENTS


def test_a_file_of_litert_stores_the_zeros_around_an_image_and_axes(folded: Exported) -> None:
    """Two constants of (4, 2) whole numbers of 32 bits, for three pixels and for one, and the two axes of a mean."""
    for package in ("tensorflow", "ai_edge_litert"):
        pytest.importorskip(package)
    form = dict(formats.litert_forms(NETWORKS["teacher"](), "teacher", folded.folder))["LiteRT"]
    report = profile(form.model, image(), metrics=["total_params", "model_size"])
    assert report["model_size"] - 4 * report["total_params"] == 2 * 4 * 2 * 4 + 2 * 4


@pytest.mark.slow
def test_the_example_prints_one_comparison_and_writes_its_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")  # which the example sets for its process
    for package in ("tensorflow", "openvino", "ai_edge_litert"):
        pytest.importorskip(package)
    compared = formats.compare_forms
    monkeypatch.setattr(formats, "compare_forms", lambda forms, test: compared(forms, test, max_seconds=0.5))
    comparison = formats.main(["--page", str(tmp_path / "page.html")])
    assert isinstance(comparison, Comparison)
    names = [report.name for report in comparison.reports]
    exported = ["Script ONNX", "Script as run", "Dynamo ONNX", "Dynamo as run"]
    assert names == ["PyTorch", *exported, "Keras", "Flax", "OpenVINO", "LiteRT"]
    scores = [report["eval_metric"] for report in comparison.reports]
    assert min(scores) > 85
    assert max(scores) - min(scores) < 0.3, "rounding may tip one of 360 images"
    assert {report["macs"] for report in comparison.reports} == {416_520}
    assert {report["total_params"] for report in comparison.reports} == {61_706}
    assert all(report["execution_time"].median > 0 for report in comparison.reports)
    printed = capsys.readouterr().out
    assert printed.splitlines().count("Comparison") == 1
    assert "MACs by layer" in printed
    assert "failed" not in printed
    assert "MACs" in (tmp_path / "page.html").read_text(encoding="utf-8")
