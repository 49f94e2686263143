"""The machine that a row was measured on: the facts of its kind, a digest of them, and a text for people."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.process.environment import machine

#: The facts that two machines of a kind share, without the machine's name and the kernel's version.
_KIND = ("system", "architecture", "cpu", "cores", "usable_cores", "memory_bytes", "accelerators")
#: The driver of NVIDIA has a folder here for each GPU.
_GPUS = Path("/proc/driver/nvidia/gpus")


def read_machine() -> dict[str, str]:
    """Return the facts that times depend on, as text; the machine's name is not among them."""
    facts = {"system": platform.system(), "architecture": platform.machine(), **machine(), **_read_gpus()}
    return {name: facts[name] for name in _KIND if name in facts}


def _read_gpus() -> dict[str, str]:
    """Return the names of NVIDIA's GPUs as reports have them, read without a framework; empty if there are none."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(_GPUS.glob("*/information"))]
    names = [name.strip() for text in texts for name in re.findall(r"^Model:(.+)", text, re.MULTILINE)]
    return {"accelerators": ", ".join(names)} if names else {}


def read_stated_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of the machine that a report states in its environment; empty if it states none.

    No report states the architecture. A report that states all other facts as they are here is of this kind of
    machine, and gets its architecture too.
    """
    facts = {name: environment[name] for name in _KIND if name in environment}
    if "os" in environment:
        facts["system"] = environment["os"].partition(" ")[0]
    here = read_machine()
    return here if facts == {name: fact for name, fact in here.items() if name != "architecture"} else facts


def digest_machine(facts: Mapping[str, str]) -> str:
    """Return the digest of a kind of machine: equal facts have an equal digest.

    >>> digest_machine({"cpu": "A", "cores": "2"}) == digest_machine({"cores": "2", "cpu": "A"})
    True
    """
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()[:16]


def describe_machine(facts: Mapping[str, str]) -> str:
    """Return a machine as text for people, without repeated facts, and without the host and the user."""
    left_out = {"host", "user"}
    if facts.get("usable_cores") == facts.get("cores"):
        left_out.add("usable_cores")
    return ", ".join(_write_fact(name, value) for name, value in facts.items() if name not in left_out)


def _write_fact(name: str, value: str) -> str:
    if name == "memory_bytes" and value.isdecimal():
        return f"{scale_value(int(value), 'B', Scale.IEC)} of memory"
    words = {
        **dict.fromkeys(("system", "architecture", "cpu"), value),
        "cores": f"{value} core" if value == "1" else f"{value} cores",
        "usable_cores": f"{value} of them usable",
    }
    return words.get(name, f"{name} {value}")
