"""Files: what is read, what is refused, and what a damaged one leads to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino")
import numpy as np
import openvino
from damaged_onnx import damage
from openvino import opset16 as ops
from openvino_architectures import BUILDERS

from profilerkit import InputError, Profiler, profile
from profilerkit.testing import ARCHITECTURES
from profilerkit_openvino import OpenvinoBackend, OpenvinoProfiler

METRICS = ["macs", "flops", "total_params", "model_size"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    openvino.save_model(BUILDERS["lenet5"](), tmp_path / "net.xml", compress_to_fp16=False)
    return tmp_path / "net.xml"


def test_a_path_is_enough(path: Path) -> None:
    report = profile(str(path), metrics=METRICS)
    lenet5 = ARCHITECTURES["lenet5"]
    assert (report["macs"], report["flops"]) == (lenet5.macs(1), lenet5.flops(1))
    shape = 2 * 8  # of the reshape, two integers of 64 bits
    assert (report["total_params"], report["model_size"]) == (lenet5.params, 4 * lenet5.params + shape)
    assert report.backend == "openvino"


def test_a_profiler_reads_a_file_that_was_overwritten(path: Path) -> None:
    """The weights are not mapped: what was opened stays as it was, and a new profiler has the new numbers."""
    profiler = OpenvinoProfiler(path).register_defaults()
    profiler.compute(["total_params"])
    assert profiler.status_get("total_params") == ARCHITECTURES["lenet5"].params
    openvino.save_model(BUILDERS["mlp"](), path, compress_to_fp16=False)
    again = Profiler(path).register_defaults()
    again.compute(["total_params"])
    assert again.status_get("total_params") == ARCHITECTURES["mlp"].params


def test_the_fingerprint_of_a_file_is_the_same_each_time_and_changes_with_it(path: Path) -> None:
    backend = OpenvinoBackend()
    before = backend.fingerprint(backend.open_model(path))
    assert backend.fingerprint(backend.open_model(path)) == before
    weights = bytearray(path.with_suffix(".bin").read_bytes())
    weights[0] ^= 1
    path.with_suffix(".bin").write_bytes(weights)
    assert backend.fingerprint(backend.open_model(path)) != before


def test_copies_of_a_layer_that_were_not_trained_are_told_by_their_names(tmp_path: Path) -> None:
    """Two layers of PyTorch with equal matrices are two; a layer that is used twice, and a file, have one."""
    x = ops.parameter([1, 4], np.float32, name="x")
    matrices = [ops.constant(np.arange(1, 17).reshape(4, 4).astype(np.float32)) for _ in range(3)]
    for matrix, name in zip(
        matrices, ("self.layers.0.weight", "self.layers.1.weight", "self.layers.1.weight"), strict=True
    ):
        matrix.set_friendly_name(name)
    y = x
    for matrix in matrices:
        y = ops.relu(ops.matmul(y, matrix, False, False))
    net = openvino.Model([y], [x], "net")
    openvino.save_model(net, tmp_path / "net.xml", compress_to_fp16=False)
    assert profile(net, metrics=["total_params"])["total_params"] == 2 * 16
    assert profile(tmp_path / "net.xml", metrics=["total_params"])["total_params"] == 16


@pytest.mark.parametrize(("values", "parameters"), [(np.arange(1, 17), 16), (np.zeros(16), 2 * 16)], ids=["tied", "0"])
def test_a_matrix_that_a_converter_repeats_is_one_weight(values: Any, parameters: int, tmp_path: Path) -> None:
    """Two products with 4 x 4 numbers: OpenVINO writes equal ones once, and nobody knows whose zeros are tied."""
    x = ops.parameter([1, 4], np.float32, name="x")
    first, second = (ops.constant(values.reshape(4, 4).astype(np.float32)) for _ in range(2))
    y = ops.matmul(ops.relu(ops.matmul(x, first, False, False)), second, False, False)
    net = openvino.Model([y], [x], "net")
    openvino.save_model(net, tmp_path / "net.xml", compress_to_fp16=False)
    assert (tmp_path / "net.bin").stat().st_size == 4 * 16
    for model in (net, tmp_path / "net.xml"):
        report = profile(model, metrics=["total_params", "macs"])
        assert (report["total_params"], report["macs"]) == (parameters, 2 * 16)
        is_said = any(note.startswith("1 weight with the same elements as another") for note in report.notes)
        assert is_said == (parameters == 16)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it does not begin with <net>"),
        (b"<svg></svg>", "it does not begin with <net>"),
        (b'<?xml version="1.0"?><net name="x" version="11">', "cannot be read as an OpenVINO model"),
        (b'<net name="x" version="99"><layers></layers><edges></edges></net>', "holds no network"),
    ],
)
def test_what_is_no_model_is_refused(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        profile(path)


@pytest.mark.parametrize("before", [b'<net name="', b'<layer id="1" name="'])
def test_a_name_that_is_no_text_is_refused(before: bytes, path: Path) -> None:
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, before + b"\xe9", 1))
    with pytest.raises(InputError, match="cannot be read as an OpenVINO model: 'utf-8' codec can't decode"):
        profile(path)


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist or is no file; give the path of an \.xml file"):
        profile(tmp_path / "net.xml")


def test_weights_that_are_missing_or_cut_are_refused(path: Path) -> None:
    weights = path.with_suffix(".bin")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(InputError, match=r"is the \.bin file of the same name beside it, and whole"):
        profile(path)
    weights.unlink()
    with pytest.raises(InputError, match=r"is the \.bin file of the same name beside it, and whole"):
        profile(path)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        *(("net.xml", "net.bin"), ("net.", "net.bin"), ("net..", "net..bin"), ("a.net.", "a.net.bin")),
        *(("net", "net.bin"), (".xml", ".xml.bin"), ("net.XML", "net.bin"), ("net.xml.copy", "net.xml.bin")),
    ],
)
def test_nothing_outside_of_the_folder_is_read(name: str, weights: str, path: Path, tmp_path: Path) -> None:
    """Not over a link in place of the weights, whatever their file is called: OpenVINO reads them beside the model."""
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(path, folder / name)
    shutil.copy(path.with_suffix(".bin"), folder / weights)
    assert profile(folder / name, metrics=["total_params"], backend="openvino")["total_params"] > 0
    (folder / weights).unlink()
    (folder / weights).symlink_to(path.with_suffix(".bin"))
    with pytest.raises(InputError, match="leads outside of the folder of the model"):
        profile(folder / name, backend="openvino")


def test_an_operator_of_an_extension_is_named_and_no_library_is_loaded(path: Path) -> None:
    text = path.read_text().replace('type="Tanh" version="opset1"', 'type="Tanh" version="/tmp/evil.so"')
    path.write_text(text)
    with pytest.raises(InputError, match=r"/tmp/evil\.so"):
        profile(path)


def test_an_entity_of_xml_reads_no_file(path: Path) -> None:
    head, text = '<?xml version="1.0"?>', path.read_text()
    entity = '<!DOCTYPE net [<!ENTITY name SYSTEM "/etc/hostname">]>'
    path.write_text(text.replace(head, f"{head}{entity}").replace('<net name="net"', '<net name="&name;"'))
    assert Profiler(path).backend.model_name(Profiler(path).model) == "&name;"


NAMES = ("mlp", "lenet5", "lstm", "transformer_encoder")


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, bytes]]:
    folder = tmp_path_factory.mktemp("whole")
    files = {}
    for name in NAMES:
        openvino.save_model(BUILDERS[name](), folder / f"{name}.xml", compress_to_fp16=False)
        files[name] = (folder / f"{name}.xml").read_bytes(), (folder / f"{name}.bin").read_bytes()
    return files


def profile_damaged(seed: int, whole: dict[str, tuple[bytes, bytes]], folder: Path) -> str:
    """Profile a damaged file; return what came of it, and fail for a wrong number or a fault of the backend."""
    name = NAMES[seed % len(NAMES)]
    structure, weights = whole[name]
    if seed % 5:
        structure = damage(structure, seed)
    else:
        weights = damage(weights, seed)
    path = folder / "damaged.xml"
    path.write_bytes(structure)
    path.with_suffix(".bin").write_bytes(weights)
    try:
        report = profile(path, metrics=METRICS)
    except InputError as error:  # any other error would be one of the environment, or a fault
        assert str(error).strip()
        return "error"
    for key in METRICS:
        status = report.status(key)
        assert "fault of the backend" not in " ".join(status.missing), (seed, status.missing)
        assert status.completeness.value == "complete" or status.missing, (seed, key)
    if structure == whole[name][0] and report.status("macs").completeness.value == "complete":
        assert (report["macs"], report["flops"]) == (ARCHITECTURES[name].macs(1), ARCHITECTURES[name].flops(1))
        return "the same numbers"
    return "numbers of what the file says now"


def test_a_damaged_file_is_an_error_or_has_its_own_numbers(whole_files: Any, tmp_path: Path) -> None:
    results = {profile_damaged(seed, whole_files, tmp_path) for seed in range(60)}
    assert results >= {"error", "the same numbers"}


@pytest.mark.slow
def test_a_thousand_damaged_files(whole_files: Any, tmp_path: Path) -> None:
    results = [profile_damaged(seed, whole_files, tmp_path) for seed in range(1000)]
    assert results.count("the same numbers") > 50
