"""Profiles of JAX by the layers of a model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flax")

import jax
import jax.numpy as jnp
from flax import nnx

import profilerkit
from profilerkit import NotOfferedError, ProfileFileError
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.joining.instruction_layers import find_layer, find_layers
from profilerkit_jax.joining.programs import Instruction, read_program

TEXT = """HloModule jit_f, is_scheduled=true

%fused (p: f32[2,8]) -> f32[2,8] {
  %p = f32[2,8]{1,0} parameter(0)
  %add.1 = f32[2,8]{1,0} add(%p, %p), metadata={op_name="jit(f)/a/add" stack_frame_id=1}
  ROOT %dot.2 = f32[2,8]{1,0} dot(%add.1, %p), metadata={op_name="jit(f)/b/dot_general"}
}

ENTRY %main (x: f32[2,8]) -> f32[2,8] {
  %x = f32[2,8]{1,0} parameter(0), metadata={op_name="x"}
  %copy.3 = f32[2,8]{0,1} copy(%x)
  ROOT %add_fusion = f32[2,8]{1,0} fusion(%copy.3), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/a/add"}
}
"""


class Network(nnx.Module):
    """Two products of 3 * 64 * 64 = 12,288 MACs."""

    def __init__(self) -> None:
        self.first = nnx.Linear(64, 64, rngs=nnx.Rngs(0))
        self.second = nnx.Linear(64, 64, rngs=nnx.Rngs(1))

    def __call__(self, x: Any) -> Any:
        return self.second(jnp.tanh(self.first(x)))


def test_instructions_of_a_program() -> None:
    found = read_program(TEXT)
    assert list(found) == ["p", "add.1", "dot.2", "x", "copy.3", "add_fusion"]
    assert found["add_fusion"] == Instruction(
        "fusion",
        "jit(f)/a/add",
        ("copy.3", "fused"),
        "main",
        "fused",
        "f32[2,8]{1,0}",
        "%copy.3), kind=kLoop, calls=%fused, ",
    )
    assert found["copy.3"] == Instruction("copy", "", ("x",), "main", "", "f32[2,8]{0,1}", "%x)")
    layers, several = find_layers(found, {"", "a", "b"})
    assert layers["add_fusion"] == "b"  # the product decides
    assert several == {"add_fusion": {"a", "b"}}
    assert layers["copy.3"] == "b"  # which reads it


def test_a_fusion_inside_a_fusion_brings_its_layer_along() -> None:
    """XLA has put it there: what it holds tells its layer, and not a scope of its own."""
    program = """%inner (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %add.1 = f32[8]{0} add(%p, %p), metadata={op_name="jit(f)/a/add"}
}

%outer (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  ROOT %inner_fusion = f32[8]{0} fusion(%q), kind=kLoop, calls=%inner
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %outer_fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%outer
}
"""
    layers, fused = find_layers(read_program(program), {"", "a"})
    assert (layers["inner_fusion"], layers["outer_fusion"]) == ("a", "a")
    assert fused == {"inner_fusion": {"a"}, "outer_fusion": {"a"}}


def test_a_fusion_inside_a_fusion_brings_its_product_and_all_its_layers_along() -> None:
    """The product is of b. Two of the three instructions in the outer fusion are of a, and one in the inner is of c."""
    program = """%inner (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  %dot.1 = f32[8,8]{1,0} dot(%p, %p), metadata={op_name="jit(f)/b/dot_general"}
  ROOT %neg.1 = f32[8,8]{1,0} negate(%dot.1), metadata={op_name="jit(f)/c/neg"}
}

%outer (q: f32[8,8]) -> f32[8,8] {
  %q = f32[8,8]{1,0} parameter(0)
  %inner_fusion = f32[8,8]{1,0} fusion(%q), kind=kLoop, calls=%inner
  %add.1 = f32[8,8]{1,0} add(%inner_fusion, %q), metadata={op_name="jit(f)/a/add"}
  ROOT %add.2 = f32[8,8]{1,0} add(%add.1, %q), metadata={op_name="jit(f)/a/add"}
}

ENTRY %main (x: f32[8,8]) -> f32[8,8] {
  %x = f32[8,8]{1,0} parameter(0)
  ROOT %outer_fusion = f32[8,8]{1,0} fusion(%x), kind=kLoop, calls=%outer
}
"""
    layers, fused = find_layers(read_program(program), {"", "a", "b", "c"})
    assert layers["outer_fusion"] == "b"
    assert fused == {"inner_fusion": {"b", "c"}, "outer_fusion": {"a", "b", "c"}}


def test_scopes_that_lead_to_layers() -> None:
    paths = {"", "Dense_0", "Block_1", "Block_1.Dense_0"}
    assert find_layer("jit(f)/Net/Block_1/Dense_0/dot_general", paths) == "Block_1.Dense_0"
    assert find_layer("jit(f)/transpose(jvp(Net))/Dense_0/add", paths) == "Dense_0"
    assert find_layer("jit(f)/elsewhere/add", paths) is None


def test_a_profile_of_this_machine(tmp_path: Path) -> None:
    model, x = Network(), jnp.ones((3, 64))
    definition, state = nnx.split(model)
    call = jax.jit(lambda state, x: nnx.merge(definition, state)(x))
    jax.block_until_ready(call(state, x))
    with jax.profiler.trace(str(tmp_path)):
        for _ in range(3):
            jax.block_until_ready(call(state, x))
    joined = profilerkit.join(tmp_path, model, x)
    assert joined.profiler == "JAX (XLA)"
    assert len(joined.recording.passes) == 3
    assert sum(row["own_macs"] for row in joined.layers) == joined.trace.macs == 2 * 12_288
    assert joined.layers["first"]["own_seconds"] > 0
    assert joined.layers["second"]["own_seconds"] > 0
    assert joined.unattributed_share < 0.05


def written(folder: Path, *instructions: tuple[str, float, float], run: int | None = 1, **further: Any) -> Path:
    """Write a profile of instructions, each with its begin and duration in microseconds."""
    args = {"hlo_module": "jit_f", **({} if run is None else {"run_id": run}), **further}
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": start, "dur": taken, "args": {"hlo_op": name, **args}}
        for name, start, taken in instructions
    ]
    file = folder / "profile.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return file


def test_scopes_in_the_profile_go_before_the_program(tmp_path: Path) -> None:
    # As on a GPU: names that are not those of the program for this CPU, with the scopes that they were traced in.
    file = written(tmp_path, ("gemm_fusion", 0, 8), ("loop_fusion", 8, 2), tf_op="jit(f)/Network/second/dot_general")
    joined = profilerkit.join(file, Network(), jnp.ones((3, 64)))
    assert joined.layers["second"]["own_seconds"] == pytest.approx(10e-6)
    assert joined.layers["first"]["own_seconds"] == 0


@pytest.mark.parametrize(("process", "device"), [("/device:GPU:0", "/device:GPU:0"), ("/host:CPU", "")])
def test_the_recording_names_the_device(process: str, device: str, tmp_path: Path) -> None:
    file = written(tmp_path, ("gemm_fusion", 0, 8), tf_op="jit(f)/Network/second/dot_general")
    profile = json.loads(file.read_text())
    profile["traceEvents"].append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": process}})
    file.write_text(json.dumps(profile))
    joined = profilerkit.join(file, Network(), jnp.ones((3, 64)))
    assert (joined.recording.device, joined.recording.on_device) == (device, bool(device))
    text = str(joined)
    assert f"Kernels ran on {device or 'the host'};" in text
    assert "Ran on" not in text
    assert any("no device '/device:GPU:0'" in note for note in joined.notes) == bool(device)


def test_passes_that_are_left_out_take_other_programs_along(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    for run in (1, 2, 3):
        for program, name, start, taken in (("jit_f", "fusion", 0, 80), ("jit_loss", "add", 90, 10)):
            args = {"hlo_op": name, "hlo_module": program, "run_id": run, "tf_op": "jit(f)/Network/first/dot"}
            if program == "jit_loss":
                args["tf_op"] = "jit(loss)/add"
            events.append(
                {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": 100 * run + start, "dur": taken, "args": args}
            )
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"traceEvents": events}))
    joined = profilerkit.join(file, Network(), jnp.ones((3, 64)), skip=2)
    assert len(joined.recording.passes) == 1
    seconds = {kernel.name: kernel.seconds for kernel in joined.recording.kernels}
    assert seconds == {"fusion": pytest.approx(80e-6), "add": pytest.approx(10e-6)}


class Repeating(nnx.Module):
    """A layer three times in a loop, and another one once."""

    def __init__(self) -> None:
        self.first = nnx.Linear(64, 64, rngs=nnx.Rngs(0))
        self.last = nnx.Linear(64, 64, rngs=nnx.Rngs(1))

    def __call__(self, x: Any) -> Any:
        return self.last(jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(self.first(y)), x))


@pytest.mark.parametrize("model", [Network, Repeating])
def test_passes_of_a_profile_that_does_not_tell_runs_apart(model: type[nnx.Module], tmp_path: Path) -> None:
    """Three passes of this machine, by the program: without their numbers they are found all the same."""
    net, x = model(), jnp.ones((3, 64))
    definition, state = nnx.split(net)
    call = jax.jit(lambda state, x: nnx.merge(definition, state)(x))
    jax.block_until_ready(call(state, x))
    with jax.profiler.trace(str(tmp_path)):
        for _ in range(3):
            jax.block_until_ready(call(state, x))
    told = [profilerkit.join(tmp_path, net, x, skip=skip) for skip in range(3)]
    assert [len(joined.recording.passes) for joined in told] == [3, 2, 1]
    [path] = tmp_path.rglob("*.trace.json.gz")
    content = json.loads(gzip.decompress(path.read_bytes()))
    for event in content["traceEvents"]:
        for name in ("run_id", "group_id"):
            event.get("args", {}).pop(name, None)
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    for skip, joined in enumerate(told):
        found = profilerkit.join(tmp_path, net, x, skip=skip).recording
        assert found.passes == pytest.approx(joined.recording.passes)
        assert found.kernels == joined.recording.kernels
    with pytest.raises(ProfileFileError, match="skip=3: the profile has 3 passes"):
        profilerkit.join(tmp_path, net, x, skip=3)


def test_two_devices_run_each_pass_together(tmp_path: Path) -> None:
    """Two passes of 10 microseconds each, of which the second device takes 12, without the numbers of the runs."""
    events: list[dict[str, Any]] = []
    for device in (1, 2):
        events.append({"ph": "M", "name": "process_name", "pid": device, "args": {"name": f"/device:GPU:{device}"}})
        for begin in (0, 100):
            args = {"hlo_op": "gemm_fusion", "hlo_module": "jit_f", "tf_op": "jit(f)/Network/second/dot_general"}
            place = {"ph": "X", "pid": device, "tid": 1, "name": "gemm_fusion", "ts": begin, "dur": 8 + 2 * device}
            events.append({**place, "args": args})
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"traceEvents": events}))
    joined = profilerkit.join(file, Network(), jnp.ones((3, 64)))
    assert joined.recording.passes == pytest.approx((12e-6, 12e-6))
    [kernel] = joined.recording.kernels
    assert kernel.calls == 2
    assert kernel.seconds == pytest.approx(22e-6)


def test_what_is_refused(tmp_path: Path) -> None:
    x = jnp.ones((3, 64))
    with pytest.raises(ProfileFileError, match="another model, device or version: only 0 % of its time"):
        profilerkit.join(written(tmp_path, ("stranger", 0, 8)), Network(), x)
    nothing = tmp_path / "nothing.json"
    host = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/host:CPU"}}
    nothing.write_text(json.dumps({"traceEvents": [host]}))
    with pytest.raises(ProfileFileError, match="has 1 events, and no instruction of a compiled program"):
        profilerkit.join(nothing, Network(), x)
    with pytest.raises(ProfileFileError, match="skip=1: the profile has 1 passes"):
        profilerkit.join(written(tmp_path, ("a", 0, 8), tf_op="jit(f)/first/add"), Network(), x, skip=1)
    torch = tmp_path / "torch.json"
    torch.write_text('{"traceEvents": [{"cat": "cpu_op", "name": "aten::mm", "ph": "X", "ts": 1, "dur": 1}]}')
    with pytest.raises(ProfileFileError, match=r"is a profile of torch\.profiler, and the model is one of JAX"):
        profilerkit.join(torch, Network(), x)


def test_there_is_no_script_for_it() -> None:
    with pytest.raises(NotOfferedError, match=r"jax\.profiler\.trace"):
        JaxBackend().profile_script()
