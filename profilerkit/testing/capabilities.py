"""Checks of the capabilities that a backend may have: times of layers and operators, gradients, zeros, memory."""

from __future__ import annotations

import math

from ..backend_kit.operator_join import operator_table
from ..protocols import CountsNonzero, MeasuresMemory, ReadsWeights, TimesLayers, TimesOperators, Trains
from .expectations import expect, expect_equal
from .subject import BackendSubject

__all__ = ["CapabilityChecks"]

PASSES = 3


class CapabilityChecks(BackendSubject):
    """The optional capabilities of a backend agree with its traces; tests of capabilities that it lacks are skipped."""

    def test_times_of_layers_are_of_its_layers(self) -> None:
        """If they are offered: all layers are in the trace, no time is negative, and not all times are zero."""
        architecture, model, inputs = self.make_case()
        with self.skip_where_not_offered(), self.expect_unchanged(model, "layer_times()"):
            times = self.require_capability(TimesLayers).layer_times(model, inputs, passes=PASSES, backward=False)
        paths = {layer.path for layer in self.trace_architecture(architecture).layers}
        strangers = sorted({time.path for time in times} - paths)
        expect(not strangers, f"layer_times of {architecture.name} names {strangers}, which are no layers of its trace")
        passes = {len(time.own_forward) for time in times}
        expect_equal(passes, {PASSES}, f"passes in which layer_times of {architecture.name} timed a layer")
        seconds = [second for time in times for second in time.own_forward]
        expect(min(seconds) >= 0, f"layer_times of {architecture.name} has negative times: {seconds}")
        expect(sum(seconds) > 0, f"all layers of {architecture.name} together take no time")

    def test_times_of_operators_are_of_its_layers(self) -> None:
        """If they are offered: all layers are in the trace, and the sum is at most the time of the pass."""
        architecture, model, inputs = self.make_case()
        with self.skip_where_not_offered(), self.expect_unchanged(model, "operator_times()"):
            times = self.require_capability(TimesOperators).operator_times(model, inputs, passes=PASSES, backward=False)
        paths = {layer.path for layer in self.trace_architecture(architecture).layers}
        strangers = sorted({time.layer for time in times.operators} - paths)
        expect(not strangers, f"operator_times of {architecture.name} names {strangers}, no layers of its trace")
        whole_passes = times.whole["forward"]
        expect_equal(len(whole_passes), PASSES, f"passes that operator_times of {architecture.name} timed")
        for index, whole in enumerate(whole_passes):
            items = [time.seconds[index] for time in times.operators]
            fits = items and min(items) >= 0 and 0 < sum(items) <= whole * (1 + 1e-9)
            expect(fits, f"operator_times of {architecture.name} take {items} s in a pass of {whole} s")

    def test_operator_tables_add_up_to_the_trace(self) -> None:
        """If operators are timed: the sum of their known work is at most the work of the trace."""
        architecture, model, inputs = self.make_case()
        with self.skip_where_not_offered():
            times = self.require_capability(TimesOperators).operator_times(model, inputs, passes=1, backward=False)
        trace = self.trace_architecture(architecture)
        counted = [row["macs"] for row in operator_table(times, {"forward": trace})]
        total = sum(macs for macs in counted if macs is not None)
        fits = total <= trace.macs if None in counted else total == trace.macs
        expect(fits, f"the operator table of {architecture.name} has {total} macs, its trace {trace.macs}")

    def test_steps_of_training_are_traced(self) -> None:
        """If it is offered: gradients of weights and activations are products as large as in the forward pass.

        "mlp" has one gradient for the weight of each layer, and one for the input of each layer except the first.
        """
        mlp = self.require_mlp()
        model = self.get_model(mlp)
        with self.skip_where_not_offered(), self.expect_unchanged(model, "trace_training()"):
            trace = self.require_capability(Trains).trace_training(model, self.inputs(mlp))
        first = mlp.layer_numbers(3)[1].macs
        expect_equal(trace.macs, 3 * mlp.macs(3) - first, "macs of a training step of mlp for a batch of 3")
        expect_equal(trace.missing, (), "what the counts of a training step of mlp leave out")

    def test_zeros_among_the_weights_are_counted(self) -> None:
        """If it is offered: the elements of "mlp" are counted, and the work on nonzero weights is at most all work."""
        mlp = self.require_mlp()
        model = self.get_model(mlp)
        with self.skip_where_not_offered(), self.expect_unchanged(model, "zero_weights() and trace_nonzero()"):
            zeros, elements = self.require_capability(ReadsWeights).zero_weights(model)
            expect_equal(elements, mlp.params, "the elements among which zero_weights() of mlp counts")
            expect(0 <= zeros <= elements, f"zero_weights() of mlp finds {zeros} zeros among {elements}")
            trace = self.require_capability(CountsNonzero).trace_nonzero(model, self.inputs(mlp))
        macs = mlp.macs(3)
        expect(macs - 3 * zeros <= trace.macs <= macs, f"{trace.macs} of {macs} macs of mlp are left, of {zeros} zeros")

    def test_memory_is_measured(self) -> None:
        """If it is offered: at least the inputs and outputs of "mlp", which are alive together at the end."""
        mlp = self.require_mlp()
        model = self.get_model(mlp)
        with self.skip_where_not_offered(), self.expect_unchanged(model, "measure_memory()"):
            measured = self.require_capability(MeasuresMemory).measure_memory(model, self.inputs(mlp))
        shapes = [*(spec.channels_last.shape for spec in mlp.inputs.values()), *mlp.outputs.values()]
        least = sum(3 * 4 * math.prod(shape) for shape in shapes)
        what = f"measure_memory() of mlp finds {measured} bytes"
        expect(measured >= least, f"{what}, its inputs and outputs take {least}")
