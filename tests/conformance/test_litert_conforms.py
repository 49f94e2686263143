"""The LiteRT backend passes the conformance suite, over files that are made by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from litert_architectures import BUILDERS, KINDS, NOT_EXPRESSIBLE, Network, build_low_precision, build_mlp
from litert_models import options

from profilerkit import ModelInputs
from profilerkit.backend import RunOptions
from profilerkit.testing import BackendConformance
from profilerkit_litert import LiteRTBackend
from profilerkit_litert.running import profiled, timing
from profilerkit_litert.running.profiled import ProfiledPass


class TestLiteRT(BackendConformance):
    backend, builders, kinds = LiteRTBackend(), BUILDERS, KINDS
    not_expressible = NOT_EXPRESSIBLE
    others: set[str] | None = None

    @pytest.fixture(autouse=True)
    def _count_a_microsecond(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have each operator take a microsecond: LiteRT rounds those of such small networks to nothing."""

        def profile_passes(*arguments: Any) -> list[ProfiledPass]:
            passes = profiled.profile_passes(*arguments)
            return [
                ProfiledPass(tuple(operator._replace(seconds=1e-6) for operator in single.operators), 1e-3)
                for single in passes
            ]

        monkeypatch.setattr(timing, "profile_passes", profile_passes)

    def call(self, model: Any, inputs: ModelInputs) -> Any:
        """Run the file by LiteRT's reference kernels, as a user does."""
        interpreter = Interpreter(model_content=model.content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        named = {**dict(zip(model.signature.inputs, inputs.args, strict=False)), **inputs.kwargs}
        outputs = interpreter.get_signature_runner("serving_default")(**named)
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    def snapshot(self, model: Any) -> Any:
        return {"bytes": model.content}

    def low_precision_model(self, dtype: str) -> Any:
        return build_low_precision(dtype)

    def threads(self) -> int:
        """Return one, and what the interpreters that are open have started: their pools are threads of theirs."""
        if not sys.platform.startswith("linux"):
            self.skip("threads are counted by /proc")
        if self.others is None:
            with self.backend.run(build_mlp(), ModelInputs(np.ones((1, 20), np.float32)), RunOptions(num_threads=1)):
                pass
        now = {path.name for path in Path("/proc/self/task").iterdir()}
        self.others = now if self.others is None else self.others & now
        return 1 + len(now - self.others)

    def raising_model(self, message: str) -> Any:
        """Return a model whose last product does not fit, and an operator of that name, which nothing can run."""

        def grow(network: Network, x: int) -> Any:
            weights = [network.constant("unfit", np.ones((7, 7), np.float32)), -1]
            network.add(message, [0], (-1, 7))
            return network.add(
                "FULLY_CONNECTED", [x, *weights], (-1, 7), name=message, options=options("FullyConnected")
            )

        return build_mlp(grow)

    def uncounted_model(self) -> Any:
        return build_mlp(lambda network, x: network.add("Unheard", [x], (-1, 10)))
