"""Each backend names the devices of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from profilerkit.devices import FOLDERS
from profilerkit.errors import DeviceNotAvailableError
from profilerkit.hooks.backends import backend_named
from profilerkit.process.environment import machine
from profilerkit.protocols import NamesDevices, require_capability


@pytest.mark.parametrize("name", ["torch", "tensorflow", "onnx", "jax"])
def test_the_cpu_is_named_as_the_system_names_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(name)
    backend = require_capability(backend_named(name), NamesDevices)
    info = backend.device_info("cpu")
    assert (info.name, info.kind, info.peak("float32")) == (machine()["cpu"], "cpu", None)
    assert info.memory == float(machine()["memory_bytes"])
    peaks = '[dense_peaks]\nfloat32 = { value = 3e9, source = "test" }'
    (tmp_path / "mine.toml").write_text(f'name = "mine"\naliases = ["{machine()["cpu"]}"]\n{peaks}\n')
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    assert backend.device_info("cpu").peak("float32") == 3e9
    with pytest.raises(DeviceNotAvailableError):
        backend.device_info("cuda:7")
