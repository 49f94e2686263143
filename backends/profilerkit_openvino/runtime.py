"""OpenVINO's package, for all other modules: imported as if ``openvino_telemetry`` were not installed.

With it, the import alone forks a process that sends an event over the network; with threads of JAX the fork may hang.
"""

from __future__ import annotations

import sys

__all__ = ["openvino"]

_TELEMETRY = "openvino_telemetry"

_is_imported = _TELEMETRY in sys.modules
sys.modules.setdefault(_TELEMETRY, None)  # type: ignore[arg-type]
try:
    import openvino  # it has a stub for a telemetry that cannot be imported
finally:
    if not _is_imported:
        del sys.modules[_TELEMETRY]
